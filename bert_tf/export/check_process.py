"""Runs requests on exported models, in a process of its own; started by `check`.

Reads two lines from standard input, after it has imported TensorFlow: a file of the
runtime of ONNX files and of models with their requests, and the path for a file of the
outputs. A SavedModel runs without bert_tf, and a TFLite or ONNX file with `load_file`.
"""

import pickle
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers operations of the SavedModel)

MODELS: list[Any] = []


def outputs_of(
    signatures: Mapping[str, Any], requests: Iterable[Any]
) -> list[dict[str, Any]]:
    """Returns the outputs of requests, arrays by name.

    The requests have the fields of `signature_requests.Request`. Texts have the dtype
    object.
    """
    results = []
    for signature, inputs, *_ in requests:
        tensors = {
            name: tf.constant(value, tf.string if value.dtype == object else None)
            for name, value in inputs.items()
        }
        with tf.device("CPU"):
            outputs = signatures[signature](**tensors)
        results.append({name: value.numpy() for name, value in outputs.items()})
    return results


def signatures_of(path: str, runtime: str) -> Any:
    """Returns the signatures of a SavedModel or of a TFLite or ONNX file, by name."""
    if not tf.io.gfile.isdir(path):
        from bert_tf.export.model_file import load_file

        served, _ = load_file(path, runtime=runtime)
        return {
            name: endpoint.function for name, endpoint in served.endpoints().items()
        }
    sys.modules["bert_tf"] = None  # type: ignore[assignment]  # an import of bert_tf then fails
    model = tf.saved_model.load(path)
    MODELS.append(model)  # the signatures do not keep the weights alive
    return model.signatures


def main() -> None:
    """Writes the outputs of all requests for each model."""
    requests_file, outputs_file = sys.stdin.read().splitlines()
    try:
        with open(requests_file, "rb") as file:
            runtime, models = pickle.load(file)
        outputs = [
            outputs_of(signatures_of(path, runtime), requests)
            for path, requests in models
        ]
        with open(outputs_file, "wb") as file:
            pickle.dump(outputs, file)
    except Exception as error:  # of any kind; the caller reports the last line
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
