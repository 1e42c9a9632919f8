"""The dialect "hugging_face": folders with `config.json` and weights of transformers.

The weights are `model.safetensors`, `pytorch_model.bin` or `tf_model.h5`; bert-tf
writes the first of these.
"""

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion import (
    hdf5,
    hugging_face_weights,
    sentence_transformers,
    weight_names,
)
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.hugging_face_tokenizer import (
    FILES,
    TOKENIZER_CONFIG_FILE,
    tokenizer_fields,
)
from bert_tf.errors import InputError, check_label_names
from bert_tf.storage import files, json_files
from bert_tf.storage.files import find_file
from bert_tf.storage.safetensors_format import to_safetensors
from bert_tf.storage.weights import (
    VOCABULARY_FILE,
    read_vocabulary,
    write_vocabulary_file,
)

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
_OLD_CONFIG_FILE = "bert_config.json"  # next to .bin files of 2019
# These keys occur in a `config.json` of transformers, but not in Google's
# `bert_config.json`.
CONFIG_KEYS = {"model_type", "architectures", "transformers_version"}
# Maps names of activations in transformers to names in `BertConfig`. "gelu" is the erf
# form in transformers and the tanh form in google-research/bert. The dict omits
# activations that Keras does not have or defines differently (leaky_relu).
_ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_python": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu6": "relu6",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "mish": "mish",
    "linear": "linear",
}
_HUGGING_FACE_ACTIVATIONS = {
    activation: name for name, activation in reversed(_ACTIVATIONS.items())
}
# The task types by `problem_type` of transformers. Classification is the default of
# both.
_TASK_TYPES = {"multi_label_classification": "multi_label", "regression": "regression"}
_CLASSIFIER = ("classifier.weight", "classifier.bias")
_DECODER = "cls.predictions.decoder."
_WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
_FIELDS = {field.name for field in dataclasses.fields(BertConfig)} - {
    "extra",
    "attention",
}
_QUANTIZED = (
    "config.json has a quantization_config, which bert-tf ignores; it computes with the "
    "weights as they are stored"
)
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def read(path: str, slots: bool) -> CheckpointContents | None:
    """Reads weights that transformers wrote, and the files next to them.

    Returns None if the path is neither a file of weights nor a folder with weights (see
    `hugging_face_weights`). `slots` has no effect, because transformers does not store
    slots (Adam's moments) next to weights.
    """
    weights = hugging_face_weights.find_weights(path)
    if weights is None:
        return None
    folder = posixpath.dirname(weights)
    config_path = _find_config(folder, weights)
    values = json_files.read(config_path)
    config = config_from_hugging_face(values, config_path)

    # A head of unknown kind is kept by its Hugging Face name.
    architecture = _classifier_class(values.get("architectures"))
    tensors = hugging_face_weights.read_tensors(weights)
    classifier = {}
    if architecture is None:
        classifier = {n: tensors.pop(n) for n in _CLASSIFIER if n in tensors}

    arrays, unknown = _rename_tensors(tensors, architecture or "", path)
    copies = _decoder_copies(tensors).items()

    tokenizer = _read_tokenizer(folder, values.get("tokenizer_class"))
    embedding = sentence_transformers.read_embedding(folder, tokenizer["do_lower_case"])

    labels = _read_labels(_num_labels(classifier | arrays), values, config_path)
    facts: dict[str, Any] = {"labels": labels} if labels else {}
    if "output_weights" in arrays:  # a classifier of texts
        default = "regression" if len(labels) == 1 else None
        task_type = _TASK_TYPES.get(str(values.get("problem_type")), default)
        if task_type:
            facts["task_type"] = task_type
        if task_type == "regression":
            facts["labels"] = []
    if embedding:
        facts["embedding"] = embedding

    return CheckpointContents(
        source=path,
        dialect="hugging_face",
        arrays=arrays,
        config=config,
        facts=facts,
        unknown=unknown,
        classifier=classifier,
        notes=(_QUANTIZED,) if values.get("quantization_config") else (),
        tied_masked_lm=all(np.array_equal(copy, arrays[name]) for name, copy in copies),
        **tokenizer,
    )


def _find_config(folder: str, weights: str) -> str:
    """Returns the path of the config next to weights, or raises `InputError`."""
    path = find_file(folder, CONFIG_FILE)
    if path is None and ".safetensors" not in weights:
        path = find_file(folder, _OLD_CONFIG_FILE)
    if path:
        return path
    if weights.endswith(".h5"):  # for a whole model, the message is another one
        hdf5.check_is_no_model(weights)
    raise InputError(
        f"There is no file {posixpath.join(folder, CONFIG_FILE)}, which {weights} needs. "
        "Copy it from the source of the model."
    )


