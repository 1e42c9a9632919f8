"""The dialect "keras_hub": presets and `.keras` files of keras-hub and keras-nlp.

A preset is a folder with `config.json` (the encoder, a `BertBackbone`), its weights in
`model.weights.h5`, the tokenizer and, for a model with a head, `task.json` and the
weights of the head in `task.weights.h5`. The `task.json` of a text embedder, whose head
has no weights, states the pooling and the normalization of the vectors. A `.keras` file
has one `config.json` for all of these, and all weights in `model.weights.h5`.

Nothing of keras-hub is imported.

Source: `KerasPresetSaver`, `BertBackbone`, `BertTextClassifier`, `BertMaskedLM` and
`BertTextEmbedder` of keras-hub 0.32; `saving_lib` of Keras 3.0 and 3.15.
"""

import dataclasses
import json
import posixpath
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.config import BertConfig
from bert_tf.conversion import hdf5, weight_names
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.weight_names import Row
from bert_tf.errors import InputError
from bert_tf.modeling import BertEncoder, arrays_by_name
from bert_tf.storage import files, json_files
from bert_tf.storage.files import find_file
from bert_tf.storage.weights import read_vocabulary, vocabulary_text

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.weights.h5"
TASK_FILE = "task.json"
TASK_WEIGHTS_FILE = "task.weights.h5"
TOKENIZER_FILE = "tokenizer.json"
PREPROCESSOR_FILE = "preprocessor.json"
# The paths of the vocabulary in a preset and in a .keras file.
_VOCABULARY = "assets/tokenizer/vocabulary.txt"
_VOCABULARY_OF_TASK = "assets/preprocessor/tokenizer/vocabulary.txt"

# The arguments of `BertBackbone`, by field of `BertConfig`.
_ARGUMENTS = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "attention_probs_dropout_prob": "dropout",
    "hidden_dropout_prob": "dropout",  # this value is written
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
}

# The paths of layers in keras-hub, by the name of the layer in google-research/bert, or
# by the name of the weight if the layer has only one. The paths in the encoder are as
# in a model with a head.
_BLOCK = "bert/encoder/layer_{i}/"
_ENCODER = "layers/bert_backbone/"
_HUB_BLOCK = f"{_ENCODER}layers/transformer_encoder_{{i}}/_"
_LAYERS = {
    "bert/embeddings/word_embeddings": f"{_ENCODER}layers/reversible_embedding",
    "bert/embeddings/token_type_embeddings": f"{_ENCODER}layers/embedding",
    "bert/embeddings/position_embeddings": f"{_ENCODER}layers/position_embedding",
    "bert/embeddings/LayerNorm": f"{_ENCODER}layers/layer_normalization",
    f"{_BLOCK}attention/self/query": f"{_HUB_BLOCK}self_attention_layer/query_dense",
    f"{_BLOCK}attention/self/key": f"{_HUB_BLOCK}self_attention_layer/key_dense",
    f"{_BLOCK}attention/self/value": f"{_HUB_BLOCK}self_attention_layer/value_dense",
    f"{_BLOCK}attention/output/dense": f"{_HUB_BLOCK}self_attention_layer/output_dense",
    f"{_BLOCK}attention/output/LayerNorm": f"{_HUB_BLOCK}self_attention_layer_norm",
    f"{_BLOCK}intermediate/dense": f"{_HUB_BLOCK}feedforward_intermediate_dense",
    f"{_BLOCK}output/dense": f"{_HUB_BLOCK}feedforward_output_dense",
    f"{_BLOCK}output/LayerNorm": f"{_HUB_BLOCK}feedforward_layer_norm",
    "bert/pooler/dense": f"{_ENCODER}layers/dense",
    "output_weights": "layers/dense",
    "output_bias": "layers/dense",
    "cls/predictions/transform/dense": "layers/masked_lm_head/_intermediate_dense",
    "cls/predictions/transform/LayerNorm": (
        "layers/masked_lm_head/_intermediate_layer_norm"
    ),
    "cls/predictions/output_bias": "layers/masked_lm_head",
}
_MASKED_LM = "cls/predictions/output_bias"
_OUTPUT = "output_weights"
# The values of `pooling_mode` of a `BertTextEmbedder`, by pooling of the fact `embedding`.
_POOLING = {"mean": "mean", "first": "cls"}
# The values of keras-hub, which cannot be chosen.
SUPPORTED_SETTINGS = {
    "hidden_act": ("gelu",),
    "layer_norm_eps": (BertConfig.layer_norm_eps,),
    "attention": ("bidirectional",),
}


