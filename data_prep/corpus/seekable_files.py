"""Uncompressed text or JSON lines files, which can be read from any position.

All other input, such as packed files and Parquet, is first unpacked to such a file.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping

from bert_tf.data_prep.corpus import formats
from bert_tf.storage import files


@dataclasses.dataclass(frozen=True)
class SeekableFile:
    """An input file and the file that record creation reads in its place.

    An object of this class can also stand for a tensorflow-datasets split.

    Attributes:
        path: The file to read: text if `format` is "text", else JSON lines. For a
            tensorflow-datasets split, the name of the split.
        source: The input file, for error messages; equal to `path` if no unpacking is
            needed.
        format: The format of `source`.
    """

    path: str
    source: str
    format: str


def seekable_files(file_formats: Mapping[str, str], folder: str) -> list[SeekableFile]:
    """Returns a seekable file for each input file; does not unpack the input files.

    Args:
        file_formats: A dictionary from the path of each input file to its format.
        folder: The folder of the unpacked files, which `unpack` writes.
    """
    found = []
    for number, (path, file_format) in enumerate(file_formats.items()):
        is_seekable = file_format in ("text", "jsonl") and not path.endswith(
            (*formats.PACKED,)
        )
        unpacked = os.path.join(folder, f"unpacked-{number:06d}")
        found.append(SeekableFile(path if is_seekable else unpacked, path, file_format))
    return found


def unpack(file: SeekableFile, feature: str) -> None:
    """Writes `file.path`, the unpacked content of `file.source`: text or JSON lines.

    Args:
        file: The input file.
        feature: JSON key, `tf.train.Example` feature or Parquet column that holds the
            text; also the key in the written JSON lines.

    Raises:
        InputError: The input file cannot be read, or a document is not valid UTF-8.
    """
    plain = file.format in ("text", "jsonl")
    chunks = (
        formats.read_chunks(file.source) if plain else _as_json_lines(file, feature)
    )
    with (
        files.atomic_replace(file.path) as path,
        files.gfile().GFile(path, "wb") as output,
    ):
        output.write(b"")  # creates the file even if it stays empty
        for chunk in chunks:
            output.write(chunk)


def _as_json_lines(file: SeekableFile, feature: str) -> Iterator[bytes]:
    documents = formats.read_documents(file.source, file.format, feature)
    for number, document in enumerate(documents, 1):
        try:
            text = document.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            place = f"{formats.UNITS[file.format]} {number}"
            raise formats.not_utf8(file.source, place, error) from error
        yield json.dumps({feature: text}, ensure_ascii=False).encode() + b"\n"