def _classifier_class(architectures: Any) -> str | None:
    """Returns the transformers class of a model with the head `classifier`; None if unknown."""
    names = [architectures] if isinstance(architectures, str) else architectures or []
    classes = weight_names.CLASSIFIER_HEADS.keys() & set(names)
    return classes.pop() if len(classes) == 1 else None


def _num_labels(arrays: Mapping[str, np.ndarray]) -> int:
    """Returns the number of outputs of the head with labels; 0 if there is no such head."""
    names = (*_CLASSIFIER, *weight_names.HEADS_WITH_LABELS.values())
    return next((len(arrays[name]) for name in names if name in arrays), 0)


def _read_labels(number: int, values: Mapping[str, Any], path: str) -> list[str]:
    """Returns the labels of a classifier or tagger, or an empty list for other models.

    An output that `id2label` does not name gets the default name, such as LABEL_0:
    transformers does not write `id2label` for two labels with default names.
    """
    names = values.get("id2label") or {}
    known = [str(i) for i in range(number)]
    if number and set(names) - set(known):
        raise InputError(
            f"{path}: id2label must have the keys 0 to {number - 1}, one for each "
            f"output of the model. Received: {', '.join(names):.60}. Correct the names."
        )
    labels = [str(names.get(key, f"LABEL_{key}")) for key in known]
    check_label_names(labels, f"{path}: id2label")
    return labels


def _read_tokenizer(folder: str, tokenizer_class: str | None) -> dict[str, Any]:
    """Returns the fields of `CheckpointContents` that describe the tokenizer."""
    path = find_file(folder, VOCABULARY_FILE)
    vocabulary = read_vocabulary(path) if path else None
    contents = {name: json_files.read_optional(folder, name) for name in FILES}
    config = contents[TOKENIZER_CONFIG_FILE]
    if tokenizer_class and not config.get("tokenizer_class"):
        config["tokenizer_class"] = tokenizer_class
    return tokenizer_fields(contents, vocabulary)


def config_from_hugging_face(values: Mapping[str, Any], path: str) -> BertConfig:
    """Returns the architecture that a Hugging Face `config.json` describes.

    A model that is not a BERT, or has parts that google-research/bert does not have,
    raises `InputError`.
    """
    # Models that bert-tf cannot compute raise an error.
    kind = values.get("model_type") or "bert"
    positions = values.get("position_embedding_type") or "absolute"
    reasons = {
        f"describes a model of type {kind!r}; only 'bert'": kind != "bert",
        f"has {positions!r} position embeddings; only models with absolute position "
        "embeddings, as in the released BERT,": positions != "absolute",
        "has cross-attention; only models without it": values.get(
            "add_cross_attention"
        ),
        "has pruned_heads; only models with all heads": values.get("pruned_heads"),
    }
    for reason, applies in reasons.items():
        if applies:
            raise InputError(f"{path} {reason} can be read.")

    fields = {key: value for key, value in values.items() if key in _FIELDS}
    activation = fields.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise InputError(
            f"{path} has the hidden_act {activation!r}, which bert-tf cannot compute. "
            f"Supported are {', '.join(_ACTIVATIONS)}."
        )
    fields["hidden_act"] = _ACTIVATIONS[activation]

    fields.setdefault("type_vocab_size", 2)
    if values.get("is_decoder"):
        fields["attention"] = "causal"
    return BertConfig.from_dict(fields, path)


