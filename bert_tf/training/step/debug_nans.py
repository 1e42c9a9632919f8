"""Finds the layer in which a value stops being finite."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from bert_tf.training.step.objective import Objective, Tensors


def find_cause(
    objective: Objective,
    batch: Tensors,
    seed: Any,
    gradients_of: Callable[[Tensors, Any], Tensors],
) -> str:
    """Recomputes a batch eagerly and describes the first value that is not finite.

    `seed` is the seed of the step, int32 [2]. `gradients_of` returns the gradients of a
    batch with a seed, by the names of their variables.
    """
    with _record_first_non_finite() as layers:
        objective.sums(batch, training=True, seed=seed)
    if layers:
        return (
            "the first output that is not finite is the output of the layer "
            f"{layers[0]}"
        )

    # Then a gradient is not finite. The names are in the order of the layers.
    gradients = gradients_of(batch, seed)
    bad = [
        name
        for name in objective.variables
        if name in gradients and not _is_finite(gradients[name])
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
                tensor for tensor in keras.tree.flatten(outputs) if tensor is not None
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
    try:
        array = np.asarray(value, np.float32)
    except TypeError:
        # JAX traces the layers in a loop or in a recomputed block. The output of the
        # layer around them has values.
        return True
    return bool(np.isfinite(array).all())
