"""Clips gradients by their global norm, as google-research/bert does. Imports no bert-tf module."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def clip_gradients(
    gradients: Mapping[str, Any], squares: Mapping[str, Any], clip_norm: float, loss_scale: Any
) -> tuple[dict[str, Any], Any]:
    """Divides gradients by the loss scale, and limits their global norm.

    Args:
        gradients: Dense gradients, by the names of their variables.
        squares: Squared norms of the gradients that were sparse (one row for each looked-up word),
            by variable name. For these variables, `squares` replaces the squared norms of
            `gradients`. As in google-research/bert, a sparse norm counts each row separately, even
            if several rows belong to the same word.
        clip_norm: The largest global norm.
        loss_scale: The factor by which the loss was multiplied.

    Returns:
        The clipped gradients, and the global norm before clipping, divided by the loss scale. The
        norm is not finite if a gradient is not finite.

    Source: google-research/bert `optimization.py`, `tf.clip_by_global_norm`.
    """
    dense = [gradient for name, gradient in gradients.items() if name not in squares]
    norm = tf.sqrt(tf.linalg.global_norm(dense) ** 2 + sum(squares.values())) / loss_scale
    factor = clip_norm / (tf.maximum(norm, clip_norm) * loss_scale)
    return {name: value * factor for name, value in gradients.items()}, norm
