"""`read_weights`: any checkpoint, wherever it is, in our terms.

Imports layer 0, `training.state`, the readers of each dialect, and `weights`.
"""

import dataclasses
import json
import posixpath
import tempfile
import zipfile
from typing import Any

from bert_tf import files
from bert_tf import weights as our_folder
from bert_tf.config import BertConfig
from bert_tf.conversion import google, huggingface, model_garden
from bert_tf.conversion.weights import Weights
from bert_tf.errors import InputError
from bert_tf.training.lifecycle.run_folder import RunFolder

_HUB = "hf://"
_HUB_FILES = ["*.json", "*.txt", "*.safetensors"]
_MOMENTS = "optimizer.safetensors"  # beside the weights in a training checkpoint
_HUGGING_FACE_KEYS = {"model_type", "architectures", "transformers_version"}
_SLOTS = ("/adam_m", "/adam_v")
_PICKLED = (".bin", ".pt", ".pth")


def _gfile() -> Any:
    from tensorflow.io import gfile

    return gfile


def read_weights(path: str, slots: bool = False) -> Weights:
    """Reads a checkpoint of any dialect, with the config and the vocabulary found beside it.

    Args:
        path: One of
            a weights-only folder of ours, a training checkpoint, or a run's output folder (its
                newest checkpoint; its best weights where it was to stop early);
            a google-research/bert checkpoint (`.../bert_model.ckpt`, or its folder);
            a Model Garden checkpoint (the same);
            a Hugging Face folder or its `model.safetensors`;
            a `.zip` with one of these in it, as Google released them;
            `hf://owner/name` or `hf://owner/name@revision` on the Hugging Face hub.
        slots: Whether to read Adam's slots too, of a google-research/bert checkpoint or a training
            checkpoint of ours.

    Raises:
        InputError: There is no such checkpoint, or it cannot be read; the message says why.
    """
    if path.startswith(_HUB):
        return _from_hub(path)
    if path.endswith(".zip") and not _gfile().isdir(path):
        return _from_zip(path, slots)
    return _read(path.rstrip("/"), slots)


def read_config(path: str) -> BertConfig:
    """The architecture that a `bert_config.json`, or the `config.json` of transformers, says.

    Raises:
        InputError: The file is missing, or is not the config of a BERT.
    """
    text = files.read_text(path)
    config = BertConfig.from_json(text, path)
    # Where "gelu" is another function.
    if _HUGGING_FACE_KEYS.intersection(config.extra):
        return huggingface.from_hugging_face(json.loads(text), path)
    return config


def _from_hub(path: str) -> Weights:
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
    except Exception as error:  # the hub's and the network's errors are of many kinds
        raise InputError(f"{path} cannot be fetched: {' '.join(str(error).split())}") from error
    if not any(name.endswith(".safetensors") for name in _gfile().listdir(folder)):
        raise InputError(
            f"{path} has no model.safetensors. Pickled files (.bin) are not read, since that could "
            "run any code; convert them with transformers, and give the folder."
        )
    return dataclasses.replace(_read(folder, slots=False), source=path)


def _from_zip(path: str, slots: bool) -> Weights:
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
        holding = [
            root
            for root, _, names in gfile.walk(folder)
            if _looks_whole(names) and "__MACOSX" not in root
        ]
        if len(holding) != 1:
            raise InputError(f"{path} must hold one checkpoint. Found: {len(holding)}.")
        try:
            weights = _read(holding[0], slots)
        except InputError as error:
            raise InputError(str(error).replace(folder, path)) from error
    casing = released_casing(posixpath.basename(path)) if weights.do_lower_case is None else None
    return dataclasses.replace(
        weights, source=path, do_lower_case=casing if casing is not None else weights.do_lower_case
    )


def _looks_whole(names: list[str]) -> bool:
    return any(n.endswith((".index", ".safetensors")) for n in names)


