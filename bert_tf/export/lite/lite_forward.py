"""`LiteForward`: runs a TFLite file with LiteRT."""

import concurrent.futures
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.export.model_file import IDS, FileForward
from bert_tf.modeling.inputs import POSITIONS

_MASK = "input_mask"


class LiteForward(FileForward):
    """The outputs of a TFLite file for a batch.

    A row of the batch is a run of the file, and is not padded to the length of other
    rows unless the outputs are those of tokens. A single row uses all threads; with
    more rows, each thread runs other rows, in an interpreter of its own. Unused
    interpreters are kept.

    Args:
        path: The path of the TFLite file, for messages.
        content: Its content.
        num_threads: The number of threads.
        outputs_of_tokens: Whether the outputs have one value for each token.

    Raises:
        InputError: LiteRT is not installed, or the file is not a TFLite file.
    """

    def __init__(
        self, path: str, content: bytes, num_threads: int, outputs_of_tokens: bool
    ) -> None:
        # Interpreters share the content: the file may be replaced while a server runs.
        self._path, self._content, self._num_threads = path, content, num_threads
        # The unused interpreters with one thread for each row, and with all threads for
        # one row.
        self._free: dict[int, list[Any]] = {1: [], self._num_threads: []}
        with self._runner(self._num_threads) as runner:
            inputs, outputs = runner.get_input_details(), runner.get_output_details()
        shapes = {
            name: each["shape_signature"].tolist() for name, each in outputs.items()
        }
        super().__init__(tuple(inputs), shapes, outputs_of_tokens)
        shape = inputs[IDS]["shape_signature"] if IDS in inputs else [1, -1]
        self._length = int(shape[1])  # -1 for any length

    def _run_rows(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of one row or more."""
        count = len(next(iter(batch.values())))
        rows = [
            {name: each[row : row + 1] for name, each in batch.items()}
            for row in range(count)
        ]
        if count == 1:
            return self._run_row(rows[0], self._num_threads)
        with concurrent.futures.ThreadPoolExecutor(self._num_threads) as pool:
            found = list(pool.map(self._run_row, rows, [1] * count))
        return {
            name: np.concatenate([each[name] for each in found])
            for name in self._outputs
        }

    def _run_row(
        self, row: Mapping[str, np.ndarray], num_threads: int
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of one row, [1, ...] each."""
        with self._runner(num_threads) as runner:
            if IDS not in row:
                return dict(runner(**row))
            given = row[IDS].shape[1]
            used = given if self._outputs_of_tokens else _num_tokens(row, given)
            of_tokens = {name: each for name, each in row.items() if name != POSITIONS}
            inputs = {
                name: self._with_length(each, used) for name, each in of_tokens.items()
            }
            if POSITIONS in row:
                return self._run_positions(runner, inputs, row[POSITIONS])
            outputs = dict(runner(**inputs))
        if self._outputs_of_tokens:
            outputs = {name: value[:, :given] for name, value in outputs.items()}
        return outputs

    def _run_positions(
        self, runner: Any, inputs: Mapping[str, np.ndarray], positions: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Returns the outputs of one row for P positions."""
        step = 1 if self._length > 0 else positions.shape[1]
        parts = [
            dict(runner(**{**inputs, POSITIONS: positions[:, first : first + step]}))
            for first in range(0, positions.shape[1], step)
        ]
        return {
            name: np.concatenate([each[name] for each in parts], axis=1)
            if value.ndim == 3
            else value
            for name, value in parts[0].items()
        }

    def _with_length(self, value: np.ndarray, used: int) -> np.ndarray:
        """Returns the first tokens of a row, padded to the length of the file."""
        value = value[:, :used]
        missing = self._length - value.shape[1]
        return np.pad(value, [(0, 0), (0, missing)]) if self._length > 0 else value

    @contextlib.contextmanager
    def _runner(self, num_threads: int) -> Iterator[Any]:
        """Takes an unused interpreter, or a new one, and puts it back afterwards."""
        free = self._free[num_threads]
        try:
            runner = free.pop()  # append and pop of a list are atomic
        except IndexError:
            runner = self._new_runner(num_threads)
        yield runner
        free.append(runner)

    def _new_runner(self, num_threads: int) -> Any:
        """Returns the signature of the file in a new interpreter.

        It also has the operations of tensorflow_text.
        """
        import tensorflow_text
        from ai_edge_litert.interpreter import InterpreterWithCustomOps

        try:
            interpreter = InterpreterWithCustomOps(
                custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
                model_content=self._content,
                num_threads=num_threads,
            )
            return interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self._path} is not a file that LiteRT can run: {reason}"
            ) from error


def _num_tokens(row: Mapping[str, np.ndarray], given: int) -> int:
    """Returns the number of tokens up to the last token and the last position."""
    last = int(
        np.max(np.flatnonzero(row[_MASK][0]), initial=np.max(row.get(POSITIONS, 0)))
    )
    return min(given, 1 + last)
