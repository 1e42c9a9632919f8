"""Hugging Face folders (`config.json`, `model.safetensors`, `vocab.txt`), read and written.

Imports layer 0, `table` and `weights`.
"""

import json
import posixpath
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.conversion import table
from bert_tf.conversion.weights import Weights
from bert_tf.errors import InputError
from bert_tf.weights import VOCABULARY_FILE, from_safetensors, to_safetensors, vocabulary_text

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
INDEX_FILE, TOKENIZER_FILE = "model.safetensors.index.json", "tokenizer_config.json"
# Hugging Face's "gelu" is the erf form, the released code's the tanh form.
_ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "swish": "silu",
}
_ACTIVATIONS_BACK = {"gelu_exact": "gelu", "gelu": "gelu_new"}
_DECODER = "cls.predictions.decoder."
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")


def read(folder: str) -> Weights:
    """Reads a folder that transformers wrote.

    Args:
        folder: With `config.json` and `model.safetensors`, or its shards and their index.

    Raises:
        InputError: A file is missing, or the model is not a BERT that we can compute.
    """
    path = posixpath.join(folder, CONFIG_FILE)
    values = _json(path)
    architecture = (values.get("architectures") or [""])[0]
    arrays, unknown = _released(_tensors(folder), architecture, folder)
    labels = values.get("id2label")
    extra: dict[str, Any] = {}
    if labels and any(name.endswith(("output_weights",)) for name in arrays):
        extra["labels"] = [labels[key] for key in sorted(labels, key=int)]
    vocabulary_path = posixpath.join(folder, VOCABULARY_FILE)
    tokenizer_path = posixpath.join(folder, TOKENIZER_FILE)
    tokenizer = _json(tokenizer_path) if _exists(tokenizer_path) else {}
    return Weights(
        source=folder,
        dialect="hugging_face",
        arrays=arrays,
        config=from_hugging_face(values, path),
        vocabulary=read_vocabulary(vocabulary_path) if _exists(vocabulary_path) else None,
        do_lower_case=tokenizer.get("do_lower_case"),
        extra=extra,
        unknown=unknown,
    )


def read_vocabulary(path: str) -> list[str]:
    """The entries of a `vocab.txt` by id, stripped as the released code does."""
    lines = files.read_text(path).split("\n")
    return [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]


def _exists(path: str) -> bool:
    from tensorflow.io import gfile

    return bool(gfile.exists(path))


