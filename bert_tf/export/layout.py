"""The places of files in the folder of an exported model."""

import os

from bert_tf.errors import InputError

EXTRA = "assets.extra"


def newest_version(folder: str) -> str:
    """Returns `folder` if it contains a SavedModel, else its subfolder with the highest version.

    Raises:
        InputError: The folder contains neither a SavedModel nor numbered version folders.
    """
    from tensorflow.io import gfile

    if gfile.exists(os.path.join(folder, "saved_model.pb")):
        return folder
    found = _version_names(folder)
    if not found:
        raise InputError(f"{folder} is not an exported model and contains no version of one.")
    return os.path.join(folder, max(found, key=int))


def versions(folder: str) -> list[int]:
    """Returns the numbers of the versions in a folder; [] if the folder does not exist."""
    return list(map(int, _version_names(folder)))


def _version_names(folder: str) -> list[str]:
    """Returns the names of the version folders; TensorFlow Serving accepts leading zeros."""
    from tensorflow.io import gfile

    names = gfile.listdir(folder) if gfile.isdir(folder) else []
    names = [name.rstrip("/") for name in names]
    return [name for name in names if name.isascii() and name.isdigit()]
