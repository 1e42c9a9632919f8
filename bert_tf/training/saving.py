"""`Saver`: writes checkpoints and the best weights while training goes on."""

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files, weights
from bert_tf.training import state
from bert_tf.training.config import TrainingConfig, as_plain
from bert_tf.training.optimizer import Optimizer
from bert_tf.training.state import ModelDescription, Position


class Saver:
    """Writes in a thread the weights as they are now, as a context manager that waits at its end.

    Training stands still only where the write before is not done yet. A write that fails is
    raised by what is called next.

    Args:
        output_dir: The folder of the run.
        model: What travels with the weights.
        training: What defines the result.
        runtime: How it is computed, for a checkpoint to say it.
        optimizer: Has weights and moments.
        keep_checkpoints: How many of the newest checkpoints stay.
    """

    def __init__(
        self,
        output_dir: str,
        model: ModelDescription,
        training: TrainingConfig,
        runtime: Mapping[str, Any],
        optimizer: Optimizer,
        keep_checkpoints: int,
    ) -> None:
        self._dir, self._model, self._optimizer = output_dir, model, optimizer
        self._configs = {
            state.TRAINING_FILE: as_plain(training),
            state.RUNTIME_FILE: dict(runtime),
        }
        self._keep = keep_checkpoints
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "saver")
        self._pending: concurrent.futures.Future[None] | None = None

    def save(self, position: Position, iterator: Any) -> None:
        """Writes the checkpoint of `position.step` and removes the oldest ones.

        Raises:
            InputError: This or the write before it failed.
        """
        self.wait()
        arrays, slots = self._optimizer.state()
        facts = as_plain(position)
        folder = state.folder_of(self._dir, position.step)
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(files.atomic_folder(folder, state.STATE_FILE))
            # The iterator moves on with the next step; what it writes is small.
            tf.train.Checkpoint(iterator=iterator).write(os.path.join(place, state.POSITION_FILE))
            unfinished = stack.pop_all()

        def write() -> None:
            with unfinished:
                self._write_weights(place, arrays, {"step": position.step})
                path = os.path.join(place, state.OPTIMIZER_FILE)
                files.write_bytes(path, weights.to_safetensors(slots))
                for name, config in self._configs.items():
                    files.write_json(os.path.join(place, name), config)
                whole = {**facts, "files": state.checksums(place)}
                files.write_json(os.path.join(place, state.STATE_FILE), whole)
            self._remove_all_but_newest(position.step)

        self._submit(write)

    def save_best(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the weights-only folder of the best evaluation, in place of the one before.

        Args:
            step: Steps done.
            values: The evaluation, kept beside the weights.

        Raises:
            InputError: This or the write before it failed.
        """
        self.wait()
        arrays, _ = self._optimizer.state()

        def write() -> None:
            with files.atomic_folder(
                os.path.join(self._dir, state.BEST), weights.FACTS_FILE
            ) as place:
                self._write_weights(place, arrays, {"step": step, "eval": dict(values)})

        self._submit(write)

    def check(self) -> None:
        """Raises what went wrong with a write that is done, if anything did."""
        if self._pending is not None and self._pending.done():
            self.wait()

    def wait(self) -> None:
        """Waits until everything is written.

        Raises:
            InputError: It could not be written.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _remove_all_but_newest(self, step: int) -> None:
        folders = state.checkpoints(self._dir)
        # A run goes on from the newest whole checkpoint: those beyond it are damaged.
        kept = [folder for folder in folders if state.step_of(folder) <= step][-self._keep :]
        for old in folders:
            if old not in kept:
                tf.io.gfile.rmtree(old)

    def _submit(self, write: Callable[[], None]) -> None:
        self._pending = self._thread.submit(write)

    def _write_weights(
        self, place: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
    ) -> None:
        weights.write_into(
            place, arrays, self._model.config, self._model.vocabulary, self._model.do_lower_case,
            {**self._model.extra, **facts},
        )  # fmt: skip

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._thread.shutdown()
        if kind is None:
            self.wait()
