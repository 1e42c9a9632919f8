"""What a run reports: TensorBoard events and the same scalars as JSON lines."""

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from bert_tf import files


class Summaries:
    """Writes what a run reports; `train` and `eval` become two curves in one TensorBoard chart.

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
        with self._written(kind):
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._lines.append(json.dumps({"step": step, "kind": kind, **finite}))

    def write_text(self, kind: str, step: int, name: str, markdown: str) -> None:
        """Adds a text to TensorBoard's Text tab.

        Args:
            kind: "train" or "eval".
            step: Steps done.
            name: Texts of one name are versions of each other.
            markdown: The text.
        """
        with self._written(kind):
            tf.summary.text(name, markdown, step=step)

    def write_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Adds a row to TensorBoard's HParams tab, beside the scalars of the run.

        Args:
            values: By name; of a mapping, each value by `name.key`. What is neither a number, a
                truth value nor a text is written as text, None as "".
        """
        with self._written("train"):
            hparams.hparams(dict(_flat(values)))

    @contextlib.contextmanager
    def _written(self, kind: str) -> Iterator[None]:
        path = os.path.join(self._dir, kind)
        with files.explain_write_errors(path):
            if kind not in self._writers:
                self._writers[kind] = tf.summary.create_file_writer(path)
            with self._writers[kind].as_default():
                yield

    def flush(self) -> None:
        """Brings all entries to the files.

        Raises:
            InputError: There is no space for them.
        """
        for kind, writer in self._writers.items():
            with files.explain_write_errors(os.path.join(self._dir, kind)):
                writer.flush()
        files.write_text(self._path, "".join(f"{line}\n" for line in self._lines))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", "" if value is None else str(value)


class Profile:
    """Profiles the steps from one number to another for TensorBoard, as a context manager."""

    def __init__(self, folder: str, steps: tuple[int, int] | None) -> None:
        self._folder, self._steps, self._running = folder, steps, False

    def at(self, step: int) -> None:
        """Starts or ends the profile if it is time."""
        if self._steps and not self._running and self._steps[0] <= step < self._steps[1]:
            tf.profiler.experimental.start(self._folder)
            self._running = True
        elif self._steps and step >= self._steps[1]:
            self.__exit__()

    def __enter__(self) -> "Profile":
        return self

    def __exit__(self, *error: object) -> None:
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False


def _lines_until(path: str, step: int) -> list[str]:
    if not tf.io.gfile.exists(path):
        return []
    lines = files.read_text(path).splitlines()
    return [line for line in lines if json.loads(line)["step"] <= step]


def write_results(path: str, values: Mapping[str, float]) -> None:
    """Writes `name = value` lines, sorted, as google-research/bert's `eval_results.txt`."""
    files.write_text(path, "".join(f"{name} = {values[name]}\n" for name in sorted(values)))
