"""`command_line.run`: messages and exit codes for log records and exceptions."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios

import pytest
from run_programs import run_python

PROGRAM = """
import logging, os, sys, time
from absl import flags
from bert_tf.program import command_line, config_flags
from bert_tf.errors import InputError, TrainingInterrupted
from bert_tf.progress import Progress

flags.DEFINE_bool("overwrite", False, "")
config_flags.define_path("input_file", "")
config_flags.define_path("input_dirs", "", define_flag=flags.DEFINE_list)
flags.DEFINE_string("text", None, "")

def main():
    {body}

sys.argv[0] = "program"
command_line.run(main)
"""


def run(body, *flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    program = PROGRAM.format(body=body)
    command = [sys.executable, "-c", program, *flags]
    return subprocess.run(
        command,
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
        preexec_fn=with_sighup,
    )


def with_sighup():
    """Undoes what `nohup pytest` would pass to child processes: an ignored SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("body", "flags"),
    [("print('a')", []), ("print('a' * 100_000)", []), ("pass", ["--help"])],
)
def test_a_full_stdout_is_reported_in_one_line(body, flags):
    with open("/dev/full", "w") as full:
        done = run(body, *flags, stdout=full)
    message = "error: The standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_other_errors_of_the_system_keep_their_traceback():
    done = run("print('a'); open('/nowhere/x')")
    assert (
        done.returncode == 1
        and "FileNotFoundError" in done.stderr
        and done.stdout == "a\n"
    )


@pytest.mark.parametrize("flags", ["--help", ""])
def test_a_reader_that_ends_early_gives_no_message(flags):
    program = PROGRAM.format(body="print('a\\n' * 100_000)")
    shell = f"'{sys.executable}' -c \"$PROGRAM\" {flags} | head -1"
    environment = {**os.environ, "PROGRAM": program}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", shell], env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "") and len(
        done.stdout.splitlines()
    ) == 1


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("print(sys.stdin.read())", 2, "Bad file descriptor"),
        ("open('/dev/null'), sys.stderr.write(sys.stdin.read())", 0, ""),
    ],
)
def test_closed_streams(body, code, message):
    shell = f"'{sys.executable}' -c \"$PROGRAM\" <&- >&-"
    environment = {**os.environ, "PROGRAM": PROGRAM.format(body=body)}
    done = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True,
                          text=True, check=False)  # fmt: skip
    expected = f"error: The standard output cannot be written: {message}.\n"
    assert (done.returncode, done.stderr) == (code, expected if message else "")


LOG = (
    "own = logging.getLogger('bert_tf.training.x'); own.debug('a'); own.info('b\\n%d', "
    "1); own.warning('c'); other = logging.getLogger('other'); other.info('d'); "
    "other.warning('e'); own.error('f')"
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
    assert [
        f"{line[0]} other" if line[-3:-1] == "] " else line for line in lines
    ] == expected


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (
            "TrainingInterrupted(15, 7)",
            143,
            "Stopped at step 7. To resume, give the same command.",
        ),
        (
            "TrainingInterrupted(2, 7, overwrite=True)",
            130,
            "Stopped at step 7. To resume, give the same command without --overwrite.",
        ),
        (
            "os.kill(os.getpid(), 15)",
            143,
            "Interrupted. To continue, give the same command.",
        ),
        (
            "os.kill(os.getpid(), 1)",
            129,
            "Interrupted. To continue, give the same command.",
        ),
        ("KeyboardInterrupt", 130, "Interrupted. To continue, give the same command."),
        (
            "InputError('overwrite=True is wrong.')",
            2,
            "error: --overwrite=True is wrong.",
        ),
        (
            r"InputError('no a\r in \u200bb, \u06cc\u200c\u062e, \u0924\u094d\u200d\u092f')",
            2,
            "error: no a\\r in \\u200bb, \u06cc\u200c\u062e, \u0924\u094d\u200d\u092f",
        ),
    ],
)
def test_exceptions_become_messages_and_exit_codes(raised, code, message):
    done = run(f"raise {raised}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{message}\n")


