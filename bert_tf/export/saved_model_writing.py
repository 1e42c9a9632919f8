"""Writes a SavedModel that takes raw text, with files for TensorFlow Serving, and checks it.

The files are batching parameters, warm-up requests, and an example request and
instructions for users. The server runs the warm-up requests when it loads a model, so
that the first requests of users are not slow. They are a TFRecord file of
`PredictionLog`s. This module encodes these messages itself, so that an export needs no
tensorflow-serving-api.

Source: `tensorflow_serving/apis/*.proto`, which define the field numbers below.
"""

import dataclasses
import functools
import json
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2

from bert_tf.export import check
from bert_tf.export.check_process import outputs_of
from bert_tf.export.formats import ExportCheckError
from bert_tf.export.job import ExportJob
from bert_tf.export.layout import EXTRA
from bert_tf.export.saved_model_loading import foreign_parts, read_graph
from bert_tf.export.served import ServedModel, load_served
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.export.signature_requests import (
    Request,
    example_requests,
    labelled_requests,
)
from bert_tf.pretrained import Pretrained
from bert_tf.storage import files
from bert_tf.training.mixed_precision import emulation_of_bfloat16

_LOGGER = logging.getLogger(__name__)
_BATCHING = """\
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 2 }
"""

_README = """\
# A SavedModel of bert-tf

The task is {task}, and the weights are {precision}. The model takes raw
text.

## Signatures

{signatures}

The batch is the first dimension of all inputs and outputs. `ids` and
`ids_lengths` refuse ids that are out of range; one such row fails all rows of its \
batch. Texts of
any content and length are accepted.

## TensorFlow Serving

Not run here. Run the command in the folder that contains the versions of the model.

```
docker run -p 8501:8501 -p 8500:8500 -v "$PWD:/models/bert" -e MODEL_NAME=bert \\
    -e TF_ENABLE_ONEDNN_OPTS=1 \\
    tensorflow/serving --enable_batching \\
    --batching_parameters_file=/models/bert/{version}/batching_params.pbtxt
curl -d '{body}' http://localhost:8501/v1/models/bert:predict
```

With these parameters, a request has at most 32 rows. `TF_ENABLE_ONEDNN_OPTS=1` makes \
processors
without AVX512 instructions faster. On others, it is the default.

{about_padding}

A gRPC client, with `pip install tensorflow-serving-api`:

```python
import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

channel = grpc.insecure_channel("localhost:8500")
stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
request = predict_pb2.PredictRequest()
request.model_spec.name = "bert"
{tensors}
print(stub.Predict(request, 10.0))
```

## Python

```python
import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # before TensorFlow is imported
import tensorflow as tf
import tensorflow_text  # registers operations of the tokenizer

model = tf.saved_model.load("{version}")
print(model.signatures["serving_default"]({inputs}))
```

`saved_model_cli show --all --dir {version}` prints the names, dtypes and shapes. \
`saved_model_cli run`
lacks the operations of the tokenizer. This command imports them first:

```
python -c "import tensorflow_text; from tensorflow.python.tools.saved_model_cli \
import main; main()" \\
    run --dir {version} --tag_set serve --signature_def serving_default \\
    --input_exprs '{expressions}'
```
"""
# How TensorFlow Serving joins requests to a batch: for models that take lists of texts,
# and for other models.
_LISTS = """\
`{name}` is a string tensor [B, K]. Pad the lists of a batch with "" to the same \
length: an empty
text is not an entry. The server does not pad requests of different lengths, because \
it would pad
lists with their first entry, and it refuses to put them together. With \
--enable_batching, give all
requests equal shapes, also those of `ids` and `ids_lengths`, or leave \
--enable_batching out."""
_TEXTS = """\
The server pads requests of different lengths with the first element of each tensor, \
so `input_mask`
of `ids` would be wrong: send token ids to `ids_lengths`."""
WARM_UP_FILE = f"{EXTRA}/tf_serving_warmup_requests"
_WARM_UP_TEXTS = (
    b"A short [MASK] text.",
    b"The quick [MASK] fox jumps over the lazy dog, "
    b"and [MASK] in the village looks up. " * 4,
)
# Of PredictRequest, ClassificationRequest and RegressionRequest.
_MODEL_SPEC, _INPUTS = 1, 2
_SIGNATURE_NAME = 3  # of ModelSpec
_EXAMPLE_LIST, _EXAMPLES = 1, 1  # of Input and of ExampleList
_KEY, _VALUE = 1, 2  # of an entry of a map
_REQUEST = 1  # of ClassifyLog, RegressLog and PredictLog
_LOGS = {"classify": 2, "regress": 3, "predict": 6}  # of PredictionLog


