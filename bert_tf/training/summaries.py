"""What a run reports: TensorBoard events and the same scalars as JSON lines."""

import json
import math
import os
from collections.abc import Mapping

import tensorflow as tf

from bert_tf import files


class Summaries:
    """Writes scalars of a run; `train` and `eval` become two curves in one TensorBoard chart.

    Args:
        output_dir: Events go to its folders `train` and `eval`, lines to its `metrics.jsonl`.
        step: Steps done; lines of later steps, of a run that was cut off, are dropped.
    """

    def __init__(self, output_dir: str, step: int) -> None:
        self._dir = output_dir
        self._path = os.path.join(output_dir, "metrics.jsonl")
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._lines = _lines_until(self._path, step)

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Adds one entry.

        Args:
            kind: "train" or "eval".
            step: Steps done.
            values: Scalars by name.
        """
        if kind not in self._writers:
            path = os.path.join(self._dir, kind)
            self._writers[kind] = tf.summary.create_file_writer(path)
        with self._writers[kind].as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._lines.append(json.dumps({"step": step, "kind": kind, **finite}))

    def flush(self) -> None:
        """Brings all entries to the files."""
        for writer in self._writers.values():
            writer.flush()
        files.write_text(self._path, "".join(f"{line}\n" for line in self._lines))


def _lines_until(path: str, step: int) -> list[str]:
    if not tf.io.gfile.exists(path):
        return []
    lines = files.read_text(path).splitlines()
    return [line for line in lines if json.loads(line)["step"] <= step]


def write_results(path: str, values: Mapping[str, float]) -> None:
    """Writes `name = value` lines, sorted, as google-research/bert's `eval_results.txt`."""
    files.write_text(path, "".join(f"{name} = {values[name]}\n" for name in sorted(values)))
