"""The form of the errors that a user can correct."""

import contextlib

import pytest

from bert_tf.errors import InputError


@contextlib.contextmanager
def refused(message):
    """Checks that a block raises InputError with a message of one line."""
    with pytest.raises(InputError, match=message) as caught:
        yield caught
    assert "\n" not in str(caught.value)
