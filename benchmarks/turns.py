"""Processes that run in turns: while one works, the others wait."""

import os
import subprocess
import sys


def start(arguments, **environment):
    """Starts a Python program that prints a line `SECS x` for each line of its input."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def take(processes, turns):
    """Lets each process work once in each turn; returns the seconds of each, by its name."""
    secs = {name: [] for name in processes}
    for _ in range(turns):
        for name, process in processes.items():
            process.stdin.write("go\n")
            process.stdin.flush()
            line = next(each for each in process.stdout if each.startswith("SECS"))
            secs[name].append(float(line.split()[1]))
    for process in processes.values():
        process.stdin.close()
    return secs
