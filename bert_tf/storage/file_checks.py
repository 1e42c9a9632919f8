"""Checks the place, the kind and the name of a file before it is read or written."""

import os
import stat

from bert_tf.errors import InputError


def check_is_regular(path: str) -> None:
    """Checks that a local path is a regular file, because reading a pipe or a device may block.

    Raises:
        InputError: The path exists and is a pipe, a device or a socket; or it starts
            with file://.
    """
    check_no_file_scheme(str(path))
    if (
        "://" not in str(path)
        and os.path.exists(path)
        and not stat.S_ISREG(os.stat(path).st_mode)
    ):
        raise InputError(
            f"{path} is a pipe or a device. Copy its content to a file, and give that "
            "file."
        )


def check_no_file_scheme(path: str) -> None:
    """Checks that a path does not start with file://; local paths are recognized by their form.

    Raises:
        InputError: It does.
    """
    if path.startswith("file://"):
        raise InputError(f"Give the local path without file://. Received: {path}.")


def check_file_system(path: str) -> None:
    """Checks that TensorFlow knows the file system of a path such as gs://bucket/run.

    Raises:
        InputError: It does not, or the path starts with file://.
    """
    check_no_file_scheme(path)
    scheme, separator, _ = path.partition("://")
    if not separator:
        return
    from tensorflow.io import gfile

    known = gfile.get_registered_schemes()
    if scheme not in known:
        raise InputError(
            f"{path} is in a file system that TensorFlow does not know. Give a local "
            "path, or one of "
            f"{', '.join(f'{each}://' for each in sorted(known) if each)}."
        )


def is_inside(path: str, folder: str) -> bool:
    """Returns whether a path is a folder, or something in it, also through links."""
    one, two = (
        each if "://" in each else os.path.realpath(each) for each in (path, folder)
    )
    return f"{one.rstrip('/')}/".startswith(f"{two.rstrip('/')}/")


def check_plain_name(name: str, source: str) -> None:
    """Checks that a name in a file of a checkpoint is that of a file or folder next to it.

    Args:
        name: The name.
        source: The file that contains the name, for the message.

    Raises:
        InputError: The name is empty or a path.
    """
    if name in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
        raise InputError(
            f"{source} names the file {name!r:.80}. Only names without a folder are "
            "read, because all files of a checkpoint are in one folder."
        )
