"""Runs the main programs: parses flags, prints help, reports errors in one line.

This module defines no flags. It does not import TensorFlow, so that `--help` and errors
in flags take a fraction of a second.
"""

import contextlib
import importlib.metadata
import inspect
import io
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging

from bert_tf import backend, progress
from bert_tf.errors import InputError, TrainingInterrupted, visible
from bert_tf.program import startup
from bert_tf.program.config_flags import FLAG_NAMES, PATHS
from bert_tf.program.help_text import REQUIRED, help_text, name_programs
from bert_tf.storage.paths import check_utf8

EXIT_OK = 0
EXIT_INPUT = 2
# The mark that editors of Windows write at the start of a file, here of a --flagfile.
_MARK = "\ufeff"
_NOT_BOOLEAN = re.compile(r"flag (--\w+=.*): \('Non-boolean argument")
_PACKAGES = ("tensorflow", "keras", "tensorflow-text")
_HELP_FLAGS = {
    "-?",
    "-h",
    "--help",
    "-help",
    "--helpshort",
    "--helpfull",
    "--help=true",
}


class StopSignals:
    """Raises `SystemExit` on SIGTERM or SIGHUP, so that the program cleans up.

    The attribute `received` is the number of the first signal; 0 before any signal.
    """

    received = 0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handles the signals until the end of the context.

        After a signal, the context ends with `SystemExit` with the code 128 + the
        number of the signal, whatever exception its block raised: in a Keras layer,
        `SystemExit` becomes a TypeError. SIGHUP stays ignored in a program that `nohup`
        started.
        """
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._handle)
        try:
            yield
        except BaseException:
            if not self.received:
                raise
        if self.received:
            sys.exit(128 + self.received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = self.received or number
        sys.exit(128 + self.received)


def run(main: Callable[..., None], takes_command: bool = False) -> None:
    """Parses the flags, calls `main` and exits. Every main program ends with this call.

    Exit codes: 0 success; 2 invalid flag or input (one line on stderr states the
    remedy); 128 + N if the signal N (SIGINT, SIGTERM or SIGHUP) ended the program. Any
    other exception is a bug and is reported with a traceback.

    The log records of bert-tf appear on stderr as bare messages.

    Args:
        main: A function that reads its flags from `absl.flags.FLAGS`. It checks the
            flags, calls `startup.import_tensorflow` and then imports the modules that
            import TensorFlow. `--help` prints the docstring and the key flags of the
            module of `main`.
        takes_command: Whether `main` has one argument, the list of the words after "--"
            on the command line.
    """
    _open_closed_streams()
    for output in (sys.stdout, sys.stderr):
        # A stream that a caller has set is left as it is.
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(encoding="utf-8", errors="backslashreplace")

    def call(argv: Sequence[str]) -> None:
        show_log_records()
        if len(argv) > 1 and not takes_command:
            fail(
                f"{argv[1]!r} is not a flag. Flags are written --name=value; see "
                "--help."
            )

        # Each way to end has its exit code.
        stop_signals = StopSignals()
        try:
            with stop_signals.handled(), _explained_stdout_errors():
                # A check of the flags may need TensorFlow's file systems.
                paths = [_as_text(flags.FLAGS[name].value) for name in _path_flags()]
                for path in paths:
                    check_utf8(path)
                if any("://" in path for path in paths):
                    has_backend = "backend" in flags.FLAGS
                    startup.import_backend(
                        flags.FLAGS.backend if has_backend else "tensorflow"
                    )
                main(argv[1:]) if takes_command else main()
        except InputError as error:
            fail(str(error))
        except TrainingInterrupted as stopped:
            without = " without --overwrite" if stopped.overwrite else ""
            print(
                f"Stopped at step {stopped.step}. To resume, give the same command"
                f"{without}.",
                file=sys.stderr,
            )
            sys.exit(128 + stopped.signal_number)
        except KeyboardInterrupt:
            _explain_interruption()
            sys.exit(128 + signal.SIGINT)
        finally:
            if stop_signals.received:
                _explain_interruption()

    app.run(call, flags_parser=lambda argv: _parse(argv, inspect.getmodule(main)))


def _open_closed_streams() -> None:
    """Opens the standard streams that are closed, as after >&- in a shell.

    Otherwise, Python would discard what is printed, and another file could get the
    descriptor of a stream. The new stdin is empty, and writing to the new stdout fails.
    """
    null = os.devnull
    sys.stdin = sys.stdin or os.fdopen(os.open(null, os.O_RDONLY))
    sys.stdout = sys.stdout or os.fdopen(os.open(null, os.O_RDONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(null, os.O_WRONLY), "w")


def _explain_interruption() -> None:
    # The program may have removed the earlier files already, or not yet.
    without = ", without --overwrite if the earlier files are removed already"
    is_given = "overwrite" in flags.FLAGS and bool(flags.FLAGS["overwrite"].value)
    print(
        f"Interrupted. To continue, give the same command{without * is_given}.",
        file=sys.stderr,
    )


def _as_text(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _path_flags() -> Iterator[str]:
    return filter(PATHS.__contains__, flags.FLAGS)


@contextlib.contextmanager
def _explained_stdout_errors() -> Iterator[None]:
    """Flushes stdout at the end; exits with an error line if stdout cannot be written.

    If the program that reads stdout, such as `head`, has ended, the rest of the output
    is ignored.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        # Without a buffer, a flush has nothing to write, so the text of another line is
        # written.
        if error.filename is not None or _can_write_stdout("\n"):
            raise
        fail(f"The standard output cannot be written: {error.strerror}.")


