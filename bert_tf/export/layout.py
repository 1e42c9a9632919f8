"""The paths of files in the folder of an exported model, and the numbers of its versions."""

import itertools
import logging
import os

from tensorflow.io import gfile

from bert_tf.errors import InputError
from bert_tf.export.formats import FILE_FORMATS
from bert_tf.storage import files
from bert_tf.storage.overwrite_rule import first_foreign
from bert_tf.storage.paths import resolve_output

_LOGGER = logging.getLogger(__name__)
EXTRA = "assets.extra"
REPORT_FILE = f"{EXTRA}/export_report.json"
# Files in EXTRA.
MODEL_CARD = "model_card.md"
EXAMPLES_FILE = "examples.jsonl"
# The files of a SavedModel whose SHA-256 is in the fact `FILES_SHA256`. The index of
# the variables has a checksum of each variable.
CHECKED_FILES = ("saved_model.pb", "fingerprint.pb", "variables/variables.index")
FILES_SHA256 = "files_sha256"


def newest_version(folder: str) -> str:
    """Returns `folder` if it is a SavedModel, else its highest version with a SavedModel.

    Raises:
        InputError: There is no SavedModel; or, if not in an object store, a version
            with a higher number is empty or incomplete.
    """
    names = sorted(_version_names(folder), key=int, reverse=True)
    candidates = [folder, *(os.path.join(folder, name) for name in names)]

    for candidate in candidates:
        if files.exists(os.path.join(candidate, "saved_model.pb")):
            return candidate
        if candidate != folder and not any(map(gfile.isdir, _file_folders(candidate))):
            message = f"{candidate} is the newest version, but has no saved_model.pb"
            if "://" not in folder:
                raise InputError(
                    f"{message}. Export or copy it again, or give the folder of "
                    "another version."
                )
            # Object stores cannot rename a folder when it is complete, so an export may
            # still write this one.
            _LOGGER.warning("warning: %s. An older version is used.", message)

    # No version has a SavedModel: name the files of other formats, if there are any.
    for file_folder in itertools.chain.from_iterable(map(_file_folders, candidates)):
        if gfile.isdir(file_folder):
            paths = ", ".join(
                os.path.join(file_folder, name)
                for name in files.list_folder(file_folder)
            )
            raise InputError(f"{folder} contains no SavedModel. Give a file: {paths}.")
    raise InputError(
        f"{folder} is not an exported model and contains no version of one. Export a "
        "checkpoint or a run first: python run_scripts/export_model.py "
        f"--checkpoint={folder} --export_dir=served"
    )


def _file_folders(version: str) -> list[str]:
    return [os.path.join(version, name) for name in FILE_FORMATS]


def has_saved_model(folder: str) -> bool:
    """Returns whether a folder contains a version with a SavedModel."""
    return any(
        gfile.exists(os.path.join(folder, name, "saved_model.pb"))
        for name in _version_names(folder)
    )


def next_version(folder: str) -> int:
    """Returns the number of the next version, from 1. The folder may be absent.

    Raises:
        InputError: The path is not that of a folder (see `resolve_output`), or the
            folder contains files but no version.
    """
    resolve_output(folder, is_folder=True)
    numbers = [int(name) for name in _version_names(folder)]
    foreign = None if numbers else first_foreign(folder, lambda name: name[0] == ".")
    if foreign:
        raise InputError(
            f"{folder} contains other files, such as {foreign}, and no version of a "
            "model. Give the path of a new folder for the versions."
        )
    return 1 + max(numbers, default=0)


def _version_names(folder: str) -> list[str]:
    """Returns the names of the version folders in a folder; [] if it does not exist."""
    names = files.list_folder(folder) if gfile.isdir(folder) else []
    return [name for name in names if _is_version_name(name)]


def _is_version_name(name: str) -> bool:
    """Returns whether a name is a number; TensorFlow Serving accepts leading zeros."""
    return name.isascii() and name.isdigit()
