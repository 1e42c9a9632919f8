"""The exceptions that callers handle, helpers for their messages, and checks of configs."""

import dataclasses
import os
import signal
import unicodedata
from collections.abc import Collection, Sequence
from typing import Any

# The type of a parameter that is a path, local or gs://.
Path = str | os.PathLike[str]
LARGEST_INT32 = 2**31 - 1


class InputError(ValueError):
    """Invalid input: a file, a value or a combination of values.

    The message is one line: the received value, the expected value, and the remedy. The
    message names parameters; `command_line.run` prints it with flag names instead and
    exits with code 2. Any exception of another class is a bug, and `command_line.run`
    reports it with a traceback.

    Args:
        message: The message. Invisible characters in it are replaced by escapes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class TrainingInterrupted(Exception):  # noqa: N818 it is not an error
    """Training ended early because of a stop signal, after it had saved a checkpoint.

    `Trainer.train` raises this exception only if `RuntimeConfig.stop_on_signals` is
    True. `command_line.run` exits with the code 128 + `signal_number`.

    Args:
        signal_number: The number of the signal, such as 2 for SIGINT.
        step: The number of training steps done.
        overwrite: Whether the run has replaced an earlier run, because its folder was
            created with overwrite=True. Resuming needs a folder with overwrite=False.

    Attributes:
        signal_number: The argument `signal_number`.
        step: The argument `step`.
        overwrite: The argument `overwrite`.
    """

    def __init__(self, signal_number: int, step: int, overwrite: bool = False) -> None:
        super().__init__(signal_number, step, overwrite)
        self.signal_number = signal_number
        self.step = step
        self.overwrite = overwrite

    def __str__(self) -> str:
        name = signal.Signals(self.signal_number).name
        change = ", but overwrite=False" if self.overwrite else ""
        return (
            f"{name} stopped training at step {self.step}. To resume, train again with "
            f"the same arguments{change}."
        )


def plain(value: Any) -> Any:
    """Converts paths to str and NumPy values to Python values, also inside lists and dicts."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # a number or an array of NumPy
        return value.tolist()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {plain(key): plain(entry) for key, entry in value.items()}
    return value


def store_plain_values(config: Any) -> None:
    """Converts each field of a config, which is a frozen dataclass, by `plain`, in place."""
    for field in dataclasses.fields(config):
        object.__setattr__(config, field.name, plain(getattr(config, field.name)))


def check_at_least(minimum: int, config: Any, *names: str) -> None:
    """Checks that the named fields of a config are at least `minimum`, and fit into int32."""
    for name in names:
        value = getattr(config, name)
        if not value >= minimum:
            raise InputError(f"{name} must be at least {minimum}. Received: {value}.")
        if value > LARGEST_INT32:
            raise InputError(
                f"{name} must be at most {LARGEST_INT32}. Received: {value}."
            )


def check_positive(config: Any, *names: str) -> None:
    """Checks that the named fields of a config are above 0, and not NaN."""
    for name in names:
        positive(name, getattr(config, name))


def positive(name: str, value: float) -> float:
    """Returns a value as float; raises `InputError` unless it is above 0, and not NaN."""
    if not value > 0:
        raise InputError(f"{name} must be above 0. Received: {value}.")
    return float(value)


def check_between(minimum: float, maximum: float, config: Any, *names: str) -> None:
    """Checks that the named fields of a config are in [minimum, maximum]."""
    for name in names:
        value = getattr(config, name)
        if not minimum <= value <= maximum:
            raise InputError(
                f"{name} must be from {minimum} to {maximum}. Received: {value}."
            )


def check_choice(choices: Collection[str], name: str, value: str) -> None:
    """Checks that a parameter has one of the allowed values."""
    if value not in choices:
        allowed = ", ".join(choice or "''" for choice in choices)
        raise InputError(f"{name} must be one of {allowed}. Received: {value!r}.")


def check_choices(config: Any) -> None:
    """Checks that each option of a config that has choices is one of them.

    None is allowed if it is the default.
    """
    for field in dataclasses.fields(config):
        choices, value = field.metadata.get("choices"), getattr(config, field.name)
        if choices and (value, field.default) != (None, None):
            check_choice(choices, field.name, value)


def check_label_names(labels: Sequence[str], source: str) -> None:
    """Checks that labels are all different, not blank, and have no tabs and no line ends."""
    seen: set[str] = set()
    for number, label in enumerate(labels):
        is_one_line = (
            label.strip() and "\t" not in label and label.splitlines() == [label]
        )
        if not is_one_line or label in seen:
            raise InputError(
                f"{source} must have one different label in one line for each output. "
                f"Received: {label!r:.60} for {number}. Correct the labels."
            )
        seen.add(label)


def plain_message(error: Any) -> str:
    """Returns the message of a `tf.errors.OpError` without graph nodes and call stack."""
    message = error.message.split("\n\t [[")[0].split("\n\n")[-1]
    return message.split("}} ")[-1].split(" [Op:")[0]


def visible(text: str) -> str:
    r"""Replaces the control and format characters of a text by escapes, such as \r.

    Line feeds and tabs are kept. U+200C and U+200D are kept between two letters, whose
    form they change.
    """
    category = unicodedata.category
    shown = []
    for index, character in enumerate(text):
        is_kept = character in "\n\t" or category(character) not in ("Cc", "Cf")
        if character in "\u200c\u200d":
            neighbors = text[index - 1 : index] + text[index + 1 : index + 2]
            is_kept = sum(category(letter)[0] in "LM" for letter in neighbors) == 2
        shown.append(character if is_kept else ascii(character)[1:-1])
    return "".join(shown)


def shortened(names: Sequence[str], limit: int) -> str:
    """Returns the first `limit` names, separated by commas, and the number of further names."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")
