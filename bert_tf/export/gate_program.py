"""Runs requests on a SavedModel, in a process without bert_tf; started by `gate`.

Reads the path of the SavedModel, of the file of requests and of the file for the outputs from
standard input, one per line, after it has imported TensorFlow. Both files have the ending .npz; see
`gate`.
"""

import sys
from typing import Any

import numpy as np

sys.modules["bert_tf"] = None  # type: ignore[assignment]  # an import of bert_tf then fails
TEXTS = ".texts"


def unpack(key: str, array: Any, tensorflow: Any) -> Any:
    """Returns the tensor of an array in a file of requests."""
    if not key.endswith(TEXTS):
        return tensorflow.constant(array)
    proto = tensorflow.make_tensor_proto(0)
    proto.ParseFromString(array.tobytes())
    return tensorflow.constant(tensorflow.make_ndarray(proto), tensorflow.string)


def pack(key: str, value: Any, tensorflow: Any) -> dict[str, Any]:
    """Returns the entry of an output in the file of outputs."""
    if value.dtype != object:
        return {key: value}
    serialized = tensorflow.make_tensor_proto(value).SerializeToString()
    return {key + TEXTS: np.frombuffer(serialized, np.uint8)}


def run(folder: str, requests_file: str, tensorflow: Any) -> dict[str, Any]:
    """Returns the outputs of all requests; the keys are the number of a request and a name."""
    signatures = tensorflow.saved_model.load(folder).signatures
    requests: dict[tuple[str, str], dict[str, Any]] = {}
    with np.load(requests_file) as file:
        for key in file.files:
            number, signature, name = key.split("/")
            inputs = requests.setdefault((number, signature), {})
            inputs[name.removesuffix(TEXTS)] = unpack(key, file[key], tensorflow)
    outputs: dict[str, Any] = {}
    for (number, signature), inputs in requests.items():
        for name, value in signatures[signature](**inputs).items():
            outputs |= pack(f"{number}/{name}", value.numpy(), tensorflow)
    return outputs


def main() -> None:
    """Writes the outputs of all requests."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

    folder, requests_file, outputs_file = (sys.stdin.readline().rstrip("\n") for _ in range(3))
    if not folder:
        return
    try:
        np.savez(outputs_file, **run(folder, requests_file, tf))
    except Exception as error:  # of any kind; the caller reports the last line
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


main()
