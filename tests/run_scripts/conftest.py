"""Fixtures for the tests of programs."""

import pytest
from shared_exports import exported, faster_exports

__all__ = ["exported", "faster_exports"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder of the test, which is the working directory of its programs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
