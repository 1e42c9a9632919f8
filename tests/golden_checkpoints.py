"""Checkpoints of other programs, their files, and comparisons of checkpoints."""

import pathlib
import zipfile

import h5py
import numpy as np
import tensorflow as tf
from json_files import read_json

from bert_tf.config import BertConfig

GOLDEN = pathlib.Path(__file__).parent / "golden"
GOOGLE = GOLDEN / "google_pretraining"
HUGGING_FACE = GOLDEN / "huggingface"


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
