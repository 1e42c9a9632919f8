"""The output of a run for its user: cost of a step, mean metrics, TensorBoard."""

import contextlib
import dataclasses
import fnmatch
import json
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from bert_tf.storage import atomic_files, files
from bert_tf.training.step.objective import (
    Metrics,
    Objective,
    StepTotals,
    add_to_totals,
    averages,
    combine,
    loss_and_metrics,
)
from bert_tf.training.step.step_result import StepResult

_LOGGER = logging.getLogger(__name__)
_EVENT_FILES = "events.out.tfevents.*"
_HYPERPARAMETERS_TAG = "_hparams_/session_start_info"


def log_step_cost(
    objective: Objective, tokens: int, flops: int, memory: Mapping[str, int]
) -> Metrics:
    """Logs the cost of a step, and returns `{"tokens_per_sec": tokens}`.

    Args:
        objective: The objective, whose trainable parameters are counted.
        tokens: Tokens per step that are computed, over all replicas and accumulation
            steps.
        flops: Floating-point operations per step, over all replicas; counts matrix
            products only.
        memory: Estimated bytes on each device, by their use, such as "weights".
    """
    parameters = sum(
        math.prod(variable.shape) for variable in objective.variables.values()
    )
    parts = [f"{name} {_format_bytes(value)}" for name, value in memory.items()]
    _LOGGER.info(
        "%s parameters; %s tokens and %s per step\nestimated memory on each device: %s "
        "(%s)",
        f"{parameters:,}",
        f"{tokens:,}",
        _format_flops(flops),
        _format_bytes(sum(memory.values())),
        ", ".join(parts),
    )
    return {"tokens_per_sec": tokens}


def _format_bytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _format_flops(value: float) -> str:
    units = ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"))
    size, unit = next((pair for pair in units if value >= pair[0]), units[-1])
    return f"{value / size:.3g} {unit}"


@dataclasses.dataclass
class MetricAccumulator:
    """Accumulates the results of the steps since the last log entry.

    Attributes:
        per_step: Maps the name of each logged rate to the quantity that one step
            processes, such as `{"tokens_per_sec": 4096}`. The rate `tokens_per_sec`
            counts only the time of the steps, `tokens_per_sec_wall_clock` all time.
        totals: The totals over the steps since the last log entry, also those before
            the run was resumed; updated in place.
    """

    objective: Objective
    per_step: Metrics
    totals: StepTotals = dataclasses.field(default_factory=StepTotals)
    has_traced: bool = False

    def __post_init__(self) -> None:
        self._restart_clocks()

    def _restart_clocks(self) -> None:
        self._steps = 0  # since the last log entry, in this process
        self._started = time.monotonic()
        self._timed_steps = 0
        self._timed_secs = 0.0

    def clear(self) -> None:
        """Resets all totals to 0."""
        self.totals.clear()
        self._restart_clocks()

    def add(self, result: StepResult, secs: float) -> None:
        """Adds the result of one or more steps, and the seconds that they took."""
        totals = self.totals
        totals.steps += result.steps
        add_to_totals(totals.sums, result.sums)
        add_to_totals(totals.counts, result.counts)
        totals.scalars = combine(totals.scalars, result.scalars)
        self._steps += result.steps
        if self.has_traced:
            self._timed_steps += result.steps
            self._timed_secs += secs
        self.has_traced = True

    def values(self) -> Metrics:
        """Returns the loss, the metrics, the other scalars, and the rates per second.

        Rates such as `tokens_per_sec` exclude the first call of the graph, which traces
        the graph; they are absent if there was no other call. Rates such as
        `tokens_per_sec_wall_clock` include all time since the last log entry: also
        tracing, evaluations and checkpoints.
        """
        totals = self.totals
        values = {
            **loss_and_metrics(self.objective, totals.sums, totals.counts),
            **averages(totals.scalars, totals.steps),
        }
        wall_secs = time.monotonic() - self._started
        for name, quantity in self.per_step.items():
            if self._timed_secs:
                values[name] = self._timed_steps * quantity / self._timed_secs
            if wall_secs:
                values[f"{name}_wall_clock"] = self._steps * quantity / wall_secs
        return values


