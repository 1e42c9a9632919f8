"""Checkpoints of other programs, and comparisons of checkpoints."""

import pathlib

import numpy as np
import tensorflow as tf
from json_files import read_json

from bert_tf.config import BertConfig

GOLDEN = pathlib.Path(__file__).parent / "golden"
GOOGLE = GOLDEN / "google_pretraining"
HUGGING_FACE = GOLDEN / "huggingface"


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
