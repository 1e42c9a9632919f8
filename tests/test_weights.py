"""The weights-only folder: whole, checked, and readable by the safetensors package alone."""

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy

from bert_tf import weights
from bert_tf.config import BertConfig
from bert_tf.errors import InputError

CONFIG = BertConfig(vocab_size=3, hidden_size=4, num_attention_heads=2)
ARRAYS = {
    "bert/embeddings/word_embeddings": np.arange(12, dtype=np.float32).reshape(3, 4),
    "bert/pooler/dense/kernel": np.arange(16, dtype=np.float32).reshape(4, 4).T,
}
VOCABULARY = ["[PAD]", "a", "é"]


@pytest.fixture
def folder(tmp_path):
    path = str(tmp_path / "model")
    weights.write_weights(path, ARRAYS, CONFIG, VOCABULARY, True, {"labels": ["no", "yes"]})
    return path


def test_what_was_written_is_read(folder):
    read = weights.read_weights_folder(folder)
    assert read.config == CONFIG
    assert read.vocabulary == VOCABULARY
    assert read.do_lower_case is True
    assert read.extra == {"labels": ["no", "yes"]}
    assert read.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read.arrays[name], array)


def test_others_can_read_the_files(folder):
    plain = safetensors.numpy.load_file(f"{folder}/model.safetensors")
    np.testing.assert_array_equal(
        plain["bert/pooler/dense/kernel"], ARRAYS["bert/pooler/dense/kernel"]
    )
    with open(f"{folder}/vocab.txt", encoding="utf-8") as file:
        assert file.read() == "[PAD]\na\né\n"
    with open(f"{folder}/bert_config.json", encoding="utf-8") as file:
        assert json.load(file)["hidden_size"] == 4


def test_the_hash_of_a_vocabulary():
    expected = hashlib.sha256("[PAD]\na\né".encode()).hexdigest()
    assert weights.vocabulary_sha256(VOCABULARY) == expected


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_a_changed_byte_is_found(folder, name):
    path = f"{folder}/{name}"
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[-2] ^= 1
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(InputError, match=f"{name} is not the file"):
        weights.read_weights_folder(folder)


def test_a_folder_without_vocabulary(tmp_path):
    path = str(tmp_path / "model")
    weights.write_weights(path, ARRAYS, CONFIG.to_dict(), None, None)
    read = weights.read_weights_folder(path)
    assert read.vocabulary is None
    assert read.do_lower_case is None


def test_a_missing_folder(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        weights.read_weights_folder(str(tmp_path / "nothing"))


def test_ram_paths():
    weights.write_weights("ram://weights-test/model", ARRAYS, CONFIG, VOCABULARY, False)
    assert weights.is_weights_folder("ram://weights-test/model")
    assert weights.read_weights_folder("ram://weights-test/model").do_lower_case is False
