"""Masks parsed records in an input pipeline."""

import atexit
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import record_format
from bert_tf.masking.dynamic_masks import DynamicMasks
from bert_tf.record_format import Sizes

_WAIT_SECS = 0.05


def masker(
    masks: DynamicMasks, sizes: Sizes, seed: int = 0
) -> Callable[[Any, Mapping[str, Any]], dict[str, Any]]:
    """Returns a function for `tf.data.Dataset.map`, which masks B parsed records.

    Its arguments are the index of each record in the stream of all records, int64 [B]
    or [], and the features of `record_format.unmasked`. It returns the features of
    `record_format.PRETRAINING`.
    """
    table = record_format.PRETRAINING
    shapes = {f.name: record_format.shape_of(f, sizes) for f in table}
    dtypes = [
        tf.float32 if feature.dtype == "float32" else tf.int32 for feature in table
    ]

    def mask(index: Any, parsed: Mapping[str, Any]) -> dict[str, Any]:
        def mask_arrays(index: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
            with _CALLS as is_open:
                if is_open:
                    masked = masks.mask(
                        dict(zip(parsed, values, strict=True)), seed, index
                    )
                    return [masked[name] for name in shapes]
            return [
                np.zeros((len(values[0]), *shape), dtype.as_numpy_dtype)
                for shape, dtype in zip(shapes.values(), dtypes, strict=True)
            ]

        # tf.data cannot save the position of an iterator with a stateful function.
        rows = next(iter(parsed.values())).shape[:1]
        values = tf.numpy_function(
            mask_arrays, [index, *parsed.values()], dtypes, stateful=False
        )
        return {
            name: tf.ensure_shape(value, [*rows, *shape])
            for (name, shape), value in zip(shapes.items(), values, strict=True)
        }

    return mask


class _Calls:
    """Counts the Python calls from threads of tf.data, each made inside `with _CALLS`.

    A thread that calls Python while the interpreter ends would wait for ever, and so
    would the process. When the interpreter ends, this object therefore waits for the
    present calls. Later `with` statements yield False: the call must do nothing.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._is_open = True
        self._was_used = False
        atexit.register(self._close)

    def __enter__(self) -> bool:
        with self._changed:
            self._running += 1
            self._was_used = True
            return self._is_open

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _close(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.wait_for(lambda: not self._running)
        if self._was_used:
            time.sleep(
                _WAIT_SECS
            )  # further calls return at once, until tf.data's buffers are full


_CALLS = _Calls()
