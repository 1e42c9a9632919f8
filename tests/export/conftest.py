"""Fixtures for the tests of exports."""

import os

import pytest
from shared_exports import exported, faster_exports

from bert_tf.export import check, file_checks, saved_model_writing

__all__ = ["exported", "faster_exports"]


@pytest.fixture(autouse=True)
def fork_processes(faster_exports):
    """Applies `faster_exports` to all exports of this folder."""


class _NoProcess:
    def run(self, paths, *_):
        return [[] for _ in paths]

    def close(self):
        pass


@pytest.fixture
def without_export_check(monkeypatch):
    """Exports do not start another process.

    For tests that compare the outputs themselves.
    """
    monkeypatch.setattr(check, "CheckProcess", _NoProcess)
    for module in (saved_model_writing, file_checks):
        monkeypatch.setattr(module, "outputs_of", lambda *_: [])
    monkeypatch.setattr(
        check, "judge", lambda *_, **__: {"outputs": [], "metric": None}
    )


@pytest.fixture(scope="session")
def older_python():
    """The Python program of an environment with TensorFlow 2.20.

    See test_older_tensorflow.py.
    """
    return python_of("BERT_TF_OLDER_PYTHON")


@pytest.fixture(scope="session")
def oldest_python():
    """The Python program of an environment with TensorFlow 2.12.1."""
    return python_of("BERT_TF_OLDEST_PYTHON")


def python_of(variable):
    """Returns the Python program that an environment variable names."""
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set: see tests/export/test_older_tensorflow.py")
    return os.environ[variable]
