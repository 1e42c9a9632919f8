"""Finds the small files of a checkpoint's folder: config, vocabulary, settings of the tokenizer.

A file in a downloaded folder may be a link to a private file of the user. The content would be
copied to converted checkpoints and exports. Weights may be links to any place, because only a valid
checkpoint can be read as weights.
"""

import os
import posixpath

from bert_tf import files
from bert_tf.errors import InputError


def find_file(folder: str, name: str) -> str | None:
    """Returns the path of a file in a folder, or None if there is no such file.

    Raises:
        InputError: The file is a link that leads nowhere or out of the folder. Links from a
            snapshot in the cache of huggingface_hub to the `blobs` of the same model are allowed.
    """
    path = posixpath.join(folder, name)
    if not files.exists(path):
        if "://" not in path and os.path.lexists(path):
            raise InputError(
                f"{path} is a link to {os.readlink(path)}, which does not exist. Replace the link "
                "with a copy of the file."
            )
        return None
    if "://" in path:
        return path
    root, target = os.path.realpath(folder), os.path.realpath(path)
    parent = os.path.dirname(root)
    is_snapshot = os.path.basename(parent) == "snapshots"
    allowed = [root, *([os.path.join(os.path.dirname(parent), "blobs")] if is_snapshot else [])]
    if not any(os.path.commonpath([target, place]) == place for place in allowed):
        raise InputError(
            f"{path} is a link to {target}, outside of its folder. Replace the link with a copy "
            "of the file, if the file belongs to the checkpoint."
        )
    return path
