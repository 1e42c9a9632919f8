"""Hugging Face folders (`config.json`, `model.safetensors`, `vocab.txt`), read and written.

Imports layer 0, `table` and `weights`.
"""

import dataclasses
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
from bert_tf.weights import (
    VOCABULARY_FILE,
    from_safetensors,
    read_vocabulary,
    to_safetensors,
    vocabulary_text,
)

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
TOKENIZER_FILE, FAST_FILE = "tokenizer_config.json", "tokenizer.json"
# Hugging Face's "gelu" is the erf form, the released code's the tanh form. What is not here has
# another meaning in Keras (leaky_relu), or none.
_ACTIVATIONS = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu_exact"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"), "gelu"),
    **dict.fromkeys(("silu", "swish"), "silu"),
    **{name: name for name in ("relu", "relu6", "tanh", "sigmoid", "mish", "linear")},
}
_ACTIVATIONS_BACK = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
_ACTIVATIONS_BACK["gelu"] = "gelu_new"
_DECODER = "cls.predictions.decoder."
_WORDS = "bert/embeddings/word_embeddings"
_NEXT_SENTENCE = "seq_relationship/output_weights"
_LABELLED = ("output_weights", "cls/tagger/output_weights")
_FIELDS = {field.name for field in dataclasses.fields(BertConfig)} - {"extra", "attention"}
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
    config = from_hugging_face(values, path)
    architecture = (values.get("architectures") or [""])[0]
    arrays, unknown = _released(_tensors(folder), architecture, folder)
    labels = _labels(arrays, values.get("id2label"))
    vocabulary, do_lower_case = _tokenizer(folder)
    return Weights(
        source=folder,
        dialect="hugging_face",
        arrays=arrays,
        config=config,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        extra={"labels": labels} if labels else {},
        unknown=unknown,
    )


def _labels(arrays: Mapping[str, np.ndarray], names: Mapping[str, str] | None) -> list[str]:
    """The labels of the classifier or tagger, if there is one."""
    heads = [arrays[name] for name in _LABELLED if name in arrays]
    if not heads:
        return []
    if names and len(names) == len(heads[0]):
        return [names[key] for key in sorted(names, key=int)]
    # Two labels without names are not written.
    return [f"LABEL_{i}" for i in range(len(heads[0]))]


def _tokenizer(folder: str) -> tuple[list[str] | None, bool | None]:
    """Vocabulary and casing, from `vocab.txt` or else from `tokenizer.json`."""
    paths = [posixpath.join(folder, n) for n in (VOCABULARY_FILE, TOKENIZER_FILE, FAST_FILE)]
    vocabulary = read_vocabulary(paths[0]) if _exists(paths[0]) else None
    config = _json(paths[1]) if _exists(paths[1]) else {}
    casing = config.get("do_lower_case")
    fast = _json(paths[2]) if (vocabulary is None or casing is None) and _exists(paths[2]) else {}
    ids = (fast.get("model") or {}).get("vocab")
    if vocabulary is None and isinstance(ids, dict) and sorted(ids.values()) == [*range(len(ids))]:
        vocabulary = sorted(ids, key=ids.__getitem__)
    if casing is None:
        casing = (fast.get("normalizer") or {}).get("lowercase")
    return vocabulary, casing


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
    if values.get("pruned_heads"):
        raise InputError(f"{path} has pruned_heads; each layer must have all heads.")
    kept = {key: value for key, value in values.items() if key in _FIELDS}
    act = kept.get("hidden_act", "gelu")
    if act not in _ACTIVATIONS:
        raise InputError(
            f"{path} has the hidden_act {act!r}, which cannot be computed here. Known are "
            f"{', '.join(_ACTIVATIONS)}."
        )
    kept["hidden_act"] = _ACTIVATIONS[act]
    kept.setdefault("type_vocab_size", 2)
    if values.get("is_decoder"):
        kept["attention"] = "causal"
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
    _tie(tensors, arrays, folder)
    if _WORDS not in arrays:
        raise InputError(
            f"{folder} has no word embeddings; it is not a BERT. It holds "
            f"{', '.join(sorted(tensors)[:3])}."
        )
    ignored = (*_BUFFERS, *(f"bert.{name}" for name in _BUFFERS))
    left = [n for n in unknown if n not in ignored and not n.startswith(_DECODER)]
    return arrays, tuple(left)


def _tie(tensors: Mapping[str, np.ndarray], arrays: dict[str, np.ndarray], folder: str) -> None:
    """Takes the masked LM's copy of a tied weight where the file has that one only.

    Raises:
        InputError: The two differ.
    """
    for end, name in (("weight", _WORDS), ("bias", "cls/predictions/output_bias")):
        copy = tensors.get(_DECODER + end)
        if copy is not None and not np.array_equal(copy, arrays.setdefault(name, copy)):
            raise InputError(
                f"{folder}: {_DECODER}{end} is not equal to {name}, so the weights of the masked "
                "LM are not tied to the embeddings. BERT as released ties them."
            )


def architecture_of(arrays: Mapping[str, np.ndarray], causal: bool = False) -> str:
    """The Hugging Face class that has these weights."""
    masked_lm, next_sentence = (
        f"cls/{name}" in arrays for name in ("predictions/output_bias", _NEXT_SENTENCE)
    )
    if next_sentence:
        return "BertForPreTraining" if masked_lm else "BertForNextSentencePrediction"
    if masked_lm:
        return "BertLMHeadModel" if causal else "BertForMaskedLM"
    heads = {
        "cls/squad/output_weights": "BertForQuestionAnswering",
        **{f"{head}output_weights": name for name, head in table.CLASSIFIER_HEADS.items()},
    }
    return next((name for weight, name in heads.items() if weight in arrays), "BertModel")


def to_hugging_face(
    config: BertConfig, architecture: str, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of a Hugging Face `config.json`.

    Raises:
        InputError: transformers has no such activation.
    """
    values = config.to_dict()
    causal = values.pop("attention", "bidirectional") == "causal"
    if config.hidden_act not in _ACTIVATIONS_BACK:
        raise InputError(
            f"transformers has no activation that is {config.hidden_act!r} here; its folder can "
            f"have {', '.join(_ACTIVATIONS_BACK)}."
        )
    values |= {
        "architectures": [architecture],
        "model_type": "bert",
        "hidden_act": _ACTIVATIONS_BACK[config.hidden_act],
        "is_decoder": causal,
        "layer_norm_eps": config.layer_norm_eps,
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }
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
    architecture = architecture_of(weights.arrays, weights.config.attention == "causal")
    tensors = hugging_face_tensors(weights.arrays, architecture)
    values = to_hugging_face(weights.config, architecture, weights.extra)
    tokenizer = {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": weights.config.max_position_embeddings,
    }
    if weights.do_lower_case is not None:
        tokenizer["do_lower_case"] = weights.do_lower_case
    with files.atomic_folder(folder.rstrip("/"), WEIGHTS_FILE) as place:
        files.write_json(posixpath.join(place, CONFIG_FILE), values)
        files.write_json(posixpath.join(place, TOKENIZER_FILE), tokenizer)
        if weights.vocabulary is not None:
            path = posixpath.join(place, VOCABULARY_FILE)
            files.write_bytes(path, vocabulary_text(weights.vocabulary))
        content = to_safetensors(tensors, {"format": "pt"})
        files.write_bytes(posixpath.join(place, WEIGHTS_FILE), content)


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