def _rename_tensors(
    tensors: dict[str, np.ndarray], architecture: str, source: str
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Returns the weights by google-research/bert name, and the names of other tensors."""
    match = weight_names.matcher(
        {r.hugging_face: r for r in weight_names.rows(architecture)}
    )
    arrays: dict[str, np.ndarray] = {}
    unknown = []

    for name, array in tensors.items():
        if row := match(name) or match(f"bert.{name}"):
            if row.transposed:
                # A copy now: to hash and to assign a transposed view copies it each
                # time.
                array = np.ascontiguousarray(array.T)
            arrays[row.google] = array
        elif name.removeprefix("bert.") not in _BUFFERS and not name.startswith(
            _DECODER
        ):
            unknown.append(name)

    # A tied weight may be stored under the decoder's name only.
    for name, copy in _decoder_copies(tensors).items():
        arrays.setdefault(name, copy)
    if _WORD_EMBEDDINGS not in arrays:
        raise InputError(
            f"{source} has no word embeddings, so it is not a BERT. It holds "
            f"{len(tensors)} tensors, such as {', '.join(sorted(tensors)[:3])}."
        )
    return arrays, tuple(unknown)


def _decoder_copies(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns weights stored under decoder names, by google-research/bert name.

    The decoder of a tied masked LM shares these weights with other layers. A checkpoint
    contains them under the names of the decoder, of the other layers, or of both.
    """
    names = {
        f"{_DECODER}weight": _WORD_EMBEDDINGS,
        f"{_DECODER}bias": "cls/predictions/output_bias",
    }
    return {name: tensors[key] for key, name in names.items() if key in tensors}


def config_to_hugging_face(
    config: BertConfig, architecture: str, labels: Sequence[str]
) -> dict[str, Any]:
    """Returns the `config.json` of a model of the transformers class `architecture`."""
    values = config.to_dict()
    causal = values.pop("attention", "bidirectional") == "causal"
    if config.hidden_act not in _HUGGING_FACE_ACTIVATIONS:
        raise InputError(
            f"hidden_act {config.hidden_act!r} has no equivalent in transformers. Only "
            f"models with {', '.join(_HUGGING_FACE_ACTIVATIONS)} can be written."
        )

    # The keys that transformers needs in addition, or has other values for.
    values |= {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_act": _HUGGING_FACE_ACTIVATIONS[config.hidden_act],
        "is_decoder": causal,
        "layer_norm_eps": config.layer_norm_eps,
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }

    if labels:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    return values


def write(folder: str, contents: CheckpointContents) -> str:
    """Writes a folder that `from_pretrained` of transformers reads, without slots.

    Of the facts, only the labels, the task type of a classifier, and the fact
    `embedding` (pooling and prompts, no trained sizes) are stored. Returns `folder`,
    which must be empty. An activation that transformers does not have raises
    `InputError`.
    """
    config = contents.require_config()
    architecture = weight_names.hugging_face_class(
        contents.arrays, config.attention == "causal"
    )
    tensors = hugging_face_tensors(contents.arrays, architecture)

    labels = _labels_to_write(contents)
    values = config_to_hugging_face(config, architecture, labels)
    for problem_type, task_type in _TASK_TYPES.items():
        if contents.facts.get("task_type") == task_type:
            values["problem_type"] = problem_type

    tokenizer = {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": config.max_position_embeddings,
    }
    if contents.do_lower_case is not None:
        tokenizer["do_lower_case"] = contents.do_lower_case

    files.write_json(posixpath.join(folder, CONFIG_FILE), values)
    files.write_json(posixpath.join(folder, TOKENIZER_CONFIG_FILE), tokenizer)
    write_vocabulary_file(folder, contents.vocabulary)
    sentence_transformers.write(
        folder, contents.facts.get("embedding") or {}, config.hidden_size
    )

    # The weights are written last.
    content = to_safetensors(tensors, {"format": "pt"})
    files.write_bytes(posixpath.join(folder, WEIGHTS_FILE), content)
    return folder


def _labels_to_write(contents: CheckpointContents) -> list[str]:
    """Returns the labels of a classifier or tagger, by default LABEL_0 and so on.

    transformers gives a head as many outputs as `config.json` has labels.
    """
    number = _num_labels(contents.arrays)
    if not number:
        return []

    labels = contents.facts.get("labels") or [f"LABEL_{i}" for i in range(number)]
    if len(labels) != number:
        raise InputError(
            f"labels must have one name for each of the {number} outputs of the head. "
            f"Received: {len(labels)} labels, {', '.join(map(str, labels))}."
        )
    return labels


def hugging_face_tensors(
    arrays: Mapping[str, np.ndarray], architecture: str
) -> dict[str, np.ndarray]:
    """Returns the weights with their names in transformers, with transposed kernels.

    In `BertModel`, the names of the weights do not start with `bert.`.
    """
    match = weight_names.matcher(
        {row.google: row for row in weight_names.rows(architecture)}
    )

    tensors = {}
    for name, array in arrays.items():
        if row := match(name):
            new_name = row.hugging_face
            if architecture == "BertModel":
                new_name = new_name.removeprefix("bert.")
            tensors[new_name] = array.T if row.transposed else array
    return tensors
