"""Fixtures for the tests of programs."""

import pathlib

import pytest


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of the test, which is the working directory of its programs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
