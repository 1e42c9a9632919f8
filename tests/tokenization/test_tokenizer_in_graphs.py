"""The tokenizer in exported graphs: a SavedModel in another process, and TFLite."""

import pathlib
import re
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import SPECIAL
from tokenizer_pairs import needs_unicode_14

from bert_tf.tokenization import BertTokenizer

TOKENS = [*SPECIAL, *"abxσς,中=", *(f"##{c}" for c in "abxσς")]
TEXT_OPERATIONS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}

# This program imports tensorflow_text for its operations, and nothing from bert_tf.
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


class InLite(Exported):
    tokenize = None  # SavedModels of this class have only the functions below

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def lite(self, texts):
        return self.tokenizer.pack(
            self.tokenizer.tokenize_in_lite(texts), seq_length=32
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    def lite_pairs(self, texts, others):
        ids = (self.tokenizer.tokenize_in_lite(each) for each in (texts, others))
        return self.tokenizer.pack(*ids, seq_length=32)


@pytest.mark.slow
def test_a_saved_model_gives_the_same_ids_on_real_text(
    tmp_path, test_data, released_vocabulary
):
    tokenizer, _ = released_vocabulary
    corpora = test_data / "data/corpora"
    lines = (corpora / "wikitext2_heldout.txt").read_bytes().split(b"\n")
    lines += (corpora / "books.txt").read_bytes().split(b"\n")
    texts = lines[:100000]
    assert len(texts) == 100000
    tf.saved_model.save(Exported(tokenizer), str(tmp_path / "model"))
    (tmp_path / "texts").write_bytes(b"\n".join(texts))
    (tmp_path / "load.py").write_text(LOAD)
    command = [sys.executable, "load.py", "model", "texts", "ids.npz"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    found, expected = np.load(tmp_path / "ids.npz"), tokenizer.tokenize(texts)
    np.testing.assert_array_equal(found["values"], expected.values)
    np.testing.assert_array_equal(found["splits"], expected.row_splits)


@pytest.mark.parametrize("special_tokens_in_text", [False, True])
@pytest.mark.parametrize("method", ["tokenize", "tokenize_with_offsets", "words"])
def test_a_stock_server_has_all_operations_of_the_graph(method, special_tokens_in_text):
    """TensorFlow Serving 2.20 has the core operations and TEXT_OPERATIONS."""
    tokenizer = BertTokenizer(TOKENS, special_tokens_in_text=special_tokens_in_text)
    function = tf.function(getattr(tokenizer, method)).get_concrete_function(
        tf.TensorSpec([None], tf.string)
    )
    graph = function.graph.as_graph_def()
    nodes = [
        *graph.node,
        *(node for each in graph.library.function for node in each.node_def),
    ]
    used = {node.op for node in nodes} - {
        each.signature.name for each in graph.library.function
    }
    core = {name for name in dir(tf.raw_ops) if name[0].isupper()}
    others = {op for op in used if op not in core and not op.startswith("_")}
    assert others == (TEXT_OPERATIONS if method != "words" else {"FastBertNormalize"})
    assert not used & {"PyFunc", "EagerPyFunc", "PyFuncStateless"}


def lite_runners(tokenizer, folder, *functions):
    """Returns functions of `InLite` in one TFLite file without Flex operations."""
    tf_text = pytest.importorskip("tensorflow_text")
    from tensorflow.lite.python import interpreter

    module = InLite(tokenizer)
    signatures = {name: getattr(module, name) for name in functions}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), functions)
    converter.allow_custom_ops = True
    model = interpreter.InterpreterWithCustomOps(
        model_content=converter.convert(),
        custom_op_registerers=tf_text.tflite_registrar.SELECT_TFTEXT_OPS,
    )
    operations = {each["op_name"] for each in model._get_ops_details()}
    assert not any(name.startswith("Flex") for name in operations)
    return [model.get_signature_runner(name) for name in functions]


