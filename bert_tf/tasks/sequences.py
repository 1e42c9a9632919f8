"""Arranges several sequences for each example of a block."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def by_example(
    packed: Mapping[str, Any], exists: np.ndarray, pad_id: int
) -> dict[str, np.ndarray]:
    """Returns the inputs of a model for N examples of up to C sequences: [N, C, S] each.

    Args:
        packed: The inputs of the R sequences of all examples, in order: [R, S] each.
        exists: Whether an example has a sequence, bool [N, C]; R are True. The other
            sequences have only padding.
        pad_id: The id of padding.
    """
    paddings = {
        "input_ids": np.int32(pad_id),
        "input_mask": np.uint8(0),
        "segment_ids": np.uint8(0),
    }
    columns: dict[str, np.ndarray] = {}
    for name, padding in paddings.items():
        rows = np.asarray(packed[name])
        columns[name] = np.full([*exists.shape, rows.shape[1]], padding)
        columns[name][exists] = rows
    return columns
