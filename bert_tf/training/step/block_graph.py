"""`share_graph` makes the blocks of a model share one graph in a training step."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def share_graph(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the function with a graph of its own, for `DropoutSeeds.use`.

    TensorFlow traces, differentiates and optimizes this graph once, instead of once for
    each block, which would take most of the time before the first step. For the same
    reason, TensorFlow must not inline the calls. Returns None in eager execution, which
    has no graph, and on several replicas, each of which traces on its own device.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if not tf.inside_function() or replicas > 1:
        return None
    attributes = {"_noinline": True}
    return tf.function(function, autograph=False, experimental_attributes=attributes)
