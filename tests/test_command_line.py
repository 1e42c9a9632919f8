"""`command_line.run`: log records and exceptions of the library as messages and exit codes."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

PROGRAM = """
import logging, os, sys
from absl import flags
from bert_tf import command_line
from bert_tf.errors import InputError, TrainingInterrupted
from bert_tf.progress import Progress

flags.DEFINE_bool("overwrite", False, "")

def main():
    {body}

sys.argv[0] = "program"
command_line.run(main)
"""


def run(body, *flags, stderr=subprocess.PIPE):
    program = PROGRAM.format(body=body)
    command = [sys.executable, "-c", program, *flags]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)


LOG = (
    "own = logging.getLogger('bert_tf.training.x'); own.debug('a'); own.info('b\\n%d', 1); "
    "own.warning('c'); "
    "other = logging.getLogger('other'); other.info('d'); other.warning('e'); "
    "own.error('f')"
)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], ["b", "1", "c", "W other", "f"]),
        (["--verbosity=-1"], ["c", "W other", "f"]),
        (["--verbosity=-2"], ["f"]),
        (["--verbosity=1"], ["a", "b", "1", "c", "I other", "W other", "f"]),
        (["--logger_levels=bert_tf:WARNING"], ["c", "W other", "f"]),
    ],
)
def test_records_of_the_library_appear_as_bare_messages(flags, expected):
    done = run(LOG, *flags)
    assert done.returncode == 0 and done.stdout == ""
    lines = done.stderr.splitlines()
    # absl's prefix: the level, the date, the time, the thread, the file and the line.
    assert [f"{line[0]} other" if line[-3:-1] == "] " else line for line in lines] == expected


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        ("TrainingInterrupted(15, 7)", 143,
         "Stopped at step 7. To resume, give the same command."),
        ("TrainingInterrupted(2, 7, overwrite=True)", 130,
         "Stopped at step 7. To resume, give the same command without --overwrite."),
        ("KeyboardInterrupt", 130, "Interrupted. To resume, give the same command."),
        ("InputError('overwrite=True is wrong.')", 2, "error: --overwrite=True is wrong."),
    ],
)  # fmt: skip
def test_exceptions_become_messages_and_exit_codes(raised, code, message):
    done = run(f"raise {raised}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{message}\n")


PROGRESS = (
    "progress = Progress('reading', 20, 'files', 10)\n"
    "    with progress: progress.update(5, 'loss 1')"
)


def test_progress_is_logged_if_stderr_is_not_a_terminal():
    (line,) = run(PROGRESS).stderr.splitlines()
    assert line.startswith("reading: 15 of 20 files, ") and line.endswith(" s left, done")
    assert run(PROGRESS, "--verbosity=-1").stderr == ""


@pytest.mark.parametrize(("flags", "drawn"), [([], True), (["--verbosity=-1"], False)])
def test_progress_is_a_bar_on_a_terminal(flags, drawn):
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    assert run(PROGRESS, *flags, stderr=writer).returncode == 0
    os.close(writer)
    os.set_blocking(reader, False)
    try:
        text = os.read(reader, 100_000).decode()
    except (BlockingIOError, OSError):  # nothing was written
        text = ""
    os.close(reader)
    assert ("15/20" in text and "loss 1" in text) == drawn
    assert "reading: 15 of 20" not in text


def test_a_program_that_configures_no_logging_shows_no_progress():
    program = f"from bert_tf.progress import Progress\nif True:\n    {PROGRESS}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
