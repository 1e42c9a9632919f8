"""The places of files in the folder of an exported model."""

import os

from bert_tf.errors import InputError

EXTRA = "assets.extra"
LITE = "tflite"


def newest_version(folder: str) -> str:
    """Returns `folder` if it contains a SavedModel, else its subfolder with the highest version.

    Raises:
        InputError: The folder contains neither a SavedModel nor numbered folders with one.
    """
    from tensorflow.io import gfile

    names = sorted(_version_names(folder), key=int, reverse=True)
    found = [folder, *(os.path.join(folder, name) for name in names)]
    for each in found:
        if gfile.exists(os.path.join(each, "saved_model.pb")):
            return each
    for lite in (os.path.join(each, LITE) for each in found):
        if gfile.isdir(lite):
            paths = ", ".join(sorted(os.path.join(lite, name) for name in gfile.listdir(lite)))
            raise InputError(f"{folder} contains no SavedModel. Give a TFLite file: {paths}.")
    raise InputError(f"{folder} is not an exported model and contains no version of one.")


def has_saved_model(folder: str) -> bool:
    """Returns whether a version in a folder is a SavedModel."""
    from tensorflow.io import gfile

    paths = (os.path.join(folder, name, "saved_model.pb") for name in _version_names(folder))
    return any(map(gfile.exists, paths))


def versions(folder: str) -> list[int]:
    """Returns the numbers of the versions in a folder; [] if the folder does not exist."""
    return list(map(int, _version_names(folder)))


def _version_names(folder: str) -> list[str]:
    """Returns the names of the version folders; TensorFlow Serving accepts leading zeros."""
    from tensorflow.io import gfile

    names = gfile.listdir(folder) if gfile.isdir(folder) else []
    names = [name.rstrip("/") for name in names]
    return [name for name in names if name.isascii() and name.isdigit()]
