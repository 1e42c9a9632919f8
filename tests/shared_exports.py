"""Exported models of all kinds; each is exported once."""

import importlib.util
import os
import time

import export_models
import forked_checks
import pytest

from bert_tf.export import api, check, file_checks
from bert_tf.export.serving_settings import ServingSettings


@pytest.fixture(scope="session")
def faster_exports():
    """Forks the processes of export checks, and measures each file with few runs.

    The processes of programs and of another Python are not forked.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(check.CheckProcess, "__init__", forked_checks.initialize)
        patched.setattr(file_checks, "_MIN_SECS", 0.0)
        yield


def settings_of(kind, format):
    """Both formats.

    Only a SavedModel where LiteRT is not installed (the extra "dev").
    """
    if format == "bfloat16":
        return ServingSettings(precision=format)
    if format != "both":
        return ServingSettings(format=format)
    if importlib.util.find_spec("ai_edge_litert") is None:
        return ServingSettings()
    takes_texts = kind in export_models.KINDS_WITH_TEXT_INPUT
    precisions = export_models.lite_precisions(kind)
    return ServingSettings(
        format="both", tflite_text_input=takes_texts, tflite_precisions=precisions
    )


@pytest.fixture(scope="session")
def exported(tmp_path_factory, faster_exports):
    """A function from a kind of model to the folder of its SavedModel and TFLite files.

    With format="onnx", it returns the folder of the ONNX files of the same model, with
    "bfloat16" that of a SavedModel of this precision. The processes of a run of pytest
    share the folders, which no test may change.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    root /= "exported"
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
                api.export(path, str(folder / "served"), settings_of(kind, format))
            except BaseException:
                (folder / "failed").touch()
                raise
        return str(version)

    return export
