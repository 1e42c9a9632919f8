"""Functions of tensors that several served models use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# A map from the name of an input or output to its tensor.
Tensors = Mapping[str, Any]
# The number of sequences that `in_parts` computes together.
_SEQUENCES_AT_A_TIME = 32


def in_parts(
    function: Callable[[Tensors], Sequence[Any]], inputs: Tensors, ranks: Sequence[int]
) -> tuple[Any, ...]:
    """Calls a function with a few rows at a time, so that many rows need little memory.

    Args:
        function: Takes tensors [N, ...] by name; returns float32 tensors [N, ...].
        inputs: Tensors [R, ...] by name.
        ranks: The rank of each output.

    Returns:
        The outputs for all rows, [R, ...].
    """
    count = tf.shape(next(iter(inputs.values())))[0]
    num_parts = tf.maximum(-(-count // _SEQUENCES_AT_A_TIME), 1)
    arrays = tuple(
        tf.TensorArray(
            tf.float32, num_parts, element_shape=[None] * rank, infer_shape=False
        )
        for rank in ranks
    )

    def compute(part: Any, *written: Any) -> tuple[Any, ...]:
        first = part * _SEQUENCES_AT_A_TIME
        rows = {
            n: each[first : first + _SEQUENCES_AT_A_TIME] for n, each in inputs.items()
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
    """Returns parts of texts.

    Unlike `tf.strings.substr`, without a copy of the text for each part.

    Args:
        texts: string [B].
        row: int [N], the text of each part.
        begin: int32 [N], its first byte.
        end: int32 [N], the byte after its last one.

    Returns:
        string [N].
    """
    letters = tf.strings.bytes_split(texts)
    start = tf.gather(letters.row_splits, row)
    places = tf.ragged.range(
        start + tf.cast(begin, tf.int64), start + tf.cast(end, tf.int64)
    )
    return tf.strings.reduce_join(tf.gather(letters.values, places), axis=-1)


def adjacent_ties(scores: np.ndarray, margin: float) -> np.ndarray:
    """Returns which scores of a ranking are within a margin of the one before or after them.

    Args:
        scores: float [..., K], in descending order.
        margin: The largest difference that counts as a tie.

    Returns:
        bool [..., K].
    """
    is_close = np.abs(np.diff(scores, axis=-1)) <= margin
    rest = [(0, 0)] * (scores.ndim - 1)
    before, after = (np.pad(is_close, [*rest, side]) for side in ((1, 0), (0, 1)))
    ties: np.ndarray = before | after
    return ties


def best_ties(scores: np.ndarray, margin: float) -> np.ndarray:
    """Returns where the two highest of some scores are within a margin.

    Args:
        scores: float [B, K], from 0 on.
        margin: The largest difference that counts as a tie.

    Returns:
        bool [B].
    """
    # There may be only one score, or none.
    padded = np.pad(scores, [(0, 0), (2, 0)], constant_values=-1)
    ties: np.ndarray = (
        np.diff(np.sort(padded, axis=-1)[:, -2:], axis=-1)[:, 0] <= margin
    )
    return ties
