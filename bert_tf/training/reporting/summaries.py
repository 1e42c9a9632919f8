"""`Summaries`: writes TensorBoard events, and the same scalars as JSON lines."""

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
    """Writes metrics, texts and hyperparameters of a run.

    Each kind of entry, such as `train` or `eval`, is one curve in a TensorBoard chart.

    Args:
        output_dir: The folder of the run. Events are written to one subfolder for each kind of
            entry, and JSON lines to `metrics.jsonl`.
        step: The number of steps done. JSON lines of later steps are removed; a run that was
            killed may have left such lines.
    """

    def __init__(self, output_dir: str, step: int) -> None:
        self._dir = output_dir
        self._path = os.path.join(output_dir, "metrics.jsonl")
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._lines = _read_lines_until(self._path, step)

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Adds one entry of scalars.

        Args:
            kind: "train", or the name of a held-out data set such as "eval".
            step: The number of steps done.
            values: Scalars by name.
        """
        with self._writer(kind):
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._lines.append(json.dumps({"step": step, "kind": kind, **finite}))

    def write_text(self, kind: str, step: int, name: str, markdown: str) -> None:
        """Adds a text to TensorBoard's Text tab.

        Args:
            kind: "train", or the name of a held-out data set such as "eval".
            step: The number of steps done.
            name: Tag of the text; for each tag, TensorBoard shows the texts in the order of steps.
            markdown: The text.
        """
        with self._writer(kind):
            tf.summary.text(name, markdown, step=step)

    def write_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Adds a row to TensorBoard's HParams tab.

        Args:
            values: Hyperparameters by name. The entries of a nested mapping are named `name.key`.
                Values that are not numbers, booleans or strings are converted to strings, and None
                is converted to "".
        """
        with self._writer("train"):
            hparams.hparams(dict(_flatten(values)))

    @contextlib.contextmanager
    def _writer(self, kind: str) -> Iterator[None]:
        path = os.path.join(self._dir, kind)
        with files.explain_write_errors(path):
            if kind not in self._writers:
                self._writers[kind] = tf.summary.create_file_writer(path)
            with self._writers[kind].as_default():
                yield

    def flush(self) -> None:
        """Writes all entries to disk.

        Raises:
            InputError: The disk is full.
        """
        for kind, writer in self._writers.items():
            with files.explain_write_errors(os.path.join(self._dir, kind)):
                writer.flush()
        files.write_text(self._path, "".join(f"{line}\n" for line in self._lines))


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", "" if value is None else str(value)


def _read_lines_until(path: str, step: int) -> list[str]:
    if not tf.io.gfile.exists(path):
        return []
    lines = files.read_text(path).splitlines()
    return [line for line in lines if json.loads(line)["step"] <= step]


def write_results(path: str, values: Mapping[str, float]) -> None:
    """Writes sorted `name = value` lines, as google-research/bert does in eval_results.txt."""
    files.write_text(path, "".join(f"{name} = {values[name]}\n" for name in sorted(values)))
