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
            for wait in [workers.submit(kill_own_process, bytes({size})) for _ in range(9)]:
                wait()
    except WorkerKilledError as error:
        print(error)
"""
KILLED_AFTER_ITS_RESULT = """
if __name__ == "__main__":
    with Workers(2) as workers:
        os.kill(workers.call(os.getpid), signal.SIGKILL)
    print("complete")
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
ERROR = """
if __name__ == "__main__":
    try:
        with Workers(2) as workers:
            print(workers.call(int, "2"))
            workers.call(os.listdir, "missing")
    except FileNotFoundError as error:
        print(error, "Traceback" in str(error.__cause__))
"""


def run(tmp_path, program):
    (tmp_path / "run.py").write_text(HEAD + program)
    command = [sys.executable, str(tmp_path / "run.py")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1 << 20])  # of the arguments; a pipe holds 64 KiB
def test_a_killed_worker_is_explained(tmp_path, size):
    program = KILLED_DURING_A_CALL.format(size=size)
    assert "most likely because memory ran out (`dmesg`" in run(tmp_path, program)


@pytest.mark.slow
def test_a_worker_that_is_killed_after_its_result_does_not_matter(tmp_path):
    assert run(tmp_path, KILLED_AFTER_ITS_RESULT) == "complete\n"


@pytest.mark.slow
def test_an_interrupt_ends_the_processes(tmp_path):
    assert run(tmp_path, INTERRUPTED) == "interrupted\n"


@pytest.mark.slow
def test_an_error_keeps_its_type_and_its_traceback(tmp_path):
    assert run(tmp_path, ERROR) == "2\n[Errno 2] No such file or directory: 'missing' True\n"
