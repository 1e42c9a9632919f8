"""SavedModels in environments with older versions of TensorFlow, without bert-tf.

run_scripts/test.sh --slow makes the environments. BERT_TF_OLDER_PYTHON is the path of
the Python program of the one with TensorFlow 2.20. BERT_TF_OLDER_TEXT is a folder with
the package tensorflow-text 2.20.0, which TensorFlow Serving contains; the environment
itself has version 2.20.1. BERT_TF_OLDEST_PYTHON is that of the environment with
TensorFlow 2.12.1 and tensorflow-text 2.12.1, which TensorFlow Serving contained until
April 2026.
"""

import contextlib
import os
import pathlib
import pickle
import subprocess

import export_models
import pytest

import bert_tf
from bert_tf.export import check, check_process, saved_model_writing
from bert_tf.export.served import load_served
from bert_tf.export.signature_requests import example_requests

LIST_OPERATIONS = """
import tensorflow as tf, tensorflow_text
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session as session
content = session.TF_GetBuffer(session.TF_GetAllOpList())
print(*sorted(each.name for each in op_def_pb2.OpList.FromString(content).op))
"""


def import_text_version(monkeypatch, version):
    """Lets new processes of the older Python import this version of tensorflow-text."""
    if version == "2.20.0":
        folder = os.environ.get("BERT_TF_OLDER_TEXT")
        if not folder:
            pytest.skip("BERT_TF_OLDER_TEXT is not set")
        monkeypatch.setenv("PYTHONPATH", folder)


@pytest.mark.slow
def test_all_signatures_give_the_same_outputs_in_tensorflow_2_12(
    exported, oldest_python, tmp_path, monkeypatch
):
    """Its NumPy 1.24 has other names for the modules of arrays than NumPy 2."""

    def dump(requests, file):
        content = pickle.dumps(requests, protocol=0)
        file.write(content.replace(b"cnumpy._core.", b"cnumpy.core."))

    monkeypatch.setattr(check.pickle, "dump", dump)
    compare_outputs(exported, oldest_python, export_models.KINDS, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.20.1", "2.20.0"])
def test_all_signatures_give_the_same_outputs(
    exported, older_python, version, tmp_path, monkeypatch
):
    # Both versions have the same operations, and TensorFlow Serving contains 2.20.0.
    kinds = export_models.KINDS if version == "2.20.0" else ["span"]
    import_text_version(monkeypatch, version)
    found = [
        older_python,
        "-c",
        "import tensorflow_text; print(tensorflow_text.__version__)",
    ]
    done = subprocess.run(found, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == version
    compare_outputs(exported, older_python, kinds, tmp_path)


def compare_outputs(exported, python, kinds, tmp_path):
    """Checks the outputs of exports of this version in an environment with another."""
    folders = [exported(kind) for kind in kinds]
    served, signatures, requests = {}, {}, {}
    for kind in kinds:
        path, _ = export_models.write_checkpoint(kind, tmp_path)
        served[kind] = load_served(bert_tf.load(path))
        served[kind].model.skip_padding = True  # as in each SavedModel
        signatures[kind] = served[kind].signatures()
        requests[kind] = saved_model_writing.warm_up_requests(served[kind])
        requests[kind] += example_requests(
            served[kind], signatures[kind], check.EXAMPLES, ()
        )
    with contextlib.closing(check.CheckProcess(python)) as process:
        found = process.run(folders, list(requests.values()))
    for kind, outputs in zip(kinds, found, strict=True):
        expected = check_process.outputs_of(signatures[kind], requests[kind])
        limits = check.LIMITS["float32"]
        report = check.judge(served[kind], requests[kind], expected, outputs, limits)
        assert {each["signature"] for each in report["outputs"]} == set(
            signatures[kind]
        )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.20.1", "2.20.0", "2.12.1"])
def test_the_lists_of_operations_are_those_of_the_older_versions(
    request, version, monkeypatch
):
    oldest = version == "2.12.1"
    python = request.getfixturevalue("oldest_python" if oldest else "older_python")
    import_text_version(monkeypatch, version)
    done = subprocess.run(
        [python, "-c", LIST_OPERATIONS], capture_output=True, text=True, check=True
    )
    name = f"tensorflow_{version[:4].replace('.', '_')}_operations.txt"
    listed = pathlib.Path(__file__).parent.parent / "golden" / name
    assert listed.read_text("utf-8").split() == done.stdout.split()
