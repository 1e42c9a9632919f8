"""A process that runs exported models: a SavedModel as a server does, without bert_tf."""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from bert_tf.errors import InputError
from bert_tf.export.requests import Request
from bert_tf.storage.files import path_without_globs

# As `startup.set_environment` sets it for programs; in Python, this process may lack
# it.
_DEFAULTS = {"TF_ENABLE_ONEDNN_OPTS": "1"}
# This process may have all the memory of the GPUs.
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
with open(
    os.path.join(os.path.dirname(__file__), "gate_program.py"), encoding="utf-8"
) as _file:
    # Given as text: the folder of the file would be on the path of modules.
    _PROGRAM = _file.read()


class GateError(InputError):
    """The exported model and the model in memory have different outputs."""


class Gate:
    """A process that runs exported models.

    It imports TensorFlow while they are written.

    Args:
        python: The Python program, whose environment may have another version of TensorFlow.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=os.sep,
            env={**_DEFAULTS, **os.environ, **_ENVIRONMENT},
        )

    def run(
        self, paths: Sequence[str], found: Sequence[Sequence[Request]]
    ) -> list[list[dict[str, np.ndarray]]]:
        """Returns the outputs of requests for models. A process runs only once.

        Args:
            paths: SavedModels, or TFLite or ONNX files.
            found: The requests for each of them.

        Raises:
            GateError: A model cannot be loaded, or a request fails.
        """
        # The process runs in another folder.
        places = [path if "://" in path else os.path.abspath(path) for path in paths]
        with contextlib.ExitStack() as stack:
            places = [stack.enter_context(path_without_globs(each)) for each in places]
            models = [
                (path, [(each.signature, each.inputs) for each in requests])
                for path, requests in zip(places, found, strict=True)
            ]
            place = stack.enter_context(tempfile.TemporaryDirectory())
            files = [os.path.join(place, name) for name in ("requests", "outputs")]
            with open(files[0], "wb") as file:
                pickle.dump(models, file)
            _, errors = self._process.communicate("\n".join(files))
            if self._process.returncode:
                last = (errors.strip().splitlines() or ["no message"])[-1]
                raise GateError(
                    f"The exported model does not run in another process: {last}"
                )
            with open(files[1], "rb") as file:
                outputs: list[list[dict[str, np.ndarray]]] = pickle.load(file)
        return outputs

    def close(self) -> None:
        """Ends the process."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
