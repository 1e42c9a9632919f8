"""The files next to the graph of a SavedModel: vocabulary, labels, warm-up requests, model card.

TensorFlow Serving reads `batching_params.pbtxt` and `assets.extra/tf_serving_warmup_requests`;
programs and people read the others.
"""

import dataclasses
import importlib.metadata
import json
import os
import posixpath
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text

from bert_tf import files, weights
from bert_tf.export import warm_up
from bert_tf.export.layout import EXTRA
from bert_tf.export.served import DEFAULT_THRESHOLD, ServedModel, task_of
from bert_tf.pretrained import Pretrained
from bert_tf.tasks.task import DEV_EXAMPLES
from bert_tf.training.lifecycle.run_folder import TRAINING_FILE

LABELS_FILE = "labels.txt"
_RESULTS_FILE = "eval_results.txt"
_BATCHING = """\
max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
num_batch_threads { value: 2 }
"""
_PIPELINE_TAGS = {
    "classification": "text-classification", "multi_label": "text-classification",
    "regression": "text-classification", "span": "question-answering",
    "tagging": "token-classification",
    "choice": "multiple-choice", "fill_mask": "fill-mask", "embedding": "sentence-similarity",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Origin:
    """The checkpoint of an export.

    Attributes:
        checkpoint: The checkpoint.
        task: The task of the export, such as "classification".
        precision: The dtype of the weights in the SavedModel.
        results: The results of the run's evaluation, by name; {} if they are not known.
        settings: The settings of the run's training; {} if they are not known.
        dev_examples: The SHA-256 of the examples of the dev split that the run stored; "" if it did
            not.
    """

    checkpoint: Pretrained
    task: str
    precision: str
    results: Mapping[str, str]
    settings: Mapping[str, Any]
    dev_examples: str


def run_folder(checkpoint: str) -> str:
    """Returns the output folder of the run to which a checkpoint belongs, or the checkpoint itself.

    Args:
        checkpoint: The output folder, or one of its checkpoints.
    """
    parent = posixpath.dirname(checkpoint)
    candidates = (checkpoint, parent, posixpath.dirname(parent))
    found = (path for path in candidates if files.exists(posixpath.join(path, TRAINING_FILE)))
    return next(found, checkpoint)


def read_origin(path: str, checkpoint: Pretrained, task: str, precision: str) -> Origin:
    """Returns the origin of an export, with the results and settings of the run's folder.

    Results of another step or for another task are left out.

    Args:
        path: The output folder of the run, or another path of the checkpoint.
        checkpoint: The checkpoint.
        task: The task of the export.
        precision: The dtype of the weights in the SavedModel.
    """
    results_path, settings_path = (
        posixpath.join(path, name) for name in (_RESULTS_FILE, TRAINING_FILE)
    )
    results, settings = {}, {}
    if files.exists(results_path):
        lines = files.read_text(results_path).splitlines()
        results = dict(line.split(" = ", 1) for line in lines if " = " in line)
        step = str(checkpoint.facts.get("global_step"))
        if results.get("global_step") != step or task != task_of(checkpoint):
            results = {}
    if files.exists(settings_path):
        settings = files.read_json(settings_path)
        start = settings.get("data", {}).get("init_checkpoint")
        if start:  # a path of this machine
            settings["data"]["init_checkpoint"] = posixpath.basename(start.rstrip("/"))
    examples_path = posixpath.join(path, DEV_EXAMPLES)
    examples = files.sha256_of_file(examples_path) if files.exists(examples_path) else ""
    return Origin(checkpoint, task, precision, results, settings, examples)


def write(folder: str, served: ServedModel, origin: Origin, version: str) -> None:
    """Writes all files except the graph and its weights.

    Args:
        folder: The folder of the SavedModel, with its graph.
        served: The model.
        origin: The checkpoint that it comes from.
        version: The name of the folder when the export is complete.
    """
    extra = os.path.join(folder, EXTRA)
    tf.io.gfile.makedirs(extra)
    facts, tokenizer = dict(origin.checkpoint.facts), served.tokenizer
    for name in ("source", "dialect", "global_step"):
        facts.pop(name, None)
    if origin.task == "multi_label":
        facts.setdefault("threshold", DEFAULT_THRESHOLD)
    labels = facts.get("labels", [])
    facts |= {
        "do_lower_case": tokenizer.do_lower_case,
        "vocabulary_sha256": tokenizer.vocabulary_sha256,
    }
    values = {
        weights.FACTS_FILE: facts,
        weights.CONFIG_FILE: origin.checkpoint.config.to_dict(),
        "request.json": example_request(served),
    }
    for name, value in values.items():
        files.write_json(os.path.join(extra, name), value)
    texts = {
        "README.md": _readme(served, origin, version),
        "model_card.md": _model_card(folder, served, origin),
    }
    if labels:
        texts[LABELS_FILE] = "".join(f"{label}\n" for label in labels)
    for name, text in texts.items():
        files.write_text(os.path.join(extra, name), text)
    vocabulary = weights.vocabulary_text(tokenizer.vocabulary)
    files.write_bytes(os.path.join(extra, weights.VOCABULARY_FILE), vocabulary)
    files.write_text(os.path.join(folder, "batching_params.pbtxt"), _batching(served))
    warm_up.write(os.path.join(folder, warm_up.FILE), warm_up.requests(served))


def _batching(served: ServedModel) -> str:
    """Returns the settings with which TensorFlow Serving puts requests together."""
    # Without padding, TensorFlow Serving refuses to put requests of different lengths together. It
    # pads a tensor with its first element, which would add choices to a list.
    return f"{_BATCHING}pad_variable_length_inputs: {'false' if served.list_names else 'true'}\n"


def example_request(served: ServedModel) -> dict[str, Any]:
    """Returns the body of a REST request for `serving_default`."""
    values = {
        "question": "Who wrote it?", "context": "Ann wrote it in Rome.",
        "text": "A short [MASK] text." if served.takes_masks else "A short text.",
        "text_a": "A first text.", "text_b": "A second text.",
        "choices": ["She likes the city.", "The soup is cold."],
    }  # fmt: skip
    return {"instances": [{name: values[name] for name in served.text_names}]}


def _readme(served: ServedModel, origin: Origin, version: str) -> str:
    body = json.dumps(example_request(served))
    signatures = "\n".join(
        f"* `{name}`: {', '.join(f'`{each}`' for each in endpoint.inputs)}"
        for name, endpoint in served.endpoints().items()
    )
    return f"""\
# A SavedModel of bert-tf

The task is {origin.task}, and the weights are {origin.precision}. The model takes raw text.

## Signatures

{signatures}

{_about_lists(served)}The batch is the first dimension of all inputs and outputs. `ids` and
`ids_lengths` refuse ids that are out of range; one such row fails all rows of its batch. Texts of
any content and length are accepted.

## TensorFlow Serving

Not run here. Run the command in the folder that contains the versions of the model.

```
docker run -p 8501:8501 -p 8500:8500 -v "$PWD:/models/bert" -e MODEL_NAME=bert \\
    tensorflow/serving --enable_batching \\
    --batching_parameters_file=/models/bert/{version}/batching_params.pbtxt
curl -d '{body}' http://localhost:8501/v1/models/bert:predict
```

With these parameters, a request has at most 32 rows.

{_about_padding(served)}

A gRPC client, with `pip install tensorflow-serving-api`:

```python
{_grpc_client(served)}```

## Python

```python
import tensorflow as tf
import tensorflow_text  # registers operations of the tokenizer

model = tf.saved_model.load("{version}")
{_python_call(served)}
```

`saved_model_cli show --all --dir {version}` prints the names, dtypes and shapes.
"""


def _about_lists(served: ServedModel) -> str:
    """Returns a paragraph about inputs that are lists of texts; "" if there are none."""
    return "".join(
        f"""\
`{name}` is a string tensor [B, K]. Pad the lists of a batch with "" to the same length: an empty
text is not an entry.

"""
        for name in served.list_names
    )


def _about_padding(served: ServedModel) -> str:
    """Returns what to know about the padding of requests that TensorFlow Serving puts together."""
    if served.list_names:
        return """\
The server does not pad requests of different lengths, because it would pad lists with their first
entry, and it refuses to put them together. With --enable_batching, give all requests equal shapes,
also those of `ids` and `ids_lengths`, or leave --enable_batching out."""
    return """\
The server pads requests of different lengths with the first element of each tensor, so `input_mask`
of `ids` would be wrong: send token ids to `ids_lengths`."""


def _grpc_client(served: ServedModel) -> str:
    texts = example_request(served)["instances"][0]
    lines = [
        "import grpc",
        "import tensorflow as tf",
        "from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc",
        "",
        'channel = grpc.insecure_channel("localhost:8500")',
        "stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)",
        "request = predict_pb2.PredictRequest()",
        'request.model_spec.name = "bert"',
    ]
    lines += [
        f"request.inputs[{name!r}].CopyFrom(tf.make_tensor_proto([{text!r}]))"
        for name, text in texts.items()
    ]
    return "\n".join([*lines, "print(stub.Predict(request, 10.0))", ""])


def _python_call(served: ServedModel) -> str:
    texts = example_request(served)["instances"][0]
    inputs = ", ".join(f"{name}=tf.constant([{text!r}])" for name, text in texts.items())
    return f'print(model.signatures["serving_default"]({inputs}))'


def _version() -> str:
    try:
        return importlib.metadata.version("bert-tf")
    except importlib.metadata.PackageNotFoundError:  # the source tree was not installed
        return "(source tree)"


def _model_card(folder: str, served: ServedModel, origin: Origin) -> str:
    """Returns the model card, in the convention of the Hugging Face hub."""
    config, facts = origin.checkpoint.config, origin.checkpoint.facts
    fingerprint = tf.saved_model.experimental.read_fingerprint(folder)
    rows = {
        "task": origin.task,
        "labels": ", ".join(facts.get("labels", [])),
        "longest sequence": f"{served.max_seq_length} tokens",
        "layers, width, heads": f"{config.num_hidden_layers}, {config.hidden_size}, "
        f"{config.num_attention_heads}",
        "training step": facts.get("global_step", ""),
        "precision of the weights": origin.precision,
        "casing": "lower-cased" if served.tokenizer.do_lower_case else "cased",
        "SHA-256 of the vocabulary": served.tokenizer.vocabulary_sha256,
        f"SHA-256 of {DEV_EXAMPLES}": origin.dev_examples,
        "fingerprint of the graph": str(fingerprint.graph_def_program_hash),
        "versions": f"bert-tf {_version()}, tensorflow {tf.__version__}, tensorflow-text "
        f"{tensorflow_text.__version__}, keras {keras.__version__}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value)
    results = "\n".join(f"| {name} | {value} |" for name, value in origin.results.items())
    parts = [
        f"---\nlibrary_name: bert-tf\npipeline_tag: {_PIPELINE_TAGS[origin.task]}\n"
        "tags:\n- bert\n- tensorflow\n---\n",
        f"# Model card\n\n| | |\n|---|---|\n{table}\n",
    ]
    if results:
        parts.append(f"## Results on the dev split\n\n| metric | value |\n|---|---|\n{results}\n")
    if origin.settings:
        settings = json.dumps(origin.settings, indent=2, sort_keys=True, ensure_ascii=False)
        parts.append(f"## Training\n\n```json\n{settings}\n```\n")
    return "\n".join(parts)
