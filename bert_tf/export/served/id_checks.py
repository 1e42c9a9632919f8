"""Checks of token ids in the graph of a SavedModel.

A gather on a GPU returns zeros for an id that is out of range, so a model without these
checks would compute wrong outputs without an error.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.config import BertConfig


def checked_ids(inputs: Mapping[str, Any], config: BertConfig) -> dict[str, Any]:
    """Checks the inputs of a model when the graph runs.

    Args:
        inputs: `input_ids`, `segment_ids` and `input_mask`, int32 [B, S] each.
        config: The architecture.

    Returns:
        The inputs, which depend on the checks.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, the rank of an input is not
            2, the shapes differ, there are more tokens than positions, or a value is
            out of range.
    """
    # The declared shape [None, None] is not checked by the C API. ensure_shape checks
    # it.
    inputs = {
        name: tf.ensure_shape(value, [None, None]) for name, value in inputs.items()
    }
    shape = tf.shape(inputs["input_ids"])
    limits = {
        "input_ids": config.vocab_size,
        "segment_ids": config.type_vocab_size,
        "input_mask": 2,
    }
    checks = [
        _require(
            (shape[1] >= 1) & (shape[1] <= config.max_position_embeddings),
            f"A sequence must have 1 to {config.max_position_embeddings} tokens. "
            "Received:",
            shape[1],
        )
    ]
    for name, value in inputs.items():
        checks.append(
            _require(
                tf.reduce_all(tf.shape(value) == shape),
                f"{name} must have the shape of input_ids. Received:",
                tf.shape(value),
            )
        )
        lowest, highest = tf.reduce_min(value), tf.reduce_max(value)
        checks.append(
            _require(
                (lowest >= 0) & (highest < limits[name]),
                f"The values of {name} must be from 0 to {limits[name] - 1}. Received "
                "values from",
                lowest,
                "to",
                highest,
            )
        )
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in inputs.items()}


def checked_lengths(lengths: Any, input_ids: Any) -> Any:
    """Checks the lengths of sequences when the graph runs.

    Args:
        lengths: int32 [B], the number of tokens of each sequence without padding.
        input_ids: int32 [B, S].

    Returns:
        The lengths, which depend on the checks.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, the rank of an input is
            wrong, or a length is not from 1 to S.
    """
    shape = tf.shape(tf.ensure_shape(input_ids, [None, None]))
    lengths = tf.ensure_shape(lengths, [None])
    checks = [
        _require(
            tf.size(lengths) == shape[0],
            "lengths must have one value for each sequence. Received:",
            tf.size(lengths),
            "values for",
            shape[0],
            "sequences",
        ),
        _require(
            tf.reduce_all((lengths >= 1) & (lengths <= shape[1])),
            "lengths must be from 1 to the number of tokens of a sequence. Received:",
            lengths,
        ),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(lengths)


def _require(condition: Any, *message: Any) -> Any:
    return tf.debugging.Assert(condition, list(message), summarize=8)
