"""The tokenizer as part of what is exported: a SavedModel in another process, and TFLite."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tokenization import BertTokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abxσς,中=", *(f"##{c}" for c in "abxσς")]
TEXTS = ["a,b AB", "ΑΣ aΣ Σa", "", "x" * 201, "é" * 150 + " a≠", "中a b\u0301", "ax" * 40]
OURS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}

# tensorflow_text is imported for its operations only; nothing of ours is.
LOAD = """
import sys, numpy as np, tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
assert not any(name.startswith("bert_tf") for name in sys.modules)
texts = open(sys.argv[2], "rb").read().split(b"\\n")
ids = model.tokenize(tf.constant(texts))
np.savez(sys.argv[3], values=ids.values, splits=ids.row_splits)
"""


class Exported(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(self, texts):
        return self.tokenizer.tokenize(texts)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def lite(self, texts):
        return self.tokenizer.pack(self.tokenizer.tokenize_in_lite(texts), seq_length=32)


def saved_and_loaded(tokenizer, texts, folder):
    tf.saved_model.save(Exported(tokenizer), str(folder / "model"))
    (folder / "texts").write_bytes(b"\n".join(texts))
    (folder / "load.py").write_text(LOAD)
    command = [sys.executable, "load.py", "model", "texts", "ids.npz"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return np.load(folder / "ids.npz")


def assert_same_in_another_process(tokenizer, texts, folder):
    found = saved_and_loaded(tokenizer, texts, folder)
    expected = tokenizer.tokenize(texts)
    np.testing.assert_array_equal(found["values"], expected.values)
    np.testing.assert_array_equal(found["splits"], expected.row_splits)


def test_saved_model_in_another_process(tmp_path):
    texts = [*(text.encode() for text in TEXTS), b"a\xffb"]
    assert_same_in_another_process(BertTokenizer(TOKENS), texts, tmp_path)


@pytest.mark.slow
def test_saved_model_on_100000_lines(tmp_path, test_data):
    tokenizer = BertTokenizer(str(test_data / "data/vocab/bert-base-uncased-vocab.txt"))
    corpora = test_data / "data/corpora"
    lines = (corpora / "wikitext2_heldout.txt").read_bytes().split(b"\n")
    lines += (corpora / "books.txt").read_bytes().split(b"\n")
    assert_same_in_another_process(tokenizer, lines[:100000], tmp_path)


def test_operations_of_the_graph_are_known_to_a_stock_server():
    """Core operations, and two that TensorFlow Serving links from tensorflow-text."""
    module = Exported(BertTokenizer(TOKENS))
    function = module.tokenize.get_concrete_function()
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    used = {node.op for node in nodes} - {each.signature.name for each in graph.library.function}
    core = {name for name in dir(tf.raw_ops) if name[0].isupper()}
    assert {op for op in used if op not in core and not op.startswith("_")} <= OURS


def lite_interpreter(tokenizer, folder):
    tf_text = pytest.importorskip("tensorflow_text")
    from tensorflow.lite.python import interpreter

    module = Exported(tokenizer)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.lite})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.allow_custom_ops = True
    return interpreter.InterpreterWithCustomOps(
        model_content=converter.convert(),
        custom_op_registerers=tf_text.tflite_registrar.SELECT_TFTEXT_OPS,
    )


def test_tflite_without_flex(tmp_path):
    tokenizer = BertTokenizer(TOKENS)
    model = lite_interpreter(tokenizer, tmp_path)
    operations = {each["op_name"] for each in model._get_ops_details()}
    assert not any(name.startswith("Flex") for name in operations)
    run = model.get_signature_runner("serving_default")
    same = ["a,b AB", "", "é" * 150 + " a≠", "中a b\u0301", "ax" * 40, "σ aσ", "b" * 801]
    expected = tokenizer.pack(tokenizer.tokenize(same), seq_length=32)
    for name, values in run(texts=np.array(same)).items():
        np.testing.assert_array_equal(values, expected[name], name)


@pytest.mark.parametrize(
    "text",
    [b"a\xffb", "aΣ".encode(), b"x" * 201, "\u302e\u1b44".encode()],
    ids=["not UTF-8", "final sigma", "201 characters", "canonical order"],
)  # fmt: skip
def test_where_lite_may_differ(tmp_path, text):
    """Each kind of text that docs/fidelity.md lists, so that the list stays true."""
    tokens = [*TOKENS, "\u302e", "\u1b44", "##\u302e", "##\u1b44"]
    tokenizer = BertTokenizer(tokens)
    exact, lite = tokenizer.tokenize([text]).to_list(), tokenizer.tokenize_in_lite([text]).to_list()
    assert exact != lite


@pytest.mark.slow
def test_tflite_on_real_text(tmp_path, test_data):
    tokenizer = BertTokenizer(str(test_data / "data/vocab/bert-base-uncased-vocab.txt"))
    run = lite_interpreter(tokenizer, tmp_path).get_signature_runner("serving_default")
    lines = (test_data / "data/corpora/wikitext2_heldout.txt").read_text("utf-8").split("\n")
    for start in range(0, len(lines), 1000):
        batch = lines[start : start + 1000]
        expected = tokenizer.pack(tokenizer.tokenize(batch), seq_length=32)["input_ids"]
        np.testing.assert_array_equal(run(texts=np.array(batch))["input_ids"], expected)


def test_the_files_are_packed():
    """The tables stand beside the modules."""
    from bert_tf.tokenization import tables

    assert pathlib.Path(tables.PATH).parent == pathlib.Path(tables.__file__).parent
    assert pathlib.Path(tables.PATH).exists()
