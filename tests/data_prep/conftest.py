"""Fixtures for the tests of `data_prep`."""

import pytest
from tiny_corpus import vocabulary_file


@pytest.fixture
def vocab_file(tmp_path):
    """Returns the path of the vocabulary of `tiny_corpus`."""
    return vocabulary_file(tmp_path)