def prepare(job: ExportJob) -> Callable[[check.CheckProcess, str], dict[str, Any]]:
    """Reads everything that a SavedModel needs, before anything is written.

    The returned function writes a SavedModel and the files for TensorFlow Serving to a
    folder, runs the SavedModel in a process, and returns the report. It raises
    `ExportCheckError` if the outputs differ too much from those of the model in memory.

    Raises:
        InputError: The checkpoint cannot be exported for the task.
    """
    served = _load(job.checkpoint, job.settings)
    if emulation := _emulation(job.settings):
        _LOGGER.warning("warning: %s", emulation)

    labelled = labelled_requests(served, job.dev_data)
    return functools.partial(_write, job, served, labelled)


def _load(checkpoint: Pretrained, settings: ServingSettings) -> ServedModel:
    """Builds a served model whose encoder skips the padding of a batch."""
    served = load_served(checkpoint, settings)
    served.model.skip_padding = True
    return served


def _emulation(settings: ServingSettings) -> str:
    """Returns a warning if this machine only emulates the dtype of the export, otherwise ""."""
    emulation = emulation_of_bfloat16() if settings.precision == "bfloat16" else None
    remedy = "Give precision=float32 for servers like this machine."
    return f"{emulation} {remedy}" if emulation else ""


def _write(
    job: ExportJob,
    served: ServedModel,
    labelled: Sequence[Request],
    process: check.CheckProcess,
    folder: str,
) -> dict[str, Any]:
    """Writes and checks a SavedModel; see `prepare`."""
    settings = job.settings

    # Write the graph and the files of TensorFlow Serving.
    signatures = served.signatures()
    tf.saved_model.save(served, folder, signatures=signatures)
    _replace_random_number(folder)
    _write_server_files(folder, served, job)
    if foreign := foreign_parts(read_graph(folder)):
        raise ExportCheckError(
            f"The SavedModel contains {', '.join(foreign)}, which TensorFlow Serving "
            "2.12 may lack, or which may read or write files. Nothing was exported."
        )

    # Run it in the other process.
    requests = [
        *warm_up_requests(served),
        *labelled,
        *example_requests(served, signatures, check.EXAMPLES, ()),
    ]
    (outputs,) = process.run([folder], [requests])

    # A SavedModel of another precision is compared with the float32 model, too.
    if settings.precision != "float32":
        single = dataclasses.replace(settings, precision="float32")
        signatures = _load(job.checkpoint, single).signatures()
    expected = outputs_of(signatures, requests)
    limits = check.LIMITS[settings.precision]
    try:
        report = check.judge(
            served, requests, expected=expected, actual=outputs, limits=limits
        )
    except ExportCheckError as error:
        raise ExportCheckError(f"{error} {_emulation(settings)}".strip()) from error

    # Report how close the outputs are.
    _LOGGER.info(
        "%d outputs compared with the model in memory: the largest difference is %.1e "
        "(export_report.json states all).",
        len(report["outputs"]),
        max((output["difference"] for output in report["outputs"]), default=0.0),
    )
    if metric := report["metric"]:
        baseline = metric["baseline"]
        _LOGGER.info(
            "%s on %d examples: %.2f, and %.2f before the export%s",
            metric["name"],
            metric["num_examples"],
            metric["exported"],
            metric["model"],
            "" if baseline is None else f"; {baseline:.2f} for a constant prediction",
        )

    return {
        "model": type(served).__name__,
        "precision": settings.precision,
        "max_seq_length": served.max_seq_length,
        **report,
    }


def _replace_random_number(folder: str) -> None:
    """Replaces the random number in fingerprint.pb, so that equal exports have equal bytes."""
    graph, path = (
        os.path.join(folder, name) for name in ("saved_model.pb", "fingerprint.pb")
    )
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(files.read_bytes(path))
    fingerprint.uuid = str(uuid.UUID(files.sha256_of_file(graph)[:32]))
    files.write_bytes(path, fingerprint.SerializeToString(deterministic=True))