def _rows() -> dict[str, Row]:
    """Returns the rows of `weight_names`, by the paths of the variables in keras-hub."""
    rows = {}
    for row in weight_names.rows():
        layer, _, variable = row.google.rpartition("/")
        if path := _LAYERS.get(row.google) or _LAYERS.get(layer):
            is_second = variable.endswith(("bias", "beta")) and row.google != _MASKED_LM
            rows[f"{path}/vars/{int(is_second)}"] = row
    return rows


_ROWS = _rows()

_NO_LABELS = (
    "keras-hub stores no labels, so the outputs are LABEL_0 and so on; give the labels "
    "to train or export the model"
)
_OTHER_HEAD = (
    "the masked-LM head of keras-hub always has the erf form of gelu and an epsilon of "
    "1e-5, that of bert-tf those of the encoder, so the logits differ by about 1e-3"
)
_ACCENTS = (
    "the tokenizer of keras-hub has another value of strip_accents than of lowercase, "
    "so texts with accents get other ids in bert-tf"
)


def is_model_file(path: str) -> bool:
    """Whether a `.keras` file contains a model of keras-hub or keras-nlp."""
    with (
        files.explain_read_errors(path, " as a zip file"),
        files.gfile().GFile(path, "rb") as file,
        zipfile.ZipFile(file) as archive,
    ):
        is_there = CONFIG_FILE in archive.namelist()
        values = json.loads(archive.read(CONFIG_FILE)) if is_there else None
    if not isinstance(values, dict):
        raise InputError(f"{path} has no {CONFIG_FILE} of Keras. Save the model again.")
    return _is_of_keras_hub(values)


def _is_of_keras_hub(values: Mapping[str, Any]) -> bool:
    """Whether Keras's description of an object names a class of keras-hub or keras-nlp."""
    return str(values.get("registered_name")).startswith(("keras_hub>", "keras_nlp>"))


def read(folder: str, slots: bool) -> CheckpointContents | None:
    """Reads a preset, or the extracted files of a `.keras` file.

    Adam's moments in `.keras` files are not read. Returns None if the folder has no
    model of Keras. A model that is not a BERT of keras-hub raises `InputError`.
    """
    values = _read_json(folder, CONFIG_FILE)
    weights = posixpath.join(folder, WEIGHTS_FILE)
    if "class_name" not in values or not files.exists(weights):
        return None

    # A preset has a file for each object, a .keras file one for all.
    is_preset = "backbone" not in values["config"]
    settings = (_read_json(folder, TASK_FILE) if is_preset else values)["config"]
    backbone = settings.get("backbone", values)
    preprocessor = settings.get("preprocessor") or _read_json(folder, PREPROCESSOR_FILE)
    texts = preprocessor["config"]
    tokenizer = texts.get("tokenizer") or _read_json(folder, TOKENIZER_FILE)
    lower = tokenizer["config"].get("lowercase")
    strip = tokenizer["config"].get("strip_accents")

    path = posixpath.join(folder, CONFIG_FILE)
    if not _is_of_keras_hub(values) or backbone["class_name"] != "BertBackbone":
        raise InputError(
            f"{path} describes a {backbone['class_name']}. Of the models of Keras, only "
            "a BertBackbone of keras-hub, and models with one, can be read. Is it a "
            "model of bert-tf? Load it with bert_tf.load in Python, and write a "
            "checkpoint with bert_tf.save_checkpoint."
        )

    fields = _fields(backbone["config"], path)
    arrays, unknown = _read_arrays(folder, is_preset)
    activation = settings.get("activation")
    if "num_classes" in settings and _OUTPUT not in arrays:
        raise InputError(
            f"{folder} describes a classifier, and has no weights of its head "
            f"({TASK_WEIGHTS_FILE}). Copy all files of the preset."
        )
    facts = _facts(settings, texts, len(arrays.get("output_bias", ())), folder)

    notes = {
        _ACCENTS: lower != strip,
        _NO_LABELS: facts.get("labels"),
        _OTHER_HEAD: _MASKED_LM in arrays,
        f"the classifier has the activation {activation}, which bert-tf leaves out": (
            activation not in (None, "linear", "softmax", "sigmoid")
        ),
    }
    vocabulary = find_file(folder, _VOCABULARY) or find_file(
        folder, _VOCABULARY_OF_TASK
    )
    return CheckpointContents(
        source=folder,
        dialect="keras_hub",
        arrays=arrays,
        config=BertConfig.from_dict(fields, path),
        vocabulary=read_vocabulary(vocabulary) if vocabulary else None,
        do_lower_case=lower,
        facts=facts,
        unknown=unknown,
        notes=tuple(note for note, applies in notes.items() if applies),
    )


