"""Runs requests on exported models, in a process of its own; started by `gate_process`.

Reads from standard input, after it has imported TensorFlow, the folder that contains bert_tf, and
for each model three lines: the path of the model, of the file of requests and of the file for the
outputs. Both files have the ending .npz. A SavedModel runs without bert_tf, and a TFLite file with
`load_lite`.
"""

import sys
from typing import Any

import numpy as np

TEXTS = ".texts"
MODELS: list[Any] = []


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


def signatures_of(path: str, root: str, tensorflow: Any) -> Any:
    """Returns the signatures of a SavedModel or of a TFLite file, by name."""
    if path.endswith(".tflite"):
        sys.path.insert(0, root)
        from bert_tf.export.lite.load import load_lite

        served, _ = load_lite(path)
        return {name: each.function for name, each in served.endpoints().items()}
    sys.modules["bert_tf"] = None  # type: ignore[assignment]  # an import of bert_tf then fails
    model = tensorflow.saved_model.load(path)
    MODELS.append(model)  # the signatures do not keep the weights alive
    return model.signatures


def run(path: str, requests_file: str, root: str, tensorflow: Any) -> dict[str, Any]:
    """Returns the outputs of all requests; the keys are the number of a request and a name."""
    signatures = signatures_of(path, root, tensorflow)
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
    """Writes the outputs of all requests for each model."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

    root, *lines = sys.stdin.read().split("\n")[:-1] or [""]
    try:
        for first in range(0, len(lines), 3):
            path, requests_file, outputs_file = lines[first : first + 3]
            np.savez(outputs_file, **run(path, requests_file, root, tf))
    except Exception as error:  # of any kind; the caller reports the last line
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


main()
