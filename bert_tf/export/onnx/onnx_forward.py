"""`OnnxForward`: runs an ONNX file with ONNX Runtime."""

from collections.abc import Mapping

import numpy as np

from bert_tf import files
from bert_tf.errors import InputError
from bert_tf.export.model_files.file_forward import FileForward, num_cores
from bert_tf.export.onnx.onnx_metadata import check_installed


class OnnxForward(FileForward):
    """The outputs of an ONNX file for a batch.

    Args:
        path: The ONNX file.
        num_threads: The number of threads. Default: the number of cores of this process.
        outputs_of_tokens: Whether the outputs have one value for each token.
        content: The content of the file. Default: it is read.

    Raises:
        InputError: ONNX Runtime is not installed, or it cannot run the file.
    """

    def __init__(
        self,
        path: str,
        num_threads: int | None,
        outputs_of_tokens: bool,
        content: bytes | None = None,
    ) -> None:
        check_installed()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads or num_cores()
        options.log_severity_level = 3  # errors only
        content = files.read_bytes(path) if content is None else content
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime has a class of its own for each kind of error
            reason = " ".join(str(error).split())
            raise InputError(
                f"{path} is not a file that ONNX Runtime {onnxruntime.__version__} can run: "
                f"... {reason[-200:]} Install a newer onnxruntime, or export the model again."
            ) from error
        shapes = {
            each.name: [size if isinstance(size, int) else -1 for size in each.shape]
            for each in self._session.get_outputs()
        }
        inputs = [each.name for each in self._session.get_inputs()]
        super().__init__(inputs, shapes, outputs_of_tokens)

    def _run_rows(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of one row or more."""
        return dict(zip(self._outputs, self._session.run(None, dict(batch)), strict=True))