def _write_server_files(folder: str, served: ServedModel, job: ExportJob) -> None:
    """Writes the files for TensorFlow Serving into the folder of a SavedModel."""
    extra = os.path.join(folder, EXTRA)
    tf.io.gfile.makedirs(extra)
    files.write_json(os.path.join(extra, "request.json"), example_request(served))
    files.write_text(os.path.join(extra, "README.md"), _readme(served, job))
    write_warm_up(os.path.join(folder, WARM_UP_FILE), warm_up_requests(served))

    # Without padding, TensorFlow Serving cannot join requests of different lengths to a
    # batch. It pads a tensor with its first element, which would add choices to a list.
    pads = "false" if served.list_names else "true"
    batching = f"{_BATCHING}pad_variable_length_inputs: {pads}\n"
    files.write_text(os.path.join(folder, "batching_params.pbtxt"), batching)


def example_request(served: ServedModel) -> dict[str, Any]:
    """Returns the body of a REST request for `serving_default`."""
    values = {
        "question": "Who wrote it?",
        "context": "Ann wrote it in Rome.",
        "text": "A short [MASK] text." if served.takes_masks else "A short text.",
        "text_a": "A first text.",
        "text_b": "A second text.",
        "choices": ["She likes the city.", "The soup is cold."],
    }
    return {"instances": [{name: values[name] for name in served.text_names}]}


def _readme(served: ServedModel, job: ExportJob) -> str:
    request = example_request(served)
    texts = request["instances"][0]

    # The parts that depend on the inputs of the model.
    signatures = "\n".join(
        f"* `{name}`: {', '.join(f'`{each}`' for each in endpoint.inputs)}"
        for name, endpoint in served.endpoints().items()
    )
    tensors = "\n".join(
        f"request.inputs[{name!r}].CopyFrom(tf.make_tensor_proto([{text!r}]))"
        for name, text in texts.items()
    )
    inputs = ", ".join(
        f"{name}=tf.constant([{text!r}])" for name, text in texts.items()
    )

    return _README.format(
        task=job.task,
        precision=job.settings.precision,
        version=job.version,
        signatures=signatures,
        body=json.dumps(request),
        tensors=tensors,
        inputs=inputs,
        expressions=";".join(f"{n}={json.dumps([each])}" for n, each in texts.items()),
        about_padding=_LISTS.format(name=served.list_names[0])
        if served.list_names
        else _TEXTS,
    )


def warm_up_requests(served: ServedModel) -> list[Request]:
    """Returns two requests for each signature: one with a short text, one with a long text."""
    return example_requests(
        served, served.endpoints(), *([text] for text in _WARM_UP_TEXTS)
    )


def write_warm_up(path: str, found: Sequence[Request]) -> None:
    """Writes requests to a warm-up file; TensorFlow Serving accepts at most 1,000 of them."""
    with tf.io.TFRecordWriter(path) as file:
        for request in found:
            file.write(prediction_log(request))


def prediction_log(request: Request) -> bytes:
    """Returns the serialized `PredictionLog` of a request."""
    spec = _field(_MODEL_SPEC, _field(_SIGNATURE_NAME, request.signature.encode()))
    if request.signature in _LOGS:  # these APIs take examples, not tensors
        examples = b"".join(
            _field(_EXAMPLES, each) for each in request.inputs["inputs"]
        )
        body = _field(_INPUTS, _field(_EXAMPLE_LIST, examples))
        number = _LOGS[request.signature]
    else:
        body = b"".join(
            _field(_INPUTS, _map_entry(*each)) for each in request.inputs.items()
        )
        number = _LOGS["predict"]
    return _field(number, _field(_REQUEST, spec + body))


def _map_entry(name: str, value: np.ndarray) -> bytes:
    tensor = tf.make_tensor_proto(value).SerializeToString()
    return _field(_KEY, name.encode()) + _field(_VALUE, tensor)


def _field(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field of a protocol buffer."""
    # The field of this message has the number 1; the first byte has number and type.
    first_field = tf.train.BytesList(value=[content]).SerializeToString()
    return bytes([number << 3 | 2]) + first_field[1:]
