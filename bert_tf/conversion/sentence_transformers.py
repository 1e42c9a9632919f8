"""Reads and writes how a folder of sentence-transformers computes the vector of a text.

Such a folder is a folder of Hugging Face with more files. `modules.json` lists the
steps: the model, the pooling, and perhaps a normalization.
"""

import posixpath
from collections.abc import Mapping
from typing import Any

from tensorflow.io import gfile

from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.files import find_file

MODULES_FILE = "modules.json"
POOLING_FOLDER = "1_Pooling"
_SETTINGS_FILE = "sentence_bert_config.json"
_CONFIG_FILE = "config.json"
_POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
# Newer versions of sentence-transformers write the key `pooling_mode` with one of the
# last two.
_KNOWN_POOLING = {**_POOLING, "mean": "mean", "cls": "first"}
_PACKAGE = "sentence_transformers.models"
_NORMALIZE = "Normalize"
_STEPS = ("Transformer", "Pooling")


def read_embedding(folder: str, do_lower_case: bool | None) -> dict[str, Any] | None:
    """Returns how vectors are computed, or None if the folder does not state it.

    Args:
        folder: The folder.
        do_lower_case: Whether the tokenizer in the folder lower-cases text; None if
            unknown.

    Returns:
        A dict with `pooling` ("mean" or "first"), `normalize` (bool), and
        `max_seq_length` (int) if the folder has one. If bert-tf does not support a
        step, a dict with `problem`, a sentence.
    """
    path = find_file(folder, MODULES_FILE)
    if path is None:
        return None
    try:
        return _read(folder, path, do_lower_case)
    except InputError as error:  # the folder can still be used for fine-tuning
        return {"problem": str(error).rstrip(".")}


def _read(folder: str, path: str, do_lower_case: bool | None) -> dict[str, Any]:
    # The steps: model, pooling and perhaps normalization.
    modules: Any = json_files.parse(files.read_text(path), path)
    steps = [(each["type"].rsplit(".", 1)[-1], each["path"]) for each in modules]
    names = tuple(name for name, _ in steps)
    if names not in (_STEPS, (*_STEPS, _NORMALIZE)):
        return {"problem": f"{path} has the steps {', '.join(names)}"}

    # The pooling, of which only one mode may be true.
    name = posixpath.join(steps[1][1], _CONFIG_FILE)
    pooling_path = find_file(folder, name) or posixpath.join(folder, name)
    pooling = json_files.read(pooling_path)
    used = [
        name
        for name, value in pooling.items()
        if name.startswith("pooling_mode") and value
    ]
    if used == ["pooling_mode"]:
        used = [str(pooling["pooling_mode"])]
    if len(used) != 1 or used[0] not in _KNOWN_POOLING:
        return {
            "problem": f"{pooling_path} has {' and '.join(used) or 'no pooling mode'}"
        }

    settings = _settings(find_file(folder, posixpath.join(steps[0][1], _SETTINGS_FILE)))
    if settings.pop("do_lower_case", False) and do_lower_case is False:
        return {
            "problem": f"{_SETTINGS_FILE} lower-cases texts before a cased tokenizer"
        }
    return {
        "pooling": _KNOWN_POOLING[used[0]],
        "normalize": _NORMALIZE in names,
        **settings,
    }


def write(folder: str, embedding: Mapping[str, Any], size: int) -> None:
    """Adds the files of sentence-transformers to a folder of Hugging Face.

    Args:
        folder: The folder.
        embedding: A result of `read_embedding`. Nothing is written if it is empty or
            not supported.
        size: The number of values of a vector.
    """
    if not embedding or "problem" in embedding:
        return

    names = (*_STEPS, _NORMALIZE) if embedding.get("normalize", True) else _STEPS
    places = ("", POOLING_FOLDER, "2_Normalize")  # the last one needs no files
    modules = [
        {"idx": i, "name": str(i), "path": place, "type": f"{_PACKAGE}.{name}"}
        for i, (name, place) in enumerate(zip(names, places, strict=False))
    ]

    modes = {
        name: kind == embedding.get("pooling", "mean")
        for name, kind in _POOLING.items()
    }

    gfile.makedirs(posixpath.join(folder, POOLING_FOLDER))
    pooling = {"word_embedding_dimension": size, **modes}
    files.write_json(posixpath.join(folder, POOLING_FOLDER, _CONFIG_FILE), pooling)
    files.write_json(posixpath.join(folder, MODULES_FILE), modules)
    if "max_seq_length" in embedding:
        settings = {
            "max_seq_length": embedding["max_seq_length"],
            "do_lower_case": False,
        }
        files.write_json(posixpath.join(folder, _SETTINGS_FILE), settings)


def check_supported(embedding: dict[str, Any]) -> None:
    """Checks a result of `read_embedding`.

    Raises:
        InputError: bert-tf does not support a step.
    """
    if "problem" in embedding:
        raise InputError(
            f"{embedding['problem']}. bert-tf computes the mean of the tokens or the "
            "first token, normalized or not. Give pooling and normalize."
        )


def _settings(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    schema = {"max_seq_length": json_files.LENGTH, "do_lower_case": json_files.TRUTH}
    values = json_files.read(path, schema)
    return {name: values[name] for name in schema if values.get(name)}
