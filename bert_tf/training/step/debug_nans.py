"""Finds the layer in which a value stops being finite."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.training.step.objective import Objective, Tensors


def find_cause(objective: Objective, batch: Tensors, seed: Any) -> str:
    """Recomputes a batch eagerly and describes the first value that is not finite.

    `seed` is the seed of the step, int32 [2].
    """
    with _record_first_non_finite() as layers, tf.GradientTape() as tape:
        sums = objective.sums(batch, training=True, seed=seed)
        loss = objective.loss(sums, objective.counts(batch))
    if layers:
        return (
            "the first output that is not finite is the output of the layer "
            f"{layers[0]}"
        )

    # Then a gradient is not finite. The names are in the order of the layers.
    variables = objective.variables.items()
    gradients = tape.gradient(loss, {name: weight.value for name, weight in variables})
    bad = [
        name
        for name, gradient in gradients.items()
        if gradient is not None and not _is_finite(tf.convert_to_tensor(gradient))
    ]

    if not bad:
        return "recomputed eagerly, the batch of this process gives finite values only"
    return (
        "all outputs are finite; of the gradients that are not, the gradient of "
        f"{bad[-1]} is closest to the loss"
    )


@contextlib.contextmanager
def _record_first_non_finite() -> Iterator[list[str]]:
    """Yields a list that gets the path of the first layer whose output is not finite."""
    paths: list[str] = []
    # The names of the layers whose calls are in progress, outermost first. `layer.path`
    # is not used, because Keras sets the path only in layers that Keras built.
    stack: list[str] = []
    call = keras.layers.Layer.__call__

    def checked_call(layer: Any, *arguments: Any, **options: Any) -> Any:
        stack.append(layer.name)
        try:
            outputs = call(layer, *arguments, **options)
            tensors = [
                tensor for tensor in tf.nest.flatten(outputs) if tensor is not None
            ]
            if not paths and not all(map(_is_finite, tensors)):
                paths.append("/".join(stack))
        finally:
            stack.pop()
        return outputs

    keras.layers.Layer.__call__ = checked_call
    try:
        yield paths
    finally:
        keras.layers.Layer.__call__ = call


def _is_finite(value: Any) -> bool:
    return bool(np.isfinite(np.asarray(value, np.float32)).all())
