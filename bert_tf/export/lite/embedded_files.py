"""The files in a TFLite file: a ZIP archive at its end, which TFLite ignores.

MediaPipe's tasks read vocabulary and labels from such an archive.
"""

import io
import zipfile
from collections.abc import Mapping

from bert_tf.errors import InputError

_DATE = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # the first that ZIP can represent, so that equal files are equal


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


def read_files(path: str, content: bytes, *names: str) -> tuple[bytes, list[bytes]]:
    """Separates a TFLite file from the files that it contains, whose checksums ZIP checks.

    Args:
        path: The path of the TFLite file, for messages.
        content: Its content.
        *names: The names of files.

    Returns:
        The model, that is, the bytes before the archive, and the content of each file.

    Raises:
        InputError: The file is damaged, or bert-tf did not write it.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = min(each.header_offset for each in archive.infolist())
            return content[:size], [archive.read(name) for name in names]
    except (zipfile.BadZipFile, LookupError, ValueError, EOFError, OSError) as error:
        raise InputError(
            f"{path} contains no {names[0]}: it is not a TFLite file of bert-tf, or it "
            "is damaged. Export the model again with --format=tflite."
        ) from error