def _can_write_stdout(text: str = "") -> bool:
    """Writes a text and flushes stdout; if that fails, discards the text and returns False."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        _discard_stdout()
        return False
    return True


def _discard_stdout() -> None:
    """Redirects stdout to /dev/null, so that the flush at the exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _BareMessages(logging.Formatter):
    """Formats log records of bert-tf as bare messages, and all other records as absl does."""

    def __init__(self, others: logging.Formatter | None) -> None:
        super().__init__()
        self._others = others or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] != "bert_tf":
            return self._others.format(record)
        return name_programs(visible(super().format(record)), sys.argv[0])


def show_log_records() -> None:
    """Shows the log records and the progress of bert-tf on stderr.

    Without --verbosity, shows records of bert-tf from level INFO and of other libraries
    from level WARNING. On a terminal, progress is shown as a bar.
    """
    handler = absl_logging.get_absl_handler().python_handler
    handler.setFormatter(_BareMessages(handler.formatter))
    if not flags.FLAGS["verbosity"].present:
        # TensorFlow logs every saved file at level INFO, through absl and through
        # logging.
        absl_logging.set_verbosity(absl_logging.WARNING)
        logging.getLogger("tensorflow").setLevel(logging.WARNING)
        own = logging.getLogger("bert_tf")
        # --logger_levels may have set the level.
        own.setLevel(own.level or logging.INFO)
    if sys.stderr.isatty():
        progress.draw_bars()


def fail(message: str) -> NoReturn:
    """Prints the message as one line on stderr and exits with code 2."""
    _can_write_stdout()
    words = visible(_name_flags(message)).split()
    line = name_programs(" ".join(words), sys.argv[0])
    print(f"error: {line}", file=sys.stderr)
    sys.exit(EXIT_INPUT)


def _name_flags(message: str) -> str:
    """Replaces parameter names with flag names in an error message of the library.

    A name without an underscore may be an ordinary word. It is replaced only in
    `name=value` and, at the start of the message, in `name must be` and `name has no`.
    """

    def replace(match: re.Match[str]) -> str:
        name = FLAG_NAMES.get(match[0], match[0])
        ends = ("=", *([" must be", " has no"] if match.start() == 0 else []))
        is_parameter = "_" in name or message.startswith(ends, match.end())
        return f"--{name}" if name in flags.FLAGS and is_parameter else match[0]

    return re.sub(r"(?<![\w/.-])[a-z]\w*(?![\w/-]|\.\w)", replace, message)


def _parse(argv: Sequence[str], module: Any) -> list[str]:
    if _HELP_FLAGS.intersection(argv[1:]):
        with _explained_stdout_errors():
            print(help_text(module, argv[0]))
        sys.exit(EXIT_OK)
    if "--version" in argv[1:]:
        version = importlib.metadata.version
        versions = [f"{name} {version(name)}" for name in _PACKAGES]
        print(f"bert-tf {version('bert-tf')} ({', '.join(versions)})")
        sys.exit(EXIT_OK)

    # A flag of absl, or a --flagfile, may raise ValueError.
    try:
        words = flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=False)
        is_comment = re.compile(f"{_MARK}(#|//|$)").match
        words = [word.removeprefix(_MARK) for word in words if not is_comment(word)]
        words = flags.FLAGS([argv[0], *words])
    except (flags.Error, ValueError) as error:
        message = str(error).removeprefix("ERROR:: ")
        if missing := re.search(rf"Flag --(\S+) {REQUIRED}", message):
            message = f"--{missing[1]} is required."
        if wrong := _NOT_BOOLEAN.match(message):
            message = f"{wrong[1]} must be true or false."
        fail(f"{message}{'' if message.endswith(('.', '?')) else '.'} See --help.")

    for name in _path_flags():
        flag = flags.FLAGS[name]
        flag.value = _expand_home(flag.value)
        _check_end(name, flag.value)
    return words


def _check_end(name: str, value: Any) -> None:
    """Exits with an error if a path ends with a control character and does not exist."""
    for path in _as_text(value).split(","):
        if re.search(r"[\x00-\x1f\x7f-\x9f]\Z", path) and not os.path.exists(path):
            fail(
                f"--{name} ends with a control character. Received: {path!r}. Remove "
                "it. In a script with Windows line ends, it is at the end of each "
                r"line: sed -i 's/\r$//' SCRIPT."
            )


def _expand_home(value: Any) -> Any:
    """Replaces ~ where the shell does not, as in --input_file=~/a,~/b."""
    if isinstance(value, list):
        return [_expand_home(path) for path in value]
    if isinstance(value, str):
        return ",".join(map(os.path.expanduser, value.split(",")))
    return value


# This check comes first, because --help prints the docstring of the program.
try:
    backend.check_docstrings()
except InputError as error:
    fail(str(error))
