"""Exported models of all kinds; each is exported once."""

import importlib.util
import os
import time

import export_models
import forked_checks
import pytest

from bert_tf.export import (
    export_check,
    exporter,
    lite_or_onnx_checks_and_speed,
    saved_model_writing,
)
from bert_tf.export.serving_settings import ServingSettings


@pytest.fixture(scope="session", autouse=True)
def processes_of_checks():
    """Forks the processes of export checks, except those of programs and of another Python."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            export_check.CheckProcess, "__init__", forked_checks.initializer()
        )
        yield


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
    monkeypatch.setattr(export_check, "CheckProcess", _NoProcess)
    for module in (saved_model_writing, lite_or_onnx_checks_and_speed):
        monkeypatch.setattr(module, "outputs_of", lambda *_: [])
    monkeypatch.setattr(
        export_check, "judge", lambda *_: {"outputs": [], "metric": None}
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


def settings_of(kind, format):
    """Both formats.

    Only a SavedModel where LiteRT is not installed (the extra "dev").
    """
    if format != "both":
        return ServingSettings(format=format)
    if importlib.util.find_spec("ai_edge_litert") is None:
        return ServingSettings()
    takes_texts = kind in export_models.KINDS_WITH_TEXT_INPUT
    precisions = export_models.LITE_PRECISIONS[kind]
    return ServingSettings(
        format="both", tflite_text_input=takes_texts, tflite_precisions=precisions
    )


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A function from a kind of model to the folder of its SavedModel and TFLite files.

    With format="onnx", it returns the folder of the ONNX files of the same model. The
    processes of a run of pytest share the folders.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent / "exported"
        root.mkdir(exist_ok=True)

    def export(kind, format="both"):
        folder = root / (kind if format == "both" else f"{kind}_{format}")
        version = folder / "served/1"
        try:
            folder.mkdir()
        except FileExistsError:
            end = time.monotonic() + 300
            while not version.exists():  # another process exports this model
                assert time.monotonic() < end and not (folder / "failed").exists()
                time.sleep(0.1)
        else:
            try:
                path, _ = export_models.write_checkpoint(kind, folder)
                exporter.export(path, str(folder / "served"), settings_of(kind, format))
            except BaseException:
                (folder / "failed").touch()
                raise
        return str(version)

    return export