def _read(path: str, slots: bool) -> Weights:
    gfile = _gfile()
    if path.endswith(_PICKLED):
        raise InputError(_pickled(path))
    if path.endswith(".safetensors"):
        path = posixpath.dirname(path) or "."
    prefix = path.removesuffix(".index")
    # Asked first: some file systems call any start of a path a folder.
    if gfile.exists(f"{prefix}.index") or not gfile.isdir(path):
        return _read_checkpoint(prefix, slots)
    if our_folder.is_weights_folder(path):
        return _ours(path, slots)
    run = RunFolder(path)
    # The folder of the best weights has no optimizer slots.
    checkpoint = run.latest_checkpoint() if slots else run.best_or_latest_checkpoint()
    if checkpoint is not None:
        return _ours(checkpoint, slots)
    names = gfile.listdir(path)
    if "saved_model.pb" in names:
        raise InputError(
            f"{path} is an exported SavedModel. Give the checkpoint that it was made from."
        )
    if {huggingface.WEIGHTS_FILE, huggingface.INDEX_FILE}.intersection(names):
        return huggingface.read(path)
    if any(name.endswith(".index") for name in names):
        return _read_checkpoint(_newest(path, names), slots)
    pickled = [name for name in names if name.endswith(_PICKLED)]
    if pickled:
        raise InputError(_pickled(posixpath.join(path, pickled[0])))
    raise InputError(
        f"{path} holds no checkpoint: there is no weights.json, model.safetensors or "
        "bert_model.ckpt.index in it."
    )


def _pickled(path: str) -> str:
    return (
        f"{path} is pickled, and reading it could run any code that its author put into it. "
        "Convert it first: load the model with transformers and call "
        "save_pretrained(folder, safe_serialization=True), then give that folder."
    )


def _newest(folder: str, names: list[str]) -> str:
    """The checkpoint that the folder's `checkpoint` file names, or the only one."""
    import tensorflow as tf

    latest = tf.train.latest_checkpoint(folder)
    if latest:
        return str(latest)
    prefixes = sorted(name.removesuffix(".index") for name in names if name.endswith(".index"))
    if len(prefixes) > 1:
        raise InputError(
            f"{folder} holds several checkpoints; name one, such as "
            f"{posixpath.join(folder, prefixes[-1])}."
        )
    return posixpath.join(folder, prefixes[0])


def _read_checkpoint(prefix: str, slots: bool) -> Weights:
    if not _gfile().exists(prefix + ".index"):
        raise InputError(f"There is no checkpoint {prefix}: no folder and no {prefix}.index.")
    reader = google.open_checkpoint(prefix)
    if reader.has_tensor(model_garden.GRAPH):
        weights = model_garden.read(prefix, reader)
    else:
        weights = google.read(prefix, reader, slots)
    return _with_what_is_beside(weights, posixpath.dirname(prefix))


def released_casing(name: str) -> bool | None:
    """Whether a released model lower-cases, by the name of its folder; None for other names.

    Source: google-research/bert README; `tokenization.validate_case_matches_checkpoint`.
    """
    name = name.removeprefix("wwm_")
    if name.startswith(("uncased_L-", "multilingual_L-", "chinese_L-")):
        return True
    return False if name.startswith(("cased_L-", "multi_cased_L-")) else None


def _with_what_is_beside(weights: Weights, folder: str) -> Weights:
    gfile = _gfile()
    config_path = posixpath.join(folder, our_folder.CONFIG_FILE)
    vocabulary_path = posixpath.join(folder, our_folder.VOCABULARY_FILE)
    config, vocabulary = None, None
    if gfile.exists(config_path):
        config = BertConfig.from_json(files.read_text(config_path), config_path)
    if gfile.exists(vocabulary_path):
        vocabulary = our_folder.read_vocabulary(vocabulary_path)
    casing = released_casing(posixpath.basename(folder))
    return dataclasses.replace(weights, config=config, vocabulary=vocabulary, do_lower_case=casing)


def _ours(path: str, slots: bool) -> Weights:
    read = our_folder.read_weights_folder(path)
    moments = posixpath.join(path, _MOMENTS)
    kept: dict[str, Any] = {}
    if slots and _gfile().exists(moments):
        kept = our_folder.from_safetensors(files.read_bytes(moments), moments)
    return Weights(
        source=path,
        dialect="bert-tf",
        arrays=read.arrays,
        config=read.config,
        vocabulary=read.vocabulary,
        do_lower_case=read.do_lower_case,
        extra={key: value for key, value in read.extra.items() if key != "step"},
        slots={name: slot for name, slot in kept.items() if name.endswith(_SLOTS)},
        global_step=read.extra.get("step"),
    )
