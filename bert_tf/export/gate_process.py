"""A process that runs exported models: a SavedModel as a server does, without bert_tf."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.export.requests import Request, array_of

# This process may have all the memory of the GPUs.
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
with open(os.path.join(os.path.dirname(__file__), "gate_program.py"), encoding="utf-8") as _file:
    # Given as text: the folder of the file would be on the path of modules.
    _PROGRAM = _file.read()
_TEXTS = ".texts"
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


class GateError(InputError):
    """The exported model and the model in memory have different outputs."""


class Gate:
    """A process that runs exported models; it imports TensorFlow while they are written.

    Args:
        python: The Python program, whose environment may have another version of TensorFlow.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, cwd=os.sep, env={**os.environ, **_ENVIRONMENT},
        )  # fmt: skip

    def run(
        self, paths: Sequence[str], found: Sequence[Sequence[Request]]
    ) -> list[list[dict[str, np.ndarray]]]:
        """Returns the outputs of requests for models. A process runs only once.

        Args:
            paths: SavedModels, or TFLite files.
            found: The requests for each of them.

        Raises:
            GateError: A model cannot be loaded, or a request fails.
        """
        with tempfile.TemporaryDirectory() as place:
            lines, results = [], []
            for number, (path, requests) in enumerate(zip(paths, found, strict=True)):
                files = [os.path.join(place, f"{number}.{name}.npz") for name in ("in", "out")]
                np.savez(files[0], **_pack(requests))
                lines += [_absolute(path), *files]
                results.append(files[1])
            lines = [_ROOT, *lines]
            _, errors = self._process.communicate("".join(f"{line}\n" for line in lines))
            if self._process.returncode:
                last = (errors.strip().splitlines() or ["no message"])[-1]
                raise GateError(f"The exported model does not run in another process: {last}")
            sizes = map(len, found)
            return [_unpack(path, size) for path, size in zip(results, sizes, strict=True)]

    def close(self) -> None:
        """Ends the process."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextlib.contextmanager
def open_gate(python: str = sys.executable) -> Iterator[Gate]:
    """Starts the process of a gate, and ends it."""
    gate = Gate(python)
    try:
        yield gate
    finally:
        gate.close()


def _pack(found: Sequence[Request]) -> dict[str, Any]:
    """Returns the inputs of requests for a file of arrays.

    The key of an input is the number of the request, the signature and the name. NumPy cannot store
    texts, so their entry is a serialized `TensorProto`, and its key has the ending `_TEXTS`.
    """
    arrays: dict[str, Any] = {}
    for number, request in enumerate(found):
        for name, value in request.inputs.items():
            key = f"{number}/{request.signature}/{name}"
            if value.dtype == object:
                proto = tf.make_tensor_proto(value, tf.string)
                arrays[key + _TEXTS] = np.frombuffer(proto.SerializeToString(), np.uint8)
            else:
                arrays[key] = value
    return arrays


def _unpack(path: str, count: int) -> list[dict[str, np.ndarray]]:
    """Returns the outputs of each of `count` requests."""
    outputs: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    with np.load(path) as file:
        for key in file.files:
            number, name = key.split("/")
            is_texts = key.endswith(_TEXTS)
            value = array_of(file[key].tobytes()) if is_texts else file[key]
            outputs[int(number)][name.removesuffix(_TEXTS)] = value
    return outputs


def _absolute(folder: str) -> str:
    return folder if "://" in folder else os.path.abspath(folder)
