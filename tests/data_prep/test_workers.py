"""A group of worker processes ends in every case, also if one of its processes is killed."""

import subprocess
import sys

import pytest

HEAD = """
import os
import signal
import threading
import time
from bert_tf.data_prep.runners.workers import Workers, WorkerKilledError
def kill_own_process(*_):
    os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED_DURING_A_CALL = """
if __name__ == "__main__":
    try:
        with Workers(2) as workers:
            for wait in [workers.submit(kill_own_process, bytes(1 << 20)) for _ in range(9)]:
                wait()
    except WorkerKilledError as error:
        print(error)
"""
INTERRUPTED = """
if __name__ == "__main__":
    try:
        with Workers(2) as workers:
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            workers.call(time.sleep, 600)
    except KeyboardInterrupt:
        print("interrupted")
"""


def run(tmp_path, program):
    (tmp_path / "run.py").write_text(HEAD + program)
    command = [sys.executable, str(tmp_path / "run.py")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.slow
def test_a_killed_worker_is_explained(tmp_path):
    assert "most likely because memory ran out (`dmesg`" in run(tmp_path, KILLED_DURING_A_CALL)


@pytest.mark.slow
def test_an_interrupt_ends_the_processes(tmp_path):
    assert run(tmp_path, INTERRUPTED) == "interrupted\n"
