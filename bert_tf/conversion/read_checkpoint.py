"""`read_weights`: reads a checkpoint from a folder, a .zip file or the Hugging Face hub.

Imports foundation modules and also `tokenization.released_casing` and the other modules of this
package, except `write_checkpoint`.
"""

import dataclasses
import json
import posixpath
import tempfile
import zipfile
from typing import Any

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.conversion import hugging_face
from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.dialects import DIALECTS
from bert_tf.errors import InputError
from bert_tf.tokenization.released_casing import released_casing

_HUB = "hf://"
_HUB_FILES = ["*.json", "*.txt", "*.safetensors"]
_PICKLED = (".bin", ".pt", ".pth")


def _gfile() -> Any:
    from tensorflow.io import gfile

    return gfile


def read_weights(path: str, slots: bool = False) -> CheckpointContents:
    """Reads a checkpoint of any dialect (format), and the config and vocabulary next to it.

    Args:
        path: One of
            a weights folder or a training checkpoint;
            the output folder of a training run (the newest checkpoint of the run is read, or the
                best weights if the run used early stopping);
            a google-research/bert checkpoint (`.../bert_model.ckpt`, or its folder);
            a Model Garden checkpoint (its prefix or its folder);
            a Hugging Face folder or its `model.safetensors`;
            a `.zip` file that contains any of the above, such as a file that Google released;
            `hf://owner/name` or `hf://owner/name@revision` on the Hugging Face hub.
        slots: Whether to read Adam's moments too. Only google-research/bert checkpoints and
            training checkpoints of bert-tf can contain them.

    Raises:
        InputError: There is no checkpoint at the path, or the checkpoint cannot be read.
    """
    if path.startswith(_HUB):
        return _read_from_hub(path)
    if path.endswith(".zip") and not _gfile().isdir(path):
        return _read_zip(path, slots)
    return _read(path.rstrip("/"), slots)


def read_config(path: str) -> BertConfig:
    """Reads a `bert_config.json`, or a `config.json` of Hugging Face.

    Raises:
        InputError: The file is missing, or is not the config of a BERT.
    """
    text = files.read_text(path)
    config = BertConfig.from_json(text, path)
    # Some activation names mean other functions in Hugging Face, for example "gelu".
    if hugging_face.CONFIG_KEYS.intersection(config.extra):
        return hugging_face.config_from_hugging_face(json.loads(text), path)
    return config


def _read_from_hub(path: str) -> CheckpointContents:
    try:
        import huggingface_hub
    except ImportError as error:
        raise InputError(
            f"{path} needs the package huggingface_hub: pip install bert-tf[hub]."
        ) from error
    name, _, revision = path.removeprefix(_HUB).partition("@")
    try:
        folder = huggingface_hub.snapshot_download(
            name, revision=revision or None, allow_patterns=_HUB_FILES
        )
    except Exception as error:  # the hub client raises many types of exceptions
        message = " ".join(str(error).split())
        raise InputError(f"{path} cannot be downloaded: {message}") from error
    if not any(name.endswith(".safetensors") for name in _gfile().listdir(folder)):
        raise InputError(
            f"{path} has no model.safetensors. Pickled files (.bin) are not read, because loading "
            "them can execute arbitrary code. Convert them with transformers and give the folder."
        )
    return dataclasses.replace(_read(folder, slots=False), source=path)


def _read_zip(path: str, slots: bool) -> CheckpointContents:
    import tensorflow as tf

    gfile = tf.io.gfile
    if not gfile.exists(path):
        raise InputError(f"There is no file {path}.")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with gfile.GFile(path, "rb") as file, zipfile.ZipFile(file) as archive:
                archive.extractall(folder)
        except (zipfile.BadZipFile, tf.errors.OpError, OSError) as error:
            raise InputError(f"{path} cannot be unpacked as a zip file: {error}.") from error
        candidates = [
            root
            for root, _, names in gfile.walk(folder)
            if any(name.endswith((".index", ".safetensors")) for name in names)
            and "__MACOSX" not in root
        ]
        if len(candidates) != 1:
            raise InputError(f"{path} must hold one checkpoint. Found: {len(candidates)}.")
        try:
            contents = _read(candidates[0], slots)
        except InputError as error:
            raise InputError(str(error).replace(folder, path)) from error
    casing = contents.do_lower_case
    if casing is None:
        casing = released_casing(posixpath.basename(path))
    return dataclasses.replace(contents, source=path, do_lower_case=casing)


def _read(path: str, slots: bool) -> CheckpointContents:
    """Reads a checkpoint with the first dialect in `DIALECTS` that recognizes the path."""
    if path.endswith(".safetensors"):
        path = posixpath.dirname(path) or "."
    for dialect in DIALECTS.values():
        contents = dialect.read(path, slots)
        if contents is not None:
            return contents
    raise InputError(_reason_for_no_checkpoint(path))


def _reason_for_no_checkpoint(path: str) -> str:
    is_folder = _gfile().isdir(path)
    names = _gfile().listdir(path) if is_folder else []
    if "saved_model.pb" in names:
        return f"{path} is an exported SavedModel. Give the checkpoint that it was exported from."
    paths = [path, *(posixpath.join(path, name) for name in names)]
    pickled = [each for each in paths if each.endswith(_PICKLED)]
    if pickled:
        return (
            f"{pickled[0]} is pickled, and loading it can execute arbitrary code. Convert it "
            "first: load the model with transformers, call "
            "save_pretrained(folder, safe_serialization=True), and give that folder."
        )
    if path.endswith((".keras", ".h5")):
        return (
            f"{path} is a file of Keras. Load it with keras.saving.load_model, and write a "
            "checkpoint with bert_tf.save_checkpoint."
        )
    if not is_folder:
        prefix = path.removesuffix(".index")
        return f"There is no checkpoint {prefix}: no folder and no {prefix}.index exists."
    return (
        f"{path} holds no checkpoint: it has no weights.json, model.safetensors or "
        "bert_model.ckpt.index."
    )
