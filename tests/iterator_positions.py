"""Positions of input pipelines, and the columns of their batches."""

import itertools

import numpy as np
import tensorflow as tf


def save(iterator, path):
    """Saves the position of an iterator; returns the path to restore it from."""
    return tf.train.Checkpoint(iterator=iterator).write(str(path))


def restore(dataset, saved):
    """Returns an iterator of a dataset at a saved position."""
    iterator = iter(dataset)
    tf.train.Checkpoint(iterator=iterator).read(saved).assert_consumed()
    return iterator


def columns(iterator, count=None, join=np.concatenate):
    """Returns the columns of the next batches (by default of all) as arrays."""
    batches = list(itertools.islice(iterator, count))
    return {
        name: join([batch[name].numpy() for batch in batches]) for name in batches[0]
    }
