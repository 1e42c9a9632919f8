"""Text from what a user has: text files, .gz, TFRecords, tensorflow-datasets.

It comes in blocks of bounded size, however long its lines are, so that memory is bounded too.
Imports `errors` and `files`; TensorFlow inside functions.
"""

import contextlib
import dataclasses
import gzip
import itertools
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError, plain_message

BLOCK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16
# CJK unified ideographs and extension A: words of their own by the rules.
_IDEOGRAPH = re.compile(
    rb"\xe3[\x90-\xbf][\x80-\xbf]|\xe4[\x80-\xb6\xb8-\xbf][\x80-\xbf]|[\xe5-\xe9][\x80-\xbf]{2}"
)
_LONGEST_REASON = 200
_RECORD_ENDINGS = (".tfrecord", ".tfrecords", ".tf_record", ".record")


@dataclasses.dataclass(frozen=True)
class Block:
    """A stretch of text.

    Attributes:
        text: Less than 3 MiB, of any lines and parts of lines.
        source: The file or data set it is from.
        line: Number of its first line, from 1; of a record, where each is one.
    """

    text: bytes
    source: str
    line: int


@dataclasses.dataclass(frozen=True)
class TextSource:
    """Where the text is.

    Attributes:
        input_file: Comma list of globs: text files, a text a line, or TFRecords of
            `tf.train.Example` (by the ending, .tfrecord or .tf_record); either may end in .gz.
        tfds_name: Name of a tensorflow-datasets data set and its split, such as
            "lm1b:train"; instead of `input_file`.
        text_feature: The feature that holds the text, in TFRecords and tensorflow-datasets.
        tfds_data_dir: Folder of prepared tensorflow-datasets, or None for its default.
    """

    input_file: str | None = None
    tfds_name: str | None = None
    text_feature: str = "text"
    tfds_data_dir: str | None = None

    def __post_init__(self) -> None:
        if bool(self.input_file) == bool(self.tfds_name):
            raise InputError("Give either input_file or tfds_name, one of the two.")


def blocks(source: TextSource) -> tuple[Iterator[Block], int | None]:
    """The text in blocks of about 1 MiB, in the order of the files.

    Args:
        source: Where it is.

    Returns:
        The blocks, and the size of the text in bytes if it is known. Every file is looked at
        before the first block.

    Raises:
        InputError: Nothing is there, it cannot be read, or it has no such feature. Also while the
            blocks are read.
    """
    if source.tfds_name:
        return _from_tfds(source, source.tfds_name), None
    paths = files.expand_globs(source.input_file or "")
    for path in paths:
        _check(path, source.text_feature)
    plain = not any(path.endswith(".gz") or _is_records(path) for path in paths)
    return (block for path in paths for block in _from_file(path, source.text_feature)), sum(
        map(_size, paths)
    ) if plain else None


def cut_into_blocks(chunks: Iterable[bytes], source: str) -> Iterator[Block]:
    """Cuts text where no word is, whatever the lengths of its lines.

    That is behind a blank or a line feed; where 1 MiB has none, behind an ideograph; where it has
    none of these either, anywhere between two characters.

    Args:
        chunks: The text, in pieces of any size.
        source: Name of the file or data set.
    """
    line, rest = 1, bytearray()
    for chunk in chunks:
        for at in range(0, len(chunk), BLOCK_BYTES):
            rest += chunk[at : at + BLOCK_BYTES]
            if len(rest) < BLOCK_BYTES:
                continue
            end = _end_of_block(rest)
            yield Block(bytes(rest[:end]), source, line)
            line += rest.count(b"\n", 0, end)
            del rest[:end]
    if rest:
        yield Block(bytes(rest), source, line)


def _end_of_block(text: bytearray) -> int:
    end = max(text.rfind(blank) for blank in b" \t\r\n") + 1
    if not end:
        for match in _IDEOGRAPH.finditer(text, len(text) - _TAIL_BYTES):
            end = match.end()
    if not end:
        starts = (at for at in range(len(text) - 1, len(text) - 5, -1) if text[at] & 0xC0 != 0x80)
        end = next(starts, len(text))
    return end


def _size(path: str) -> int:
    import tensorflow as tf

    return tf.io.gfile.stat(path).length


def _is_records(path: str) -> bool:
    name = os.path.basename(path).removesuffix(".gz")
    return name.endswith(_RECORD_ENDINGS) or ".tfrecord-" in name or ".tf_record-" in name


def _check(path: str, feature: str) -> None:
    """Looks at the start of a file.

    Raises:
        InputError: It is not what its name says, has no such feature, or is not UTF-8 by its mark.
    """
    import tensorflow as tf

    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder. Give the files in it: {path.rstrip('/')}/*")
    if _is_records(path):
        for features in itertools.islice(_records(path), 1):
            if not features[feature].bytes_list.value:
                raise InputError(
                    f"{path} has no text in a feature {feature!r}. It has: "
                    f"{', '.join(sorted(features))}."
                )
        return
    files.check_byte_order_mark(path, next(_chunks(path), b""))


def _from_file(path: str, feature: str) -> Iterator[Block]:
    if not _is_records(path):
        return cut_into_blocks(_chunks(path), path)
    texts = (text for record in _records(path) for text in record[feature].bytes_list.value)
    return cut_into_blocks(map(_as_line, texts), path)


def _as_line(text: bytes) -> bytes:
    """A record as one line, so that the number of a line is that of the record."""
    return text.replace(b"\n", b" ") + b"\n"


def _chunks(path: str) -> Iterator[bytes]:
    import tensorflow as tf

    with _named(path), tf.io.gfile.GFile(path, "rb") as file:
        text = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
        while chunk := text.read(BLOCK_BYTES):
            yield chunk


def _records(path: str) -> Iterator[Any]:
    """The features of each record."""
    import tensorflow as tf

    compression = "GZIP" if path.endswith(".gz") else ""
    with _named(path):
        for record in tf.data.TFRecordDataset(path, compression).as_numpy_iterator():
            yield tf.train.Example.FromString(record).features.feature


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Names the file in what goes wrong while it is read."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        yield
    except (tf.errors.OpError, OSError, EOFError, zlib.error, DecodeError) as error:
        message = plain_message(error) if isinstance(error, tf.errors.OpError) else str(error)
        raise InputError(
            f"{path} cannot be read as its name says (.gz is compressed, .tfrecord holds records): "
            f"{message}."
        ) from error


def _from_tfds(source: TextSource, name: str) -> Iterator[Block]:
    import tensorflow_datasets as tfds

    name, _, split = name.partition(":")
    try:
        dataset = tfds.load(
            name, split=split or "train", data_dir=source.tfds_data_dir, shuffle_files=False
        )
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise InputError(f"tensorflow-datasets cannot load {name}: {_short(error)}") from error
    spec = dataset.element_spec
    texts = sorted(key for key in spec if getattr(spec[key], "dtype", None) == "string")
    if source.text_feature not in texts:
        raise InputError(
            f"{name} has no text in a feature {source.text_feature!r}. It has: {', '.join(texts)}. "
            f"Set text_feature."
        )
    dataset = dataset.map(lambda example: example[source.text_feature])
    return cut_into_blocks(map(_as_line, dataset.as_numpy_iterator()), name)


def _short(error: Exception) -> str:
    """The first line: behind it tensorflow-datasets lists all that it has."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ..."
