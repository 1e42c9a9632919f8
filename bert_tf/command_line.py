"""Runs the main programs: parses flags, prints help, reports an `InputError` in one line.

This module defines no flags. Imports `errors`, `progress` and absl.
"""

import inspect
import logging
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging

from bert_tf import progress
from bert_tf.errors import InputError, TrainingInterrupted

EXIT_OK, EXIT_INPUT, EXIT_INTERRUPTED = 0, 2, 130
# The name of the flag for each library parameter whose flag has another name.
_FLAG_OF_PARAMETER = {"global_batch_size": "train_batch_size"}
_HELP_FLAGS = {"-?", "-h", "--help", "-help", "--helpshort", "--helpfull", "--help=true"}


def run(main: Callable[[], None]) -> None:
    """Parses the flags, calls `main` and exits. Every main program ends with a call of `run`.

    Exit codes: 0 success; 2 invalid flag or input (one line on stderr states the remedy); 130
    interrupted from the keyboard; 128 + N if signal N ended training after a checkpoint. Any other
    exception is a bug and is reported with a traceback.

    The log records of bert-tf appear on stderr as bare messages.

    Args:
        main: A function without arguments that reads its flags from `absl.flags.FLAGS`. `--help`
            prints the docstring and the key flags of the module that defines `main`.
    """

    def call(argv: Sequence[str]) -> None:
        show_log_records()
        if len(argv) > 1:
            fail(f"{argv[1]!r} is not a flag. Flags are written --name=value; see --help.")
        try:
            main()
        except InputError as error:
            fail(str(error))
        except TrainingInterrupted as stopped:
            without = " without --overwrite" if stopped.overwrite else ""
            command = f"the same command{without}"
            print(f"Stopped at step {stopped.step}. To resume, give {command}.", file=sys.stderr)
            sys.exit(128 + stopped.signal_number)
        except BrokenPipeError:
            # The program that reads stdout, such as `head`, has ended. Python flushes stdout at
            # exit. Redirecting stdout to /dev/null prevents an error in that flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            print("Interrupted. To resume, give the same command.", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)

    app.run(call, flags_parser=lambda argv: _parse(argv, inspect.getmodule(main)))


class _BareMessages(logging.Formatter):
    """Formats the records of bert-tf as bare messages, and all others as absl does."""

    def __init__(self, others: logging.Formatter | None) -> None:
        super().__init__()
        self._others = others or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        is_own = record.name.partition(".")[0] == "bert_tf"
        return super().format(record) if is_own else self._others.format(record)


def show_log_records() -> None:
    """Shows the log records and the progress of bert-tf on stderr.

    Without --verbosity, shows records of bert-tf from level INFO and of other libraries from level
    WARNING. On a terminal, progress is shown as a bar.
    """
    handler = absl_logging.get_absl_handler().python_handler
    handler.setFormatter(_BareMessages(handler.formatter))
    if not flags.FLAGS["verbosity"].present:
        # TensorFlow logs every saved file at level INFO, through absl and through logging.
        absl_logging.set_verbosity(absl_logging.WARNING)
        logging.getLogger("tensorflow").setLevel(logging.WARNING)
        own = logging.getLogger("bert_tf")
        own.setLevel(own.level or logging.INFO)  # --logger_levels may have set the level
    if sys.stderr.isatty():
        progress.draw_bars()


def fail(message: str) -> NoReturn:
    """Prints the message as one line on stderr and exits with code 2."""
    print(f"error: {' '.join(_name_flags(message).split())}", file=sys.stderr)
    sys.exit(EXIT_INPUT)


def _name_flags(message: str) -> str:
    """Replaces parameter names with flag names in an error message of the library.

    A name without an underscore may be an ordinary word, so such a name is replaced only in
    `name=True` and `name=False`.
    """

    def replace(match: re.Match[str]) -> str:
        name = _FLAG_OF_PARAMETER.get(match[0], match[0])
        is_parameter = "_" in name or message.startswith(("=True", "=False"), match.end())
        return f"--{name}" if name in flags.FLAGS and is_parameter else match[0]

    return re.sub(r"(?<![\w/.-])[a-z]\w*(?![\w/-]|\.\w)", replace, message)


def _parse(argv: Sequence[str], module: Any) -> list[str]:
    if _HELP_FLAGS.intersection(argv[1:]):
        print(help_text(module))
        sys.exit(EXIT_OK)
    try:
        return flags.FLAGS(list(argv))
    except flags.Error as error:
        missing = re.search(r"Flag --(\S+) must have a value other than None", str(error))
        fail(f"--{missing[1]} is required. See --help." if missing else f"{error} See --help.")


def help_text(module: Any) -> str:
    """Returns the module's docstring, then the meaning and default of each key flag."""
    parts = [inspect.cleandoc(module.__doc__ or ""), "", "Flags:"]
    for flag in sorted(flags.FLAGS.get_key_flags_for_module(module), key=lambda flag: flag.name):
        kind = {"bool": "true|false", "string": "text"}.get(flag.flag_type(), flag.flag_type())
        choices = getattr(flag.parser, "enum_values", None)
        if choices:
            kind = "|".join(choices)
        parts.append(f"  --{flag.name}={kind}")
        text = (flag.help or "").strip()
        if flag.default not in (None, ""):
            # No line break between the two words: textwrap does not break at this character.
            text += f" Default:\xa0{flag.default_as_str[1:-1]}."
        filled = textwrap.fill(text, 96, initial_indent="      ", subsequent_indent="      ")
        parts.append(filled.replace("\xa0", " "))
    return "\n".join(parts)
