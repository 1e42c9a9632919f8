"""Sources of record creation: splits of tensorflow-datasets, and seekable files.

A seekable file is uncompressed text or JSON lines, which can be read from any position.
All other input, such as packed files and Parquet, is first unpacked to such a file.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping

from bert_tf.corpus import text_formats
from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.tfds_builders import open_builder


class TfdsSplit:
    """A split of a tensorflow-datasets data set, which is downloaded if needed.

    Args:
        tfds_name: Data set and split, such as "lm1b:train". The default split is
            "train".
        data_dir: Folder of prepared data sets; None or "" for the default folder.
        feature: Name of the feature that holds the text.

    Attributes:
        name: Full name of the data set with its version, a colon, and the split.
    """

    def __init__(self, tfds_name: str, data_dir: str | None, feature: str) -> None:
        import tensorflow as tf

        name, _, split = tfds_name.partition(":")
        self._split = split or "train"
        self._feature = feature
        self._builder = open_builder(name, data_dir, prepare=True)
        info = self._builder.info
        if self._split not in info.splits:
            raise InputError(
                f"{name} has no split {split}. It has: {', '.join(info.splits)}."
            )
        texts = [
            key for key, value in info.features.items() if value.tf_dtype == tf.string
        ]
        if feature not in texts:
            raise text_formats.no_text(name, "feature", feature, texts)
        self.name = f"{info.full_name}:{self._split}"
        facts = info.splits[self._split]
        self.num_examples = facts.num_examples
        self.num_bytes = facts.num_bytes

    def texts(self, examples: str = "") -> Iterator[bytes]:
        """Yields the texts of the examples in a slice such as "[10:20]", by default of all."""
        with files.explain_read_errors(self.name):
            data = self._builder.as_dataset(
                split=self._split + examples, shuffle_files=False
            )
            yield from data.map(
                lambda example: example[self._feature]
            ).as_numpy_iterator()


@dataclasses.dataclass(frozen=True)
class SeekableFile:
    """An input file or tensorflow-datasets split, and the file that is read instead.

    Attributes:
        path: The file to read: text if `format` is "text", else JSON lines. For a
            tensorflow-datasets split, the name of the split, such as "lm1b:train".
        source: The input file, for error messages; equal to `path` if the input file
            needs no unpacking.
        format: The format of `source`.
    """

    path: str
    source: str
    format: str


def seekable_files(file_formats: Mapping[str, str], folder: str) -> list[SeekableFile]:
    """Returns a `SeekableFile` for each input file, given by its path and format.

    `folder` is the folder of the unpacked files. This function does not write them;
    `unpack` does.
    """
    inputs = []
    for number, (path, file_format) in enumerate(file_formats.items()):
        is_packed = path.endswith(tuple(text_formats.PACKED))
        is_seekable = file_format in ("text", "jsonl") and not is_packed
        unpacked = os.path.join(folder, f"unpacked-{number:06d}")
        inputs.append(
            SeekableFile(path if is_seekable else unpacked, path, file_format)
        )
    return inputs


def unpack(file: SeekableFile, feature: str) -> None:
    """Writes `file.path`, the unpacked content of `file.source`: text or JSON lines.

    `feature` is the JSON key, `tf.train.Example` feature or Parquet column that holds
    the text. It is also the key in the written JSON lines.
    """
    chunks = (
        text_formats.read_chunks(file.source)
        if file.format in ("text", "jsonl")
        else _as_json_lines(file, feature)
    )
    with (
        files.atomic_replace(file.path) as path,
        files.gfile().GFile(path, "wb") as output,
    ):
        output.write(b"")  # creates the file even if it stays empty
        for chunk in chunks:
            output.write(chunk)


def _as_json_lines(file: SeekableFile, feature: str) -> Iterator[bytes]:
    documents = text_formats.read_documents(file.source, file.format, feature)
    for number, document in enumerate(documents, 1):
        try:
            text = document.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            position = f"{text_formats.UNITS[file.format]} {number}"
            raise text_formats.not_utf8(file.source, position, error) from error
        yield json.dumps({feature: text}, ensure_ascii=False).encode() + b"\n"
