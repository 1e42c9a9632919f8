"""`OnnxForward`: runs an ONNX file with ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.export.model_file import FileForward


def open_session(path: str, content: bytes, num_threads: int) -> Any:
    """Returns an ONNX file in ONNX Runtime.

    Args:
        path: The path of the ONNX file, for messages.
        content: Its content.
        num_threads: The number of threads.

    Raises:
        InputError: ONNX Runtime is not installed, or it cannot run the file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.log_severity_level = 3  # errors only
    try:
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # ONNX Runtime has many classes of errors
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path} is not a file that ONNX Runtime {onnxruntime.__version__} can "
            f"run: ... {reason[-200:]} Install a newer onnxruntime, or export the "
            "model again."
        ) from error


class OnnxForward(FileForward):
    """The outputs of an ONNX file for a batch.

    Args:
        session: The file in ONNX Runtime, from `open_session`.
        outputs_of_tokens: Whether the outputs have one value for each token.
    """

    def __init__(self, session: Any, outputs_of_tokens: bool) -> None:
        self._session = session
        shapes = {
            each.name: [size if isinstance(size, int) else -1 for size in each.shape]
            for each in session.get_outputs()
        }
        inputs = [each.name for each in session.get_inputs()]
        super().__init__(inputs, shapes, outputs_of_tokens)

    def _run_rows(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of one row or more."""
        return dict(
            zip(self._outputs, self._session.run(None, dict(batch)), strict=True)
        )