@pytest.mark.parametrize(
    ("body", "printed"),
    [
        # A library drops the exception, or raises another one.
        ("try: os.kill(os.getpid(), 15)\n    except BaseException: pass", ""),
        (
            "try:\n        try: os.kill(os.getpid(), 15)\n"
            "        except BaseException: pass\n"
            "        raise KeyError\n"
            "    except BaseException as error: raise TypeError",
            "",
        ),
        # What cleans up is not disturbed.
        ("try: os.kill(os.getpid(), 15)\n    finally: print('removed')", "removed\n"),
        ("os.kill(os.getpid(), 15); print('more work')", ""),
    ],
    ids=["dropped", "other_error", "clean_up", "more_work"],
)
def test_a_program_ends_after_sigterm_whatever_happens_to_the_exception(body, printed):
    done = run(body)
    expected = (143, printed, "Interrupted. To continue, give the same command.\n")
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_a_program_that_nohup_started_ignores_sighup():
    program = PROGRAM.format(body="os.kill(os.getpid(), 1)")
    done = subprocess.run(["nohup", sys.executable, "-c", program], capture_output=True)
    assert done.returncode == 0


PROGRESS = (
    "progress = Progress('reading', 20, 'files', 10)\n"
    "    with progress: progress.update(5, 'loss 1')"
)


def test_progress_is_logged_if_stderr_is_not_a_terminal():
    (line,) = run(PROGRESS).stderr.splitlines()
    assert line.startswith("reading: 15 of 20 files, ") and line.endswith(
        " s left, done"
    )
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


def test_paths_start_at_the_home_folder_also_where_the_shell_does_not_expand_them():
    done = run(
        "print(flags.FLAGS.input_file, flags.FLAGS.input_dirs, flags.FLAGS.text)",
        "--input_file=~/a.txt,b/~/c,~/d*", "--input_dirs=~,x", "--text=~/x",
    )  # fmt: skip
    home = os.path.expanduser("~")
    expected = f"{home}/a.txt,b/~/c,{home}/d* {[home, 'x']} ~/x\n"
    assert (done.returncode, done.stdout) == (0, expected)


def test_commands_name_the_programs_as_the_user_called_them():
    body = "raise InputError('Next: python run_scripts/export_model.py --a=1')"
    installed = run(body)
    program = PROGRAM.format(body=body).replace('"program"', '"run_scripts/x.py"')
    in_clone = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert installed.stderr == "error: Next: bert-tf-export-model --a=1\n"
    assert in_clone.stderr == "error: Next: python run_scripts/export_model.py --a=1\n"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--overwrite=yes",
            "error: --overwrite=yes must be true or false. See --help.\n",
        ),
        (
            "--flagfile=/none",
            "error: Unable to open flagfile: [Errno 2] No such file or directory: "
            "'/none'. See --help.\n",
        ),
        (
            "--input_file=a,/none\r",
            "error: --input_file ends with a control character. Received: "
            r"'/none\r'. Remove it. In a script with Windows line ends, it is at the "
            "end of each line: sed -i 's/\\r$//' SCRIPT.\n",
        ),
        (
            os.fsdecode(b"--input_file=caf\xe9"),
            "error: The name b'caf\\xe9' is not UTF-8. Rename it.\n",
        ),
    ],
)
def test_a_flag_that_is_refused_is_named_with_its_value(flag, message):
    done = run("pass", flag)
    assert (done.returncode, done.stderr) == (2, message)


def test_the_rate_of_work_that_takes_no_time_is_not_shown():
    body = (
        "for secs in (0, 0.2):\n"
        "        with Progress('writing', 30, 'examples') as shown:\n"
        "            time.sleep(secs), shown.update(30)"
    )
    fast, slow = run(body).stderr.splitlines()
    assert fast == "writing: 30 of 30 examples, done"
    assert slow.startswith("writing: 30 of 30 examples, 1") and slow.endswith(
        " examples/s, done"
    )


@pytest.mark.parametrize("start", ["", "# a comment\r\n", "\r\n"])
def test_a_flag_file_of_windows(tmp_path, start):
    path, existing = tmp_path / "flags", tmp_path / "a\r"
    existing.touch()
    path.write_text(f"{start}--text=b\r\n--overwrite\r\n", "utf-8-sig", newline="")
    done = run(
        "print(flags.FLAGS.text, flags.FLAGS.overwrite)",
        f"--flagfile={path}",
        f"--input_file={existing}",
    )
    assert (done.stdout, done.stderr) == ("b True\n", "")


def test_python_without_docstrings_is_refused():
    program = PROGRAM.format(body="pass")
    done = run_python("-OO", "-c", program, code=2)
    assert done.stderr.startswith("error: bert-tf needs docstrings")
