"""Shuffles a dataset in an order that depends only on a given seed."""

from typing import Any

import tensorflow as tf

# TensorFlow combines the seed of `Dataset.shuffle` with the seed of the graph. This is
# the seed of a graph in programs that do not call `tf.random.set_seed`.
_GRAPH_SEED = 87654321


def shuffle(dataset: tf.data.Dataset, buffer_size: int, seed: int) -> tf.data.Dataset:
    """Shuffles as `Dataset.shuffle` does, but independently of `tf.random.set_seed`.

    The order is the one of `dataset.shuffle(buffer_size, seed,
    reshuffle_each_iteration=True)` in a program that does not call
    `tf.random.set_seed`. With `Dataset.shuffle`, a run that is resumed in a program
    with another global seed would read the later epochs in another order.

    Args:
        dataset: The dataset to shuffle.
        buffer_size: Size of the shuffle buffer, in elements of the dataset.
        seed: Determines the order, which differs in each epoch.
    """

    @tf.function
    def shuffled(dataset: Any) -> Any:
        tf.compat.v1.set_random_seed(
            _GRAPH_SEED
        )  # sets the seed of this function's graph only
        return dataset.shuffle(buffer_size, seed, reshuffle_each_iteration=True)

    # TensorFlow warns if many functions are traced by calls, but not if they are traced
    # like this.
    return shuffled.get_concrete_function(dataset)(dataset)
