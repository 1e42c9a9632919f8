"""The form of the errors that a user can correct."""

import contextlib
import re

import pytest

from bert_tf.errors import InputError


@contextlib.contextmanager
def refused(message):
    """Checks that a block raises InputError with a message of one line."""
    with pytest.raises(InputError, match=message) as caught:
        yield caught
    assert "\n" not in str(caught.value)


def refused_exactly(message):
    """Checks that a block raises InputError with this message."""
    return refused(f"^{re.escape(message)}$")


@contextlib.contextmanager
def refused_with(*words):
    """Checks that a block raises InputError with a message that contains all words."""
    with refused(".") as caught:
        yield caught
    message = str(caught.value)
    assert all(word in message for word in words), message
