"""Checks that a folder to write holds nothing else than a checkpoint, which may be replaced."""

import os
import re

from tensorflow.io import gfile

from bert_tf.conversion.sentence_transformers import POOLING_FOLDER
from bert_tf.errors import InputError
from bert_tf.storage import files, json_files
from bert_tf.storage.paths import is_inside, resolve_output
from bert_tf.training.lifecycle.run_state import run_of

# The file that the writer of each dialect writes last.
LAST_FILES = {
    "bert-tf": "weights.json",
    "hugging_face": "model.safetensors",
    "google": "checkpoint",
}
_PREFIX = r"(bert_model\.ckpt|model\.ckpt-\d+)\."
# The other files that the writer of each dialect creates.
_FILES = {
    "bert-tf": r"model\.safetensors|bert_config\.json|vocab\.txt|new_words\.tsv",
    "hugging_face": r"config\.json|tokenizer_config\.json|vocab\.txt"
    rf"|modules\.json|sentence_bert_config\.json|{POOLING_FOLDER}/config\.json",
    "google": rf"{_PREFIX}(index|meta|data-\d{{5}}-of-\d{{5}})"
    r"|bert_config\.json|tokenizer_config\.json|vocab\.txt",
}


def check_target(folder: str, dialect: str, *sources: str) -> None:
    """Checks that writing a checkpoint to a folder removes no other data.

    Args:
        folder: The folder to write.
        dialect: The dialect to write, one of `WRITABLE_DIALECTS`.
        sources: Paths of the checkpoint that is read.

    Raises:
        InputError: The folder is a file, belongs to a run of training, contains a
            source, or contains anything else than an undamaged checkpoint of this
            dialect.
    """
    target = resolve_output(folder, is_folder=True)
    target = target if "://" in target else os.path.realpath(target)
    _check_place(folder, target, sources)
    names = files.list_folder(target)
    if gfile.isdir(f"{target}/{POOLING_FOLDER}"):
        names.remove(POOLING_FOLDER)
        names += [
            f"{POOLING_FOLDER}/{name}"
            for name in files.list_folder(f"{target}/{POOLING_FOLDER}")
        ]
    if not names:
        return
    last = LAST_FILES[dialect]
    for name in names:
        is_known = name == last or re.fullmatch(_FILES[dialect], name)
        if not is_known or gfile.isdir(f"{target}/{name}"):
            reason = (
                "which is not a file of a checkpoint that bert-tf writes in the dialect"
            )
            raise _refusal(folder, f"contains {name}, {reason} {dialect}")
    prefixes = sorted(
        {match[1] for name in names if (match := re.match(_PREFIX, name))}
    )
    if len(prefixes) > 1:
        raise _refusal(
            folder,
            f"contains several checkpoints, such as {prefixes[0]} and {prefixes[1]}",
        )
    # Object stores have no temporary folders: a killed program leaves a folder without
    # this file.
    if last not in names and "://" not in target:
        raise _refusal(
            folder, f"is not a checkpoint of the dialect {dialect}: it has no {last}"
        )
    if (
        dialect == "hugging_face" and "config.json" in names
    ):  # another model has these names too
        kind = json_files.read(f"{target}/config.json").get("model_type")
        if kind not in (None, "bert"):
            raise _refusal(
                folder, f"config.json is that of a model of the type {kind!r}"
            )


def _refusal(folder: str, reason: str) -> InputError:
    return InputError(
        f"{folder} would be replaced, but {reason}. Give the path of a new folder."
    )


def _check_place(folder: str, target: str, sources: tuple[str, ...]) -> None:
    run = run_of(target)
    if run is not None:
        raise _refusal(folder, f"belongs to the run in {run}")
    for source in sources:
        if is_inside(source, target):
            raise _refusal(
                folder, f"belongs to the checkpoint that is read from {source}"
            )
