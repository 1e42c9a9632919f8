"""The results of a sweep for the HPARAMS page of TensorBoard."""

import os
from collections.abc import Mapping, Sequence

import tensorflow as tf
from tensorboard.plugins.hparams import api

from bert_tf.run_scripts.sweeps.cells import Cell
from bert_tf.storage import files

# The columns of sweep.csv that are the same for all runs of a cell.
_OF_CELL = ("std", "best", "failed", "degenerate")


def write(
    folder: str, grid: Mapping[str, Sequence[str]], cells: Sequence[Cell]
) -> None:
    """Writes one session for each run with a result; replaces the folder.

    The runs of a cell are one group of sessions, for which the page shows the mean of
    each metric.

    Args:
        folder: The folder to write.
        grid: The values of each flag.
        cells: The results.
    """
    tf.config.set_visible_devices(
        [], "GPU"
    )  # otherwise, TensorFlow reserves their memory
    metrics = sorted({result.metric for cell in cells for result in cell.runs.values()})
    numbers = {name for name, values in grid.items() if all(map(_is_number, values))}
    with files.atomic_folder(folder, "") as temporary:
        with tf.summary.create_file_writer(temporary).as_default():
            api.hparams_config(
                hparams=[api.HParam(name) for name in grid],
                metrics=[api.Metric(name) for name in (*metrics, *_OF_CELL)],
            )
        for cell in cells:
            values = {
                name: float(text) if name in numbers else text
                for name, text in cell.values
            }
            group = " ".join(f"{name}={text}" for name, text in cell.values)
            counts = {"failed": cell.failed, "degenerate": len(cell.degenerate)}
            shared = {"std": 0.0, **cell.statistics(), **counts}
            for run, result in cell.runs.items():
                scalars = {result.metric: result.value}
                scalars |= {name: shared[name] for name in _OF_CELL if name in shared}
                with tf.summary.create_file_writer(
                    os.path.join(temporary, run.name)
                ).as_default():
                    api.hparams(values, trial_id=group)
                    for name, value in scalars.items():
                        tf.summary.scalar(name, value, step=0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