class Summaries:
    """Writes metrics, texts and hyperparameters of a run.

    Each kind of entry, such as `train` or `eval`, is one curve in a TensorBoard chart,
    with events in a subfolder of `output_dir`. Metrics are also JSON lines in
    `metrics.jsonl`. The constructor removes the events and JSON lines of steps after
    `step`, which a killed run may have left. TensorBoard shows the removal when it is
    started again.

    Raises:
        InputError: `metrics.jsonl` or an event file cannot be read or written.
    """

    def __init__(self, output_dir: str, step: int) -> None:
        self._dir = output_dir
        self._path = os.path.join(output_dir, "metrics.jsonl")
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        text = files.read_text(self._path) if files.exists(self._path) else ""
        entries = [(line, json.loads(line)) for line in text.splitlines()]
        self._lines = [line for line, entry in entries if entry["step"] <= step]
        tags = set()
        for kind in {"train", *(entry["kind"] for _, entry in entries)}:
            for path in _event_files(os.path.join(output_dir, kind)):
                tags |= _remove_events_after(path, step)
        self._has_hyperparameters = _HYPERPARAMETERS_TAG in tags

    def write(self, kind: str, step: int, values: Metrics) -> None:
        """Adds one entry of scalars; `kind` is "train" or the name of a held-out data set."""
        with self._writer(kind):
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        finite = {
            name: value if math.isfinite(value) else None
            for name, value in values.items()
        }
        self._lines.append(json.dumps({"step": step, "kind": kind, **finite}))

    def write_text(self, kind: str, step: int, name: str, markdown: str) -> None:
        """Adds a Markdown text with the tag `name` to TensorBoard's Text tab."""
        with self._writer(kind):
            tf.summary.text(name, markdown, step=step)

    def write_image(self, kind: str, step: int, name: str, image: np.ndarray) -> None:
        """Adds a picture, uint8 [H, W, 3], to TensorBoard's Images tab."""
        with self._writer(kind):
            tf.summary.image(name, image[None], step=step)

    def write_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Adds a row to TensorBoard's HParams tab, unless the run already has a row.

        The entries of a nested mapping are named `name.key`. None becomes "", and other
        values that are not numbers, booleans or strings are converted to strings.
        """
        if self._has_hyperparameters:
            return
        with self._writer("train"):
            hparams.hparams(dict(_flatten(values)))
        self._has_hyperparameters = True

    @contextlib.contextmanager
    def _writer(self, kind: str) -> Iterator[None]:
        path = os.path.join(self._dir, kind)
        with files.explain_write_errors(path):
            if kind not in self._writers:
                self._writers[kind] = tf.summary.create_file_writer(path)
            with self._writers[kind].as_default():
                yield

    def flush(self) -> None:
        """Writes all entries to disk; raises `InputError` if the disk is full."""
        # The lines name the folders of the events, so the lines are written first.
        files.write_text(self._path, "".join(f"{line}\n" for line in self._lines))
        for kind, writer in self._writers.items():
            with files.explain_write_errors(os.path.join(self._dir, kind)):
                writer.flush()


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", value
        else:
            yield f"{prefix}{name}", "" if value is None else str(value)


def _event_files(folder: str) -> list[str]:
    """Returns the event files, and removes incomplete ones that a killed run has left."""
    atomic_files.remove_leftovers(folder)  # which TensorBoard would read too
    names = fnmatch.filter(files.list_folder(folder), _EVENT_FILES)
    return [os.path.join(folder, name) for name in names]


def _remove_events_after(path: str, step: int) -> set[str]:
    """Removes the events of steps after `step` from a file; returns the tags of the others."""
    kept: list[bytes] = []
    tags: set[str] = set()
    is_changed = False
    with files.explain_read_errors(path):
        try:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                event = tf.compat.v1.Event.FromString(record)
                if event.step > step:
                    is_changed = True
                    continue
                kept.append(record)
                tags.update(value.tag for value in event.summary.value)
        # A killed run wrote only a part of its last event.
        except tf.errors.DataLossError:
            is_changed = True

    if is_changed:
        with (
            files.atomic_replace(path) as temporary,
            tf.io.TFRecordWriter(temporary) as file,
        ):
            for record in kept:
                file.write(record)
    return tags


def write_results(path: str, values: Metrics) -> None:
    """Writes sorted `name = value` lines, the format of google-research/bert."""
    files.write_text(
        path, "".join(f"{name} = {values[name]}\n" for name in sorted(values))
    )
