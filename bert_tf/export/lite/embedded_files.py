"""The files in a TFLite file: a ZIP archive at its end, which TFLite ignores.

MediaPipe's tasks read vocabulary and labels from such an archive.
"""

import io
import zipfile
from collections.abc import Mapping

from bert_tf import files
from bert_tf.errors import InputError

FACTS_FILE = "bert_tf.json"
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that ZIP can represent, so that equal files are equal


def with_files(model: bytes, embedded: Mapping[str, bytes]) -> bytes:
    """Returns a TFLite file with other files appended, without compression.

    Args:
        model: A TFLite file without an archive.
        embedded: The content of each file, by name.
    """
    buffer = io.BytesIO(model)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name, content in embedded.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
    return buffer.getvalue()


def read_files(path: str) -> dict[str, bytes]:
    """Returns the files that a TFLite file contains, by name.

    Raises:
        InputError: The file is missing, or bert-tf did not write it.
    """
    files.check_is_file(path)
    source = io.BytesIO(files.read_bytes(path)) if "://" in path else path
    try:
        with zipfile.ZipFile(source) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
    except zipfile.BadZipFile:
        found = {}
    if FACTS_FILE not in found:
        raise InputError(
            f"{path} contains no {FACTS_FILE}: it is not a TFLite file of bert-tf, or it is "
            "damaged. Export the model again with --format=tflite."
        )
    return found
