"""The one exception for input that a user can mend.

Imports nothing of ours.
"""

from typing import Any


class InputError(ValueError):
    """What the user gave cannot be used; the message says what to change.

    Library code raises it with one line: what was received, what was expected, what to change.
    Mains print that line to stderr and exit with code 2 (`command_line.run`); any other
    exception is a defect of ours and keeps its traceback.
    """


def check_at_least(minimum: int, config: Any, *names: str) -> None:
    """Checks fields of a config.

    Raises:
        InputError: A field is below the minimum; it is named with its value.
    """
    for name in names:
        value = getattr(config, name)
        if not value >= minimum:
            raise InputError(f"{name} must be at least {minimum}. Received: {value}.")


def plain_message(error: Any) -> str:
    """What a `tf.errors.OpError` says, without the graph nodes and the call stack around it."""
    message = error.message.split("\n\t [[")[0].split("\n\n")[-1]
    return message.split("}} ")[-1].split(" [Op:")[0]
