"""A C program that uses the C API of TensorFlow, as a server, gives equal answers."""

import glob
import pathlib
import shutil
import subprocess
import sys

import export_models
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.saved_model_loading import read_graph

SOURCE = pathlib.Path(__file__).with_name("client.c")
TEXTS = {
    "text": "a [MASK] b Ž", "text_a": "a b", "text_b": "c é", "question": "a b",
    "context": "c d e f g h a b c d  é f g", "choices": "a b|c Ž|h",
}  # fmt: skip


PLACES = """
import os, tensorflow as tf, tensorflow_text
operations = os.path.join(os.path.dirname(tensorflow_text.__file__), "python/ops")
print(tf.sysconfig.get_include(), tf.sysconfig.get_lib(), operations, sep="\\n")
"""


@pytest.fixture(scope="module", params=["this version", "2.20"])
def client(request, tmp_path_factory):
    """The compiled program, and the libraries with the operations of the tokenizer."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("requires a C compiler")
    older = request.param == "2.20"
    python = request.getfixturevalue("older_python") if older else sys.executable
    done = subprocess.run(
        [python, "-c", PLACES], capture_output=True, text=True, check=True
    )
    include, libraries, operations = done.stdout.splitlines()[-3:]
    program = tmp_path_factory.mktemp("client") / "client"
    names = ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]
    subprocess.run(
        [compiler, "-Wall", "-Werror", "-O1", f"-I{include}", SOURCE, "-o",
         str(program), f"-L{libraries}", *(f"-l:{name}" for name in names),
         f"-Wl,-rpath,{libraries}"],
        check=True,
    )  # fmt: skip
    found = glob.glob(f"{operations}/_fast_*.so")
    return str(program), ",".join(each for each in found if "sentencepiece" not in each)


def tensors_of(folder):
    """Returns the names of the input and output tensors of `serving_default`."""
    signature = read_graph(folder).signature_def["serving_default"]
    return tuple(
        {name: info.name for name, info in each.items()}
        for each in (signature.inputs, signature.outputs)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pair", "span", "tagging", "choice", "fill_mask"])
def test_the_c_program_prints_the_outputs_of_python(client, exported, kind):
    folder = exported(kind)
    inputs, outputs = tensors_of(folder)
    program, libraries = client
    done = subprocess.run(
        [program, folder, libraries, ",".join(inputs.values()),
         ",".join(outputs.values()), *(TEXTS[name] for name in inputs)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [[] for _ in outputs]
    for line in done.stdout.splitlines():
        number, value = line.split(" ", 1)
        found[int(number)].append(value)
    model = tf.saved_model.load(folder)
    texts = {
        name: [TEXTS[name].split("|") if name == "choices" else TEXTS[name]]
        for name in inputs
    }
    expected = export_models.call(model.signatures["serving_default"], **texts)
    for name, values in zip(outputs, found, strict=True):
        wanted = expected[name].reshape(-1)
        if wanted.dtype == object:
            assert values == [text.decode() for text in wanted], name
        else:
            np.testing.assert_allclose(np.array(values, float), wanted, atol=1e-6)
