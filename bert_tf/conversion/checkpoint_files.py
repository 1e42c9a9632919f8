"""Finds the small files of a checkpoint's folder: config, vocabulary, settings of the tokenizer.

A file in a downloaded folder may be a link to a private file of the user. The content
would be copied to converted checkpoints and exports. Weights may be links to any place,
because only a valid checkpoint can be read as weights.
"""

import os
import posixpath

from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.paths import is_inside


def find_file(folder: str, name: str) -> str | None:
    """Returns the path of a file in a folder, or None if there is no such file.

    Raises:
        InputError: The file is a link that leads out of the folder. Links from a
            snapshot in the cache of huggingface_hub to the `blobs` of the same model
            are allowed.
    """
    path = posixpath.join(folder, name)
    if not files.exists(path):
        return None
    parent = os.path.dirname(os.path.realpath(folder))
    is_snapshot = os.path.basename(parent) == "snapshots"
    allowed = [
        folder,
        *([os.path.join(os.path.dirname(parent), "blobs")] if is_snapshot else []),
    ]
    if not any(is_inside(path, place) for place in allowed):
        raise InputError(
            f"{path} is a link to {os.path.realpath(path)}, outside of its folder. "
            "Replace the link with a copy of the file, if the file belongs to the "
            "checkpoint."
        )
    return path