def _json(path: str) -> dict[str, Any]:
    try:
        values = json.loads(files.read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold one JSON object.")
    return values


def from_hugging_face(values: Mapping[str, Any], path: str) -> BertConfig:
    """The architecture that a Hugging Face `config.json` describes.

    Raises:
        InputError: It is another kind of model, or has parts that BERT has not.
    """
    kind = values.get("model_type", "bert")
    if kind != "bert":
        raise InputError(f"{path} describes a model of type {kind!r}; only 'bert' can be read.")
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(
            f"{path} asks for {values['position_embedding_type']!r} position embeddings; BERT as "
            "released has absolute ones only."
        )
    if values.get("add_cross_attention"):
        raise InputError(f"{path} has cross-attention; BERT as released has none.")
    known = set(BertConfig(vocab_size=1).to_dict())
    kept = {key: value for key, value in values.items() if key in known}
    act = kept.get("hidden_act", "gelu")
    kept["hidden_act"] = _ACTIVATIONS.get(act, act)
    kept.setdefault("type_vocab_size", 2)
    if values.get("is_decoder"):
        kept["attention"] = "causal"
    if values.get("layer_norm_eps", 1e-12) != 1e-12:
        kept["layer_norm_eps"] = values["layer_norm_eps"]
    try:
        return BertConfig.from_dict(kept)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _tensors(folder: str) -> dict[str, np.ndarray]:
    """All tensors of a folder, of one file or of its shards, as float32 where they are floats."""
    index = posixpath.join(folder, INDEX_FILE)
    single = posixpath.join(folder, WEIGHTS_FILE)
    names = [WEIGHTS_FILE]
    if not _exists(single) and _exists(index):
        names = sorted(set(_json(index).get("weight_map", {}).values()))
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        path = posixpath.join(folder, name)
        tensors |= from_safetensors(files.read_bytes(path), path)
    return {
        name: array if array.dtype.kind in "iub" else array.astype(np.float32)
        for name, array in tensors.items()
    }


def _released(
    tensors: dict[str, np.ndarray], architecture: str, folder: str
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Arrays by released name, and the names that have no place."""
    rows = {row.hugging_face: row for row in table.rows(architecture)}
    match = table.matcher(rows, anywhere=False)
    arrays: dict[str, np.ndarray] = {}
    unknown = []
    for name, array in tensors.items():
        modern = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        modern = modern.replace("LayerNorm.beta", "LayerNorm.bias")
        found = match(modern) or match(f"bert.{modern}")
        if found is None:
            unknown.append(name)
            continue
        row, block = found
        arrays[row.google.replace("{i}", block)] = array.T if row.transposed else array
    table_name = "bert/embeddings/word_embeddings"
    if table_name not in arrays:
        raise InputError(f"{folder} has no word embeddings; it is not a BERT.")
    tied = {"weight": table_name, "bias": "cls/predictions/output_bias"}
    for end, name in tied.items():
        copy = tensors.get(_DECODER + end)
        if copy is not None and not np.array_equal(copy, arrays.get(name, copy)):
            raise InputError(
                f"{folder}: {_DECODER}{end} is not equal to {name}, so the weights of the masked "
                "LM are not tied to the embeddings. BERT as released ties them."
            )
    ignored = (*_BUFFERS, *(f"bert.{name}" for name in _BUFFERS))
    left = [n for n in unknown if n not in ignored and not n.startswith(_DECODER)]
    return arrays, tuple(left)


def architecture_of(arrays: Mapping[str, np.ndarray]) -> str:
    """The Hugging Face class that has these weights."""
    heads = {
        "cls/seq_relationship/output_weights": "BertForPreTraining",
        "cls/predictions/output_bias": "BertForMaskedLM",
        "cls/squad/output_weights": "BertForQuestionAnswering",
        **{f"{head}output_weights": name for name, head in table.CLASSIFIER_HEADS.items()},
    }
    return next((name for weight, name in heads.items() if weight in arrays), "BertModel")


def to_hugging_face(
    config: BertConfig, architecture: str, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of a Hugging Face `config.json`."""
    values = config.to_dict()
    causal = values.pop("attention", "bidirectional") == "causal"
    act = config.hidden_act
    values |= {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_act": _ACTIVATIONS_BACK.get(act, act),
        "is_decoder": causal,
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }
    values.setdefault("layer_norm_eps", 1e-12)
    labels = extra.get("labels")
    if labels:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    return values


def write(folder: str, weights: Weights) -> None:
    """Writes a folder that transformers reads with `from_pretrained`.

    Args:
        folder: Where; an existing folder is replaced.
        weights: What to write; needs a config.

    Raises:
        InputError: The weights have no config.
    """
    if weights.config is None:
        raise InputError(f"{weights.source} has no config, which a Hugging Face folder needs.")
    architecture = architecture_of(weights.arrays)
    tensors = hugging_face_tensors(weights.arrays, architecture)
    with files.replacing(folder.rstrip("/")) as temporary:
        values = to_hugging_face(weights.config, architecture, weights.extra)
        files.write_json(posixpath.join(temporary, CONFIG_FILE), values)
        content = to_safetensors(tensors, {"format": "pt"})
        files.write_bytes(posixpath.join(temporary, WEIGHTS_FILE), content)
        tokenizer = {
            "tokenizer_class": "BertTokenizer",
            "model_max_length": weights.config.max_position_embeddings,
        }
        if weights.do_lower_case is not None:
            tokenizer["do_lower_case"] = weights.do_lower_case
        files.write_json(posixpath.join(temporary, TOKENIZER_FILE), tokenizer)
        if weights.vocabulary is not None:
            path = posixpath.join(temporary, VOCABULARY_FILE)
            files.write_bytes(path, vocabulary_text(weights.vocabulary))


def hugging_face_tensors(
    arrays: Mapping[str, np.ndarray], architecture: str
) -> dict[str, np.ndarray]:
    """The same weights under Hugging Face's names and in its layout.

    Args:
        arrays: Weights by google-research/bert name.
        architecture: The Hugging Face class; `BertModel` has no `bert.` prefix.
    """
    match = table.matcher({row.google: row for row in table.rows(architecture)}, anywhere=False)
    tensors = {}
    for name, array in arrays.items():
        found = match(name)
        if found is None:
            continue
        row, block = found
        theirs = row.hugging_face.replace("{i}", block)
        if architecture == "BertModel":
            theirs = theirs.removeprefix("bert.")
        tensors[theirs] = array.T if row.transposed else array
    return tensors