def test_tflite_gives_the_same_inputs_without_flex_operations(tmp_path):
    """TFLite has no assertions, so the conversion removes the check of pairs."""
    tokenizer = BertTokenizer(TOKENS)
    odd = ["é" * 150 + " a≠", "中a b\u0301", "ax" * 40, "σ aσ", "b" * 801]
    alone = {"texts": ["a,b AB", "", *odd]}
    pairs = {"texts": ["a,b AB", "", "x"], "others": ["b", "ax" * 40, ""]}

    runners = lite_runners(tokenizer, tmp_path, "lite", "lite_pairs")
    for run, texts in zip(runners, (alone, pairs), strict=True):
        found = run(**{name: np.array(each) for name, each in texts.items()})
        expected = tokenizer.encode(*texts.values(), seq_length=32)
        assert found.keys() == expected.keys()
        for name, values in found.items():
            np.testing.assert_array_equal(values, expected[name], name)


@pytest.mark.parametrize(
    "text",
    [b"a\xffb", "aΣ".encode(), b"x" * 201, "\u302e\u1b44".encode()],
    ids=["not UTF-8", "final sigma", "201 characters", "canonical order"],
)
def test_lite_differs_for_each_documented_kind(text):
    """A text of each kind in docs/fidelity.md has other ids in TFLite."""
    tokens = [*TOKENS, "\u302e", "\u1b44", "##\u302e", "##\u1b44"]
    tokenizer = BertTokenizer(tokens)
    exact, lite = tokenizer.tokenize(text), tokenizer.tokenize_in_lite(text)
    assert exact.numpy().tolist() != lite.numpy().tolist()


def listed_code_points():
    """Yields the code points that docs/fidelity.md lists as exceptions in TFLite."""
    text = (pathlib.Path(__file__).parents[2] / "docs/fidelity.md").read_text("utf-8")
    section = text.partition("In TFLite (`tokenize_in_lite`)")[2].partition("\n\n")[0]
    for first, last in re.findall(
        r"U\+([0-9A-F]{4,6})(?: to U\+([0-9A-F]{4,6}))?", section
    ):
        yield from range(int(first, 16), int(last or first, 16) + 1)


@needs_unicode_14
def test_the_documentation_lists_all_characters_for_which_lite_may_differ():
    """They decompose to a combining character of a category other than Mn."""
    reorderable = [
        code
        for code in range(0x110000)
        if any(
            unicodedata.combining(c) and unicodedata.category(c) != "Mn"
            for c in unicodedata.normalize("NFD", chr(code))
        )
    ]
    assert sorted(listed_code_points()) == reorderable and len(reorderable) == 38


def test_lite_differs_for_each_of_the_listed_characters():
    listed = [chr(code) for code in listed_code_points()]
    parts = sorted({c for each in listed for c in unicodedata.normalize("NFD", each)})
    tokenizer = BertTokenizer([*SPECIAL, "a", *parts, *(f"##{part}" for part in parts)])
    for character in listed:
        texts = [
            f"a{each}"
            for other in listed
            for each in (character + other, other + character)
        ]
        exact, lite = tokenizer.tokenize(texts), tokenizer.tokenize_in_lite(texts)
        assert exact.to_list() != lite.to_list(), f"U+{ord(character):04X}"


@pytest.mark.slow
def test_tflite_gives_the_same_ids_for_real_text(
    tmp_path, test_data, released_vocabulary
):
    tokenizer, _ = released_vocabulary
    (run,) = lite_runners(tokenizer, tmp_path, "lite")
    text = (test_data / "data/corpora/wikitext2_heldout.txt").read_text("utf-8")
    lines = text.split("\n")
    for start in range(0, len(lines), 1000):
        batch = lines[start : start + 1000]
        expected = tokenizer.pack(tokenizer.tokenize(batch), seq_length=32)["input_ids"]
        np.testing.assert_array_equal(run(texts=np.array(batch))["input_ids"], expected)
