"""Checkpoints of other programs, and comparisons and changes of checkpoints."""

import json
import pathlib

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig

GOLDEN = pathlib.Path(__file__).parent / "golden"
GOOGLE = GOLDEN / "google_pretraining"
HUGGING_FACE = GOLDEN / "huggingface"


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def edit_json(path, **values):
    """Changes values in a JSON file, which may be absent; None removes a key."""
    path = pathlib.Path(path)
    before = read_json(path) if path.exists() else {}
    after = {k: v for k, v in {**before, **values}.items() if v is not None}
    path.write_text(json.dumps(after))


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
