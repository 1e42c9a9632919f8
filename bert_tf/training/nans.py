"""Where a number stops being finite."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.training.objective import Objective, Tensors


def explain(objective: Objective, batch: Tensors, seed: Any) -> str:
    """Computes a batch layer by layer, and says where the first number that is not finite is.

    Args:
        objective: Of the run.
        batch: The batch whose gradient is not finite.
        seed: int32 [2], that of the step.
    """
    with _first_not_finite() as found, tf.GradientTape() as tape:
        sums = objective.sums(batch, training=True, seed=seed)
        loss = objective.loss(sums, objective.counts(batch))
    if found:
        return f"the first output that is not finite is that of the layer {found[0]}"
    names = list(objective.variables)
    gradients = tape.gradient(loss, [objective.variables[name].value for name in names])
    bad = [
        name
        for name, gradient in zip(names, gradients, strict=True)
        if gradient is not None and not _finite(tf.convert_to_tensor(gradient))
    ]
    if not bad:
        return "computed alone, layer by layer, the batch gives finite numbers only"
    return f"all outputs are finite; the gradient that is not, next to the loss, is of {bad[-1]}"


@contextlib.contextmanager
def _first_not_finite() -> Iterator[list[str]]:
    """A list that gets the path of the first layer whose output is not finite."""
    found: list[str] = []
    path: list[str] = []  # of the layers that are running: Keras gives one only to what it built
    call = keras.layers.Layer.__call__

    def watched(layer: Any, *arguments: Any, **options: Any) -> Any:
        path.append(layer.name)
        try:
            outputs = call(layer, *arguments, **options)
            if not found and not all(map(_finite, tf.nest.flatten(outputs))):
                found.append("/".join(path))
        finally:
            path.pop()
        return outputs

    keras.layers.Layer.__call__ = watched
    try:
        yield found
    finally:
        keras.layers.Layer.__call__ = call


def _finite(value: Any) -> bool:
    return bool(np.isfinite(np.asarray(value, np.float32)).all())
