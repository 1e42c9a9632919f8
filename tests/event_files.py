"""Reads event files without the readers of TensorBoard, which hide some events."""

import tensorflow as tf


def steps_by_tag(folder):
    """Returns the steps of each tag, in the order in which they were written."""
    steps = {}
    for path in sorted(folder.glob("events.out.tfevents.*"), key=order):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
    return steps


def order(path):
    """Returns the second of creation, and the number of the file in its process."""
    parts = path.name.split(".")
    return int(parts[3]), int(parts[-2])
