"""`LiteForward`: runs a TFLite file with LiteRT."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.modeling.inputs import POSITIONS

_IDS, _MASK = "input_ids", "input_mask"


class LiteForward:
    """The outputs of a TFLite file for a batch. Several threads can call it at the same time.

    Each call uses an interpreter of its own; unused interpreters are kept. A row of the batch is a
    run of the file, and is not padded to the length of other rows unless the outputs are those of
    tokens.

    Args:
        path: The TFLite file.
        num_threads: Threads of a run. Default: the number of cores of this process.
        outputs_of_tokens: Whether the outputs have one value for each token.
        content: The content of the file. Default: it is read.

    Call arguments:
        inputs: Tensors [B, ...] of the inputs of the file, by name.

    Returns:
        The outputs of the file, float32 [B, ...], by name.

    Raises:
        InputError: LiteRT is not installed, or the file is not a TFLite file.
    """

    def __init__(
        self,
        path: str,
        num_threads: int | None,
        outputs_of_tokens: bool,
        content: bytes | None = None,
    ) -> None:
        check_installed()
        self._path, self._outputs_of_tokens = path, outputs_of_tokens
        # Read once, because the file may be replaced while a server runs. Interpreters share it.
        self._content = files.read_bytes(path) if content is None else content
        self._num_threads = num_threads or _num_cores()
        self._free = [self._new_runner()]
        runner = self._free[0]
        self._inputs = runner.get_input_details()
        self._outputs = {
            name: detail["shape_signature"] for name, detail in runner.get_output_details().items()
        }
        shape = self._inputs[_IDS]["shape_signature"] if _IDS in self._inputs else [1, -1]
        self._length = int(shape[1])  # -1 for any length

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs for a batch; see the docstring of the class."""
        names = [name for name in self._inputs if name in inputs]
        values = tf.numpy_function(
            lambda *arrays: self.run(dict(zip(names, arrays, strict=True))),
            [inputs[name] for name in names], [tf.float32] * len(self._outputs),
        )  # fmt: skip
        values = tf.nest.flatten(values)  # a single output may be a tensor instead of a list
        for value, shape in zip(values, self._outputs.values(), strict=True):
            value.set_shape([None] * len(shape))
        return dict(zip(self._outputs, values, strict=True))

    def run(self, batch: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns the outputs of all rows, in the order of `_outputs`."""
        rows = len(next(iter(batch.values())))
        with self._runner() as runner:
            found = [
                self._run_row(runner, {name: value[row : row + 1] for name, value in batch.items()})
                for row in range(rows)
            ]
        if not found:
            shapes = [self._empty_shape(each, batch) for each in self._outputs.values()]
            return [np.zeros(shape, np.float32) for shape in shapes]
        return [np.concatenate([each[name] for each in found]) for name in self._outputs]

    def _empty_shape(self, shape: np.ndarray, batch: Mapping[str, np.ndarray]) -> list[int]:
        """Returns the shape of an output for a batch without rows."""
        rest = np.abs(shape[1:]).tolist()
        if self._outputs_of_tokens:
            rest[0] = batch[_IDS].shape[1]
        return [0, *rest]

    def _run_row(self, runner: Any, row: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of one row, [1, ...] each."""
        if _IDS not in row:
            return dict(runner(**row))
        given = row[_IDS].shape[1]
        positions = row.get(POSITIONS)
        if positions is None:  # all positions
            positions = np.arange(given, dtype=np.int32)[None]
        has_all = self._outputs_of_tokens or (POSITIONS in self._inputs and POSITIONS not in row)
        used = given if has_all else _num_tokens(row[_MASK])
        inputs = {name: self._with_length(value, used) for name, value in row.items()}
        if POSITIONS in self._inputs:
            return self._run_positions(runner, inputs, positions)
        outputs = dict(runner(**inputs))
        if self._outputs_of_tokens:
            outputs = {name: value[:, :given] for name, value in outputs.items()}
        return outputs

    def _run_positions(
        self, runner: Any, inputs: Mapping[str, np.ndarray], positions: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of one row for P positions; without positions, [1, 0, V]."""
        count = positions.shape[1]
        if not count:
            positions = np.zeros([1, 1], np.int32)
        step = 1 if self._length > 0 else positions.shape[1]
        parts = [
            dict(runner(**{**inputs, POSITIONS: positions[:, first : first + step]}))
            for first in range(0, positions.shape[1], step)
        ]
        return {
            name: np.concatenate([each[name] for each in parts], axis=1)[:, :count]
            if value.ndim == 3 else value
            for name, value in parts[0].items()
        }  # fmt: skip

    def _with_length(self, value: np.ndarray, used: int) -> np.ndarray:
        """Returns the first tokens of a row, padded to the length of the file."""
        value = value[:, :used]
        missing = self._length - value.shape[1]
        return np.pad(value, [(0, 0), (0, missing)]) if self._length > 0 else value

    @contextlib.contextmanager
    def _runner(self) -> Iterator[Any]:
        """Takes an unused interpreter, or a new one, and puts it back."""
        try:
            runner = self._free.pop()  # append and pop of a list are atomic
        except IndexError:
            runner = self._new_runner()
        yield runner
        self._free.append(runner)

    def _new_runner(self) -> Any:
        """Returns the signature of the file in a new interpreter."""
        try:
            interpreter = _interpreter(self._content, self._num_threads)
            return interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{self._path} is not a file that LiteRT can run: {reason}") from error


def check_installed() -> None:
    """Checks that LiteRT is installed.

    Raises:
        InputError: It is not.
    """
    try:
        import ai_edge_litert.interpreter  # noqa: F401
    except ImportError as error:
        raise InputError(
            "TFLite files need the package ai-edge-litert, which is not installed. Install it: "
            "pip install 'bert-tf[lite]'."
        ) from error


def _interpreter(model: bytes, num_threads: int) -> Any:
    """Returns an interpreter of LiteRT with the operations of tensorflow_text."""
    import tensorflow_text
    from ai_edge_litert.interpreter import InterpreterWithCustomOps

    registrar = tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS
    return InterpreterWithCustomOps(
        custom_op_registerers=registrar, model_content=model, num_threads=num_threads
    )


def _num_tokens(mask: np.ndarray) -> int:
    """Returns the number of tokens of a row up to its last one, at least 1."""
    return 1 + int(np.max(np.flatnonzero(mask[0]), initial=0))


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
