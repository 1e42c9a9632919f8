"""Functions of tensors that several served models use, and checks of token ids.

A gather on a GPU returns zeros for an id that is out of range, so a model without the
checks would compute wrong outputs without an error.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.training.step.objective import Tensors

# The number of sequences that `in_parts` computes together.
_SEQUENCES_AT_A_TIME = 32


def in_parts(
    function: Callable[[Tensors], Sequence[Any]], inputs: Tensors, ranks: Sequence[int]
) -> tuple[Any, ...]:
    """Calls a function with a few rows at a time, so that many rows need little memory.

    `inputs` are tensors [R, ...] by name. The function takes N of their R rows, and
    returns float32 tensors [N, ...], whose ranks are `ranks`. The results of all calls
    are joined to tensors [R, ...].
    """
    count = tf.shape(next(iter(inputs.values())))[0]
    num_parts = tf.maximum(-(-count // _SEQUENCES_AT_A_TIME), 1)
    arrays = tuple(
        tf.TensorArray(
            tf.float32, num_parts, element_shape=[None] * rank, infer_shape=False
        )
        for rank in ranks
    )

    # Each call of the loop writes the outputs of one part.
    def compute(part: Any, *written: Any) -> tuple[Any, ...]:
        first = part * _SEQUENCES_AT_A_TIME
        rows = {
            n: value[first : first + _SEQUENCES_AT_A_TIME]
            for n, value in inputs.items()
        }
        outputs = function(rows)
        return part + 1, *(
            a.write(part, o) for a, o in zip(written, outputs, strict=True)
        )

    _, *computed = tf.while_loop(
        lambda part, *_: part < num_parts, compute, (0, *arrays), parallel_iterations=1
    )
    return tuple(array.concat() for array in computed)


def substrings(texts: Any, row: Any, begin: Any, end: Any) -> Any:
    """Returns parts of texts, string [N], without a copy of the text for each part.

    `tf.strings.substr` makes such copies. Each of N parts is `texts[row][begin:end]`, in
    bytes; `texts` is string [B], and the others are int [N].
    """
    letters = tf.strings.bytes_split(texts)
    start = tf.gather(letters.row_splits, row)
    indices = tf.ragged.range(
        start + tf.cast(begin, tf.int64), start + tf.cast(end, tf.int64)
    )
    return tf.strings.reduce_join(tf.gather(letters.values, indices), axis=-1)


def rank_gaps(scores: np.ndarray) -> np.ndarray:
    """Returns how far each of K descending scores, [..., K], is from the nearest other score."""
    # The first and the last score have one neighbor; the other one is infinitely far.
    infinity = scores.dtype.type(np.inf)
    gaps = np.abs(np.diff(scores, axis=-1, prepend=infinity, append=-infinity))
    return np.minimum(gaps[..., :-1], gaps[..., 1:])


def best_gaps(scores: np.ndarray) -> np.ndarray:
    """Returns the difference of the two highest scores of each row, [B, K]; scores are >= 0."""
    # There may be only one score, or none.
    padded = np.pad(scores, [(0, 0), (2, 0)], constant_values=-1)
    return np.diff(np.sort(padded, axis=-1)[:, -2:], axis=-1)[:, 0]


def checked_ids(inputs: Tensors, config: BertConfig) -> Tensors:
    """Adds checks of the inputs of a model, int32 [B, S] each, to the graph.

    Returns the inputs, which depend on the checks. A run of the graph fails if the rank
    of an input is not 2, the shapes differ, there is no token or more tokens than
    positions, or a value is out of range.
    """
    # The declared shape [None, None] is not checked by the C API. ensure_shape checks
    # it.
    inputs = {
        name: tf.ensure_shape(value, [None, None]) for name, value in inputs.items()
    }
    shape = tf.shape(inputs["input_ids"])  # [B, S]
    limits = {
        "input_ids": config.vocab_size,
        "segment_ids": config.type_vocab_size,
        "input_mask": 2,
    }

    # The number of tokens, then shape and values of each input.
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
    """Adds checks of the lengths of sequences, int32 [B] without padding, to the graph.

    Returns the lengths, which depend on the checks. A run of the graph fails if a rank
    or the number of lengths is wrong, or a length is not from 1 to S.
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
