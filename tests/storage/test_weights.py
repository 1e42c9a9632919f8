"""Weights folders: round trips, checksums, `vocab.txt`, and other readers."""

import json
import math
import pathlib

import numpy as np
import pytest
import safetensors.numpy
from golden_checkpoints import assert_same_arrays
from json_files import read_json, write_json
from refusals import refused

from bert_tf.config import BertConfig
from bert_tf.storage import safetensors_format, weights

CONFIG = BertConfig(vocab_size=3, hidden_size=4, num_attention_heads=2)
ARRAYS = {
    "bert/embeddings/word_embeddings": np.arange(12, dtype=np.float32).reshape(3, 4),
    "bert/pooler/dense/kernel": np.arange(16, dtype=np.float32).reshape(4, 4).T,
}
VOCABULARY = ["[PAD]", "a", "é"]


@pytest.fixture
def folder(tmp_path):
    path = str(tmp_path / "model")
    weights.write_into(
        path, ARRAYS, CONFIG.to_dict(), VOCABULARY, True, {"labels": ["no", "yes"]}
    )
    return path


def test_reading_returns_what_was_written(folder):
    read = weights.read_weights_folder(folder)
    assert read.config == CONFIG.to_dict()
    assert read.vocabulary == VOCABULARY
    assert read.do_lower_case is True
    assert read.facts == {"labels": ["no", "yes"]}
    assert_same_arrays(read.arrays, ARRAYS)


def test_a_scalar_keeps_its_shape():
    content = safetensors_format.to_safetensors(
        {"scale": np.float32(3), "column": ARRAYS["bert/pooler/dense/kernel"].T[:, :1]}
    )
    for tensors in (
        safetensors.numpy.load(content),
        safetensors_format.from_safetensors(content, "x"),
    ):
        assert tensors["scale"].shape == () and tensors["scale"] == 3
        np.testing.assert_array_equal(tensors["column"], [[0], [4], [8], [12]])


def test_files_are_readable_without_our_code(folder):
    tensors = safetensors.numpy.load_file(f"{folder}/model.safetensors")
    np.testing.assert_array_equal(
        tensors["bert/pooler/dense/kernel"], ARRAYS["bert/pooler/dense/kernel"]
    )
    with open(f"{folder}/vocab.txt", encoding="utf-8") as file:
        assert file.read() == "[PAD]\na\né\n"
    with open(f"{folder}/bert_config.json", encoding="utf-8") as file:
        assert json.load(file)["hidden_size"] == 4


def flip(content: bytes) -> bytes:
    return content[:-2] + bytes([content[-2] ^ 1]) + content[-1:]


def edited(**change):
    return lambda content: json.dumps(json.loads(content) | change).encode()


REPLACED = "is damaged or was replaced: its SHA-256"
CHANGES = [
    ("model.safetensors", flip, REPLACED),
    ("vocab.txt", flip, REPLACED),
    ("bert_config.json", edited(num_attention_heads=4), REPLACED),
    ("weights.json", edited(labels=["yes", "no"]), REPLACED),
    ("weights.json", edited(format=1), REPLACED),
    ("weights.json", edited(do_lower_case=False), REPLACED),
    ("weights.json", edited(config_sha256="0" * 64), REPLACED),
    ("weights.json", lambda _: b'{"format": 2}', REPLACED),
    ("weights.json", lambda _: b"{", "is damaged"),
    ("weights.json", lambda _: b"[]",
     r"is damaged: it must contain one JSON object. Received: \[\]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), CHANGES)
def test_changed_files_are_refused(folder, name, change, message):
    path = pathlib.Path(folder, name)
    path.write_bytes(change(path.read_bytes()))
    with refused(f"{name} {message}"):
        weights.read_weights_folder(folder)


def test_a_folder_of_format_1_is_read_without_checksums_of_config_and_facts(folder):
    path = pathlib.Path(folder, "weights.json")
    facts = read_json(path)
    del facts["facts_sha256"], facts["config_sha256"]
    write_json(path, {**facts, "format": 1, "eval": {"loss": float("nan")}})
    read = weights.read_weights_folder(folder)
    assert read.facts["labels"] == ["no", "yes"] and read.config == CONFIG.to_dict()


def test_facts_that_json_changes_have_the_same_checksum_when_they_are_read(tmp_path):
    path = str(tmp_path / "model")
    facts = {
        "sizes": (10, 2),
        "eval": {"loss": float("nan")},
        "by_id": {10: "a", 2: "b"},
    }
    weights.write_into(path, ARRAYS, CONFIG.to_dict(), None, None, facts)
    read = weights.read_weights_folder(path).facts
    assert read["sizes"] == [10, 2] and read["by_id"] == {"10": "a", "2": "b"}
    assert math.isnan(read["eval"]["loss"])


def test_a_folder_without_vocabulary_is_written_and_read(tmp_path):
    path = str(tmp_path / "model")
    weights.write_into(path, ARRAYS, CONFIG.to_dict(), None, None, {})
    read = weights.read_weights_folder(path)
    assert read.vocabulary is None
    assert read.do_lower_case is None


def test_entries_in_a_weights_folder_keep_their_white_space(tmp_path):
    path = str(tmp_path / "model")
    vocabulary = ["[PAD]", "a\u2028", "\u3000b", "##\u2028"]
    weights.write_into(path, ARRAYS, CONFIG.to_dict(), vocabulary, True, {})
    assert weights.read_weights_folder(path).vocabulary == vocabulary


def test_ram_paths_are_written_and_read():
    weights.write_into(
        "ram://weights-test/model", ARRAYS, CONFIG.to_dict(), VOCABULARY, False, {}
    )
    assert weights.is_weights_folder("ram://weights-test/model")
    assert (
        weights.read_weights_folder("ram://weights-test/model").do_lower_case is False
    )
