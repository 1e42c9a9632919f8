"""Program that runs requests on exported models; `check` starts it as a process.

After the import of TensorFlow, it reads two paths from standard input: a pickle file
with the runtime of ONNX files and the models with their requests, and the pickle file
to which it writes the outputs. SavedModels run without bert_tf, other files with it.
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
    """Returns the outputs of each request, arrays by name.

    The first two fields of a request are those of `signature_requests.Request`: the
    name of the signature, and the inputs. Arrays of texts have the dtype object.
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
    """Loads a SavedModel, a TFLite or an ONNX file; returns its signatures by name."""
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
    """Reads the two paths, runs all requests on their models, and writes the outputs."""
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