def _fields(sizes: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Converts the arguments of a `BertBackbone` to fields of `BertConfig`."""
    if missing := [n for n in _ARGUMENTS.values() if n not in {"dropout", *sizes}]:
        raise InputError(f"{path} has no {missing[0]}. Save the model again.")
    return {field: sizes[name] for field, name in _ARGUMENTS.items() if name in sizes}


def _facts(
    settings: Mapping[str, Any], texts: Mapping[str, Any], num_labels: int, folder: str
) -> dict[str, Any]:
    """Returns the facts about a model, from the arguments of its task and its preprocessor."""
    length = texts.get("sequence_length")
    lengths = {"max_seq_length": length} if length else {}

    # A text embedder.
    if mode := settings.get("pooling_mode"):
        embedding = {"problem": f"{folder} has the pooling_mode {mode}"}
        for pooling, name in _POOLING.items():
            if name == mode:
                normalize = settings.get("normalize", True)
                embedding = {"pooling": pooling, "normalize": normalize}
        return {"embedding": {**embedding, **lengths}}

    # A classifier, or another model.
    labels = [f"LABEL_{i}" for i in range(num_labels)]
    facts: dict[str, Any] = {"labels": labels} if labels else {}
    if settings.get("activation") == "sigmoid":
        facts["task_type"] = "multi_label"
    elif num_labels == 1:  # a score, as in a checkpoint of transformers
        facts = {"labels": [], "task_type": "regression"}
    return {**facts, **lengths}


def _read_json(folder: str, name: str) -> dict[str, Any]:
    """Reads Keras's description of an object; its `config` is {} if there is no such file."""
    values = json_files.read_optional(folder, name)
    return {**values, "config": values.get("config") or {}}


def _read_arrays(
    folder: str, is_preset: bool
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Returns the weights by google-research/bert name, and the paths of other variables."""
    stored = hdf5.read_arrays(posixpath.join(folder, WEIGHTS_FILE))
    if is_preset:
        stored = {f"{_ENCODER}{path}": array for path, array in stored.items()}
        if head := find_file(folder, TASK_WEIGHTS_FILE):
            stored |= hdf5.read_arrays(head)

    match = weight_names.matcher(
        {_normalized(path): row for path, row in _ROWS.items()}
    )
    arrays = {}
    unknown = []
    for path, array in stored.items():
        if row := match(_normalized(path)):
            array = array.T if row.google == _OUTPUT else array
            arrays[row.google] = weight_names.merge_heads(row, array)
        elif "optimizer/" not in path:
            unknown.append(path)
    return arrays, tuple(unknown)


def _normalized(path: str) -> str:
    """Returns a path of a variable in the form that all versions of Keras share.

    Keras 2 wrote `_layer_checkpoint_dependencies` for `layers`, and in Keras 3.0 some
    names of attributes have an underscore. The first encoder layer has no number in
    Keras, and gets the number 0.
    """
    path = path.replace("_layer_checkpoint_dependencies", "layers")
    return path.replace("/_", "/").replace("_encoder/", "_encoder_0/")


def write(folder: str, contents: CheckpointContents) -> str:
    """Writes a preset, which `from_preset` of keras-hub reads, to an empty folder.

    A classifier becomes a `BertTextClassifier`, which returns logits, a masked LM a
    `BertMaskedLM`, and an encoder with the fact `embedding` a `BertTextEmbedder`. Of
    the facts, only `max_seq_length`, pooling and normalization are stored, so labels
    and prompts are lost. A model without a pooler gets a random one, as a new model of
    keras-hub has. Returns `folder`.
    """
    config = contents.require_config()
    embedding = contents.facts.get("embedding") or {}
    head = "BertMaskedLM" if _MASKED_LM in contents.arrays else "BertTextClassifier"
    has_head = not contents.arrays.keys().isdisjoint({_MASKED_LM, _OUTPUT})
    if embedding and "problem" not in embedding and not has_head:
        head = "BertTextEmbedder"
    lower = contents.do_lower_case is not False  # as in `BertTokenizer`
    positions = config.max_position_embeddings
    length = embedding.get("max_seq_length", positions)
    length = min(contents.facts.get("max_seq_length", length), positions)

    # Keras's descriptions of the objects.
    arguments = {name: getattr(config, field) for field, name in _ARGUMENTS.items()}
    backbone = _described("BertBackbone", arguments)
    tokenizer = _described(
        "BertTokenizer", {"lowercase": lower, "strip_accents": lower}
    )
    preprocessor = _described(
        f"{head}Preprocessor", {"tokenizer": tokenizer, "sequence_length": length}
    )
    objects = {CONFIG_FILE: backbone}
    if contents.vocabulary:
        objects |= {TOKENIZER_FILE: tokenizer, PREPROCESSOR_FILE: preprocessor}

    task: dict[str, Any] = {
        "backbone": backbone,
        "preprocessor": preprocessor if contents.vocabulary else None,
    }
    if _OUTPUT in contents.arrays:
        task["num_classes"] = len(contents.arrays[_OUTPUT])
    if head == "BertTextEmbedder":
        task["pooling_mode"] = _POOLING[embedding.get("pooling", "mean")]
        task["normalize"] = embedding.get("normalize", True)
    if has_head or head == "BertTextEmbedder":
        objects[TASK_FILE] = _described(head, task)

    # Keras divides the weights into those of the encoder and of the head.
    arrays = _variables(contents.arrays, config)
    encoder = {path for path in arrays if path.startswith(_ENCODER)}
    if has_head:
        hdf5.write_arrays(
            posixpath.join(folder, TASK_WEIGHTS_FILE),
            {path: arrays[path] for path in arrays.keys() - encoder},
        )

    for name, values in objects.items():
        files.write_json(posixpath.join(folder, name), values)
    if contents.vocabulary:
        path = posixpath.join(folder, _VOCABULARY)
        files.make_folder(posixpath.dirname(path))
        files.write_bytes(path, vocabulary_text(contents.vocabulary))
    hdf5.write_arrays(
        posixpath.join(folder, WEIGHTS_FILE),
        {path.removeprefix(_ENCODER): arrays[path] for path in encoder},
    )
    return folder


def _described(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns Keras's description of an object of keras-hub."""
    return {
        "module": "keras_hub.models",
        "class_name": name,
        "config": arguments,
        "registered_name": f"keras_hub>{name}",
    }


def _variables(
    weights: Mapping[str, np.ndarray], config: BertConfig
) -> dict[str, np.ndarray]:
    """Converts weights to variables of keras-hub, by their paths in a model with a head."""
    # A BertBackbone has a pooler in any case.
    weights = {**arrays_by_name(BertEncoder(config)), **weights}
    match = weight_names.matcher(
        {
            row.google: dataclasses.replace(row, google=path)
            for path, row in _ROWS.items()
        }
    )

    arrays = {}
    for name, array in weights.items():
        if row := match(name):
            if row.heads == "out":
                array = array.reshape(*array.shape[:-1], config.num_attention_heads, -1)
            if row.heads == "in":
                array = array.reshape(config.num_attention_heads, -1, array.shape[-1])
            # The first of several layers has no number.
            path = row.google.replace("_encoder_0/", "_encoder/")
            arrays[path] = array.T if name == _OUTPUT else array
    return arrays
