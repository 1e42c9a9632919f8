"""Reads and writes the settings by which sentence-transformers computes text vectors.

They are files in a folder of Hugging Face. `modules.json` lists the steps: the model,
the pooling, and perhaps a normalization. A prompt is a text that is put before each
input text.

Source: `SentenceTransformer` of sentence-transformers 5.
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
OLD_FOLDER = "0_Transformer"  # the folder of the model in old versions
_PROMPTS_FILE = "config_sentence_transformers.json"
_SETTINGS_FILE = "sentence_bert_config.json"
_CONFIG_FILE = "config.json"
_POOLING = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
# Newer versions of sentence-transformers write the key `pooling_mode` with one of the
# last two.
_KNOWN_POOLING = {**_POOLING, "mean": "mean", "cls": "first"}
_MODEL_TYPE = "SentenceTransformer"
_SETTINGS = {"max_seq_length": json_files.LENGTH, "do_lower_case": json_files.TRUTH}
_PROMPTS = {"prompts": json_files.OBJECT, "default_prompt_name": json_files.TEXT}
_PACKAGE = "sentence_transformers.models"
_NORMALIZE = "Normalize"
_STEPS = ("Transformer", "Pooling")


def read_embedding(folder: str, do_lower_case: bool | None) -> dict[str, Any] | None:
    """Returns the settings for text vectors; None if the folder has no `modules.json`.

    Returns:
        A dict with `pooling` ("mean" or "first"), `normalize` (bool), and, if the
        folder has them, `max_seq_length` (int), `prompts` (dict from name to text),
        `default_prompt_name` (str) and `include_prompt` (False, if the pooling leaves
        out the prompt). If bert-tf does not support a step, there is also `problem`, a
        sentence.
    """
    real_folder = files.real_path(folder)  # `folder` may be "."
    if posixpath.basename(real_folder) == OLD_FOLDER:
        folder = posixpath.dirname(real_folder)
    path = find_file(folder, MODULES_FILE)
    if path is None:
        return None
    prompts = _read_prompts(folder)
    try:
        return {**_read(folder, path, do_lower_case), **prompts}
    except InputError as error:  # the folder can still be used for fine-tuning
        return {**prompts, "problem": str(error).rstrip(".")}


def _read_prompts(folder: str) -> dict[str, Any]:
    path = posixpath.join(folder, _PROMPTS_FILE)
    schema = {"model_type": json_files.TEXT, **_PROMPTS}
    values = json_files.read_optional(folder, _PROMPTS_FILE, schema)
    prompts = values.get("prompts") or {}
    json_files.check(prompts, dict.fromkeys(prompts, json_files.TEXT), path)

    settings = {name: values[name] for name in _PROMPTS if values.get(name)}
    if (values.get("model_type") or _MODEL_TYPE) != _MODEL_TYPE:
        settings["problem"] = f"{path} has the model_type {values['model_type']}"
    return settings


def _read(folder: str, path: str, do_lower_case: bool | None) -> dict[str, Any]:
    # The steps: model, pooling and perhaps normalization.
    modules: Any = json_files.parse(files.read_text(path), path)
    steps = [(module["type"].rsplit(".", 1)[-1], module["path"]) for module in modules]
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

    settings_file = posixpath.join(steps[0][1], _SETTINGS_FILE)
    values = json_files.read_optional(folder, settings_file, _SETTINGS)
    settings = {name: values[name] for name in _SETTINGS if values.get(name)}
    if settings.pop("do_lower_case", False) and do_lower_case is False:
        return {
            "problem": f"{_SETTINGS_FILE} lower-cases texts before a cased tokenizer"
        }
    if pooling.get("include_prompt") is False:
        settings["include_prompt"] = False
    return {
        "pooling": _KNOWN_POOLING[used[0]],
        "normalize": _NORMALIZE in names,
        **settings,
    }


def write(folder: str, embedding: Mapping[str, Any], size: int) -> None:
    """Adds the files of sentence-transformers to a folder of Hugging Face.

    Nothing is written if `embedding`, a result of `read_embedding`, is empty or not
    supported. `size` is the number of values of a vector.
    """
    if not embedding or "problem" in embedding:
        return

    names = (*_STEPS, _NORMALIZE) if embedding.get("normalize", True) else _STEPS
    paths = ("", POOLING_FOLDER, "2_Normalize")  # the last one needs no files
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_PACKAGE}.{name}"}
        for i, (name, path) in enumerate(zip(names, paths, strict=False))
    ]

    modes = {
        name: kind == embedding.get("pooling", "mean")
        for name, kind in _POOLING.items()
    }

    gfile.makedirs(posixpath.join(folder, POOLING_FOLDER))
    pooling = {"word_embedding_dimension": size, **modes}
    if "include_prompt" in embedding:
        pooling["include_prompt"] = embedding["include_prompt"]
    files.write_json(posixpath.join(folder, POOLING_FOLDER, _CONFIG_FILE), pooling)
    files.write_json(posixpath.join(folder, MODULES_FILE), modules)
    if "max_seq_length" in embedding:
        settings = {
            "max_seq_length": embedding["max_seq_length"],
            "do_lower_case": False,
        }
        files.write_json(posixpath.join(folder, _SETTINGS_FILE), settings)
    if prompts := {name: embedding[name] for name in _PROMPTS if name in embedding}:
        files.write_json(posixpath.join(folder, _PROMPTS_FILE), prompts)


def check_supported(embedding: dict[str, Any]) -> None:
    """Raises `InputError` if the settings from `read_embedding` have an unsupported step."""
    if "problem" in embedding:
        raise InputError(
            f"{embedding['problem']}. bert-tf computes the mean of the tokens or the "
            "first token, normalized or not. Give pooling and normalize."
        )


def prompt_of(embedding: Mapping[str, Any], prompt_name: str | None) -> str:
    """Returns the prompt to put before each input text; "" if there is none.

    A `prompt_name` of "" selects no prompt, and None the default prompt of the folder.
    Raises `InputError` for an unknown name, and if the pooling leaves out the tokens of
    the prompt.
    """
    if prompt_name is None:
        prompt_name = embedding.get("default_prompt_name")
    if not prompt_name:
        return ""

    prompts = embedding.get("prompts", {})
    remedy = "Give prompt_name= for no prompt"
    if prompt_name not in prompts:
        raise InputError(
            f"prompt_name must be one of the prompts of the model: "
            f"{', '.join(prompts) or 'it has none'}. Received: {prompt_name!r}. {remedy}."
        )
    prompt = prompts[prompt_name] or ""
    if prompt and not embedding.get("include_prompt", True):
        raise InputError(
            f"The pooling of the model leaves out the tokens of the prompt {prompt!r} "
            f"(include_prompt), which bert-tf does not do. {remedy}."
        )
    return prompt
