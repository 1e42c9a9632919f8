"""From input files to sentences, segment by segment.

A segment is a run of whole documents of about `segment_bytes`; it is the unit that is tokenized and
paired. Its text is read block by block, and no more than a block is ever held. Where segments end
depends on the input alone.

Imports `errors`; TensorFlow inside functions.
"""

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError, plain_message
from data_prep.pretraining_data.settings import RecordsConfig

# What one document may hold: it is paired as a whole, in memory, beside the pool.
MAX_DOCUMENT_BYTES = 8 << 20
_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_BLANK_LINE_OR_START = re.compile(rb"(?:\A|\n)[ \t\r\f\v]*\n")
_LINE_END = re.compile(rb"\n")
_LONGEST_BLANK_LINE = 256
_WINDOW_BYTES = 1 << 18
_BLOCK_BYTES = 1 << 19
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# How files start that are not text.
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd"}

# N sentences, none of them empty, and int64 [N] document numbers, which never decrease.
Block = tuple[list[str], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Piece:
    """Bytes [start, end) of a file; of a tensorflow-datasets split, examples [start, end)."""

    path: str
    start: int
    end: int


Segment = tuple[Piece, ...]


# Cutting the input ----------------------------------------------------------------------------


def cut(config: RecordsConfig, paths: Sequence[str]) -> list[Segment]:
    """Cuts the input into segments of whole documents.

    As in the released program a document runs on over the end of a file, unless
    `break_documents_at_files`. Only the places around the cuts are read.

    Args:
        config: Format and segment size.
        paths: The files in order; for "tfds" not used.

    Raises:
        InputError: A file that is not text, or a document of more than `MAX_DOCUMENT_BYTES`.
    """
    if config.input_format == "tfds":
        return _cut_dataset(config)
    pieces: list[Piece] = []
    segments: list[Segment] = []
    size = 0
    for path in paths:
        start, total = 0, _size(path)
        while start < total:
            least = start + max(config.segment_bytes - size, 0)
            end = _document_end(path, least, config) if least < total else None
            pieces.append(Piece(path, start, total if end is None else end))
            size += pieces[-1].end - start
            start = pieces[-1].end
            if size > config.segment_bytes + MAX_DOCUMENT_BYTES:
                raise _too_large(config, pieces)
            if end is not None or (_breaks(config) and size >= config.segment_bytes):
                segments.append(tuple(pieces))
                pieces, size = [], 0
    return [*segments, tuple(pieces)] if pieces else segments


def sizes(config: RecordsConfig, segments: Iterable[Segment]) -> tuple[int, ...]:
    """About how many bytes of text each segment holds."""
    if config.input_format == "tfds":
        return tuple(config.segment_bytes for _ in segments)
    return tuple(sum(piece.end - piece.start for piece in segment) for segment in segments)


def _breaks(config: RecordsConfig) -> bool:
    return config.break_documents_at_files or config.input_format != "text"


def _size(path: str) -> int:
    import tensorflow as tf

    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder; name its files, such as {path.rstrip('/')}/*.txt.")
    start = _bytes_of(Piece(path, 0, 4))
    for magic, kind in _PACKED.items():
        if start.startswith(magic):
            raise InputError(f"{path} is packed ({kind}), not text. Unpack it first.")
    with _unreadable(path):
        return int(tf.io.gfile.stat(path).length)


def _pattern(config: RecordsConfig, start: int) -> re.Pattern[bytes]:
    """What ends a document, in bytes that start there in their file."""
    if config.input_format == "jsonl":
        return _LINE_END
    return _BLANK_LINE if start else _BLANK_LINE_OR_START


def _document_end(path: str, start: int, config: RecordsConfig) -> int | None:
    """Where the first document that ends at or behind `start` ends, or None at the file's end."""
    import tensorflow as tf

    # From the byte before: the line break in front of a blank line may be just there.
    start, window, searched = max(start - 1, 0), bytearray(), 0
    pattern = _pattern(config, start)
    with _unreadable(path), tf.io.gfile.GFile(path, "rb") as file:
        file.seek(start)
        while len(window) <= MAX_DOCUMENT_BYTES:
            more = file.read(_WINDOW_BYTES)
            if not more:
                return None
            window += more
            if found := pattern.search(window, max(searched - _LONGEST_BLANK_LINE, 0)):
                return start + found.end()
            searched = len(window)
    return None


def _too_large(config: RecordsConfig, pieces: Sequence[Piece]) -> InputError:
    """Says where the last document of the pieces starts."""
    start = Piece(pieces[0].path, pieces[0].start, pieces[0].start)
    room = config.segment_bytes
    for piece in pieces:
        end = min(piece.end, piece.start + room)
        text = _bytes_of(Piece(piece.path, piece.start, end))
        for found in _pattern(config, piece.start).finditer(text):
            start = Piece(piece.path, piece.start + found.end(), end)
        room = max(room - len(text), 0)
    what = f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB, the most that a document may have"
    line = _line_number(start.path, start.start)
    if config.input_format == "jsonl":
        return InputError(f"Line {line} of {start.path}, a document, is {what}. Split it.")
    return InputError(
        f"The document that starts in line {line} of {start.path} is {what}. Is the blank line "
        "between documents missing? If each file is a document, give --break_documents_at_files; "
        "else put blank lines where a new text begins."
    )


# Reading a segment ----------------------------------------------------------------------------


def read(config: RecordsConfig, segment: Segment) -> Iterator[Block]:
    """The sentences of a segment and which document each is in, block by block.

    Args:
        config: Format, and whether to split sentences.
        segment: From `cut`.

    Raises:
        InputError: A line that is not UTF-8, or not JSON with the text where it must be.
    """
    if config.input_format == "text":
        blocks = _text_blocks(config, segment)
    elif config.input_format == "jsonl":
        blocks = _blocks_of_texts(text for piece in segment for text in _json_texts(config, piece))
    else:
        blocks = _blocks_of_texts(_dataset_texts(config, segment))
    for sentences, documents in blocks:
        yield (
            split_sentences(sentences, documents)
            if config.split_sentences
            else (sentences, documents)
        )


def _text_blocks(config: RecordsConfig, segment: Segment) -> Iterator[Block]:
    """A sentence a line; a blank line ends a document."""
    number = 0
    for piece in segment:
        for start, raw in _lines(piece):
            text = _decoded(piece.path, start, raw).removesuffix("\n")
            lines = [line.strip() for line in text.split("\n")]
            blank = np.array([not line for line in lines])
            documents = number + np.cumsum(blank)
            number = int(documents[-1])
            yield [line for line in lines if line], documents[~blank]
        number += config.break_documents_at_files


def _blocks_of_texts(texts: Iterable[str]) -> Iterator[Block]:
    """Each text is a document, also over its blank lines."""
    sentences: list[str] = []
    counts: list[int] = []
    size = first = 0
    for text in texts:
        lines = [line for line in map(str.strip, text.split("\n")) if line]
        sentences += lines
        counts.append(len(lines))
        size += len(text)
        if size >= _BLOCK_BYTES:
            yield sentences, np.repeat(np.arange(first, first + len(counts)), counts)
            first += len(counts)
            sentences, counts, size = [], [], 0
    yield sentences, np.repeat(np.arange(first, first + len(counts)), counts)


def _lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Whole lines, about `_BLOCK_BYTES` at a time, and where in the file they start."""
    import tensorflow as tf

    start, rest = piece.start, b""
    with _unreadable(piece.path), tf.io.gfile.GFile(piece.path, "rb") as file:
        file.seek(start)
        while more := file.read(min(_BLOCK_BYTES, piece.end - start - len(rest))):
            rest += more
            if start == 0 and rest.startswith(_BYTE_ORDER_MARK):
                start, rest = len(_BYTE_ORDER_MARK), rest[len(_BYTE_ORDER_MARK) :]
            if end := rest.rfind(b"\n") + 1:
                yield start, rest[:end]
                start, rest = start + end, rest[end:]
    if rest:
        yield start, rest


@contextlib.contextmanager
def _unreadable(path: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        reason = plain_message(error).split("; ")[-1]
        raise InputError(f"{path} cannot be read: {reason}.") from error


def _bytes_of(piece: Piece) -> bytes:
    import tensorflow as tf

    with _unreadable(piece.path), tf.io.gfile.GFile(piece.path, "rb") as file:
        file.seek(piece.start)
        return bytes(file.read(piece.end - piece.start))


def _decoded(path: str, start: int, raw: bytes) -> str:
    """Bytes of a file, which start there, as text."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = _line_number(path, start + error.start)
        raise InputError(
            f"{path} is not UTF-8: byte 0x{raw[error.start]:02x} in line {line}. Convert it first."
        ) from error


def _line_number(path: str, position: int) -> int:
    """Line of the file, from 1, that holds the byte at this position."""
    line = 1
    for start in range(0, position, _WINDOW_BYTES):
        end = min(start + _WINDOW_BYTES, position)
        line += _bytes_of(Piece(path, start, end)).count(b"\n")
    return line


def _json_texts(config: RecordsConfig, piece: Piece) -> Iterator[str]:
    for start, block in _lines(piece):
        for line in block.split(b"\n"):
            if line.strip():
                yield _json_text(config, piece.path, start, line)
            start += len(line) + 1


def _json_text(config: RecordsConfig, path: str, start: int, line: bytes) -> str:
    decoded = _decoded(path, start, line)
    try:
        text = json.loads(decoded)[config.text_feature]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise InputError(
            f"Line {_line_number(path, start)} of {path} is not a JSON object with a text under "
            f'"{config.text_feature}" (--text_feature names the key).'
        )
    # JSON can name half of a surrogate pair, which is no character; the tokenizer drops U+FFFD.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def split_sentences(
    paragraphs: Sequence[str], documents: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """Splits paragraphs into sentences with tensorflow-text's state-based breaker.

    Args:
        paragraphs: N texts.
        documents: int64 [N], the document each is in.

    Returns:
        The sentences, and the document of each.
    """
    if not paragraphs:
        return [], documents
    import tensorflow_text as tf_text

    sentences = tf_text.StateBasedSentenceBreaker().break_sentences(list(paragraphs))
    texts = [text.decode("utf-8").strip() for text in sentences.flat_values.numpy()]
    numbers: np.ndarray = np.repeat(documents, sentences.row_lengths().numpy())
    keep = np.array([bool(text) for text in texts])
    return [text for text in texts if text], numbers[keep]


# tensorflow-datasets --------------------------------------------------------------------------


def _dataset(config: RecordsConfig) -> tuple[Any, str]:
    import tensorflow_datasets as tfds

    name, _, split = config.tfds_name.partition(":")
    try:
        builder = tfds.builder(name, data_dir=config.tfds_data_dir or None)
    except tfds.core.DatasetNotFoundError as error:
        raise InputError(f"tensorflow-datasets has no data set {name}.") from error
    builder.download_and_prepare()
    split = split or "train"
    if split not in builder.info.splits:
        raise InputError(f"{name} has no split {split}; it has {', '.join(builder.info.splits)}.")
    if config.text_feature not in builder.info.features:
        raise InputError(
            f"{name} has no feature {config.text_feature} (--text_feature); it has "
            f"{', '.join(builder.info.features)}."
        )
    return builder, split


def dataset_identity(config: RecordsConfig) -> dict[str, Any]:
    """What identifies the content of a tensorflow-datasets split, for the manifest.

    Raises:
        InputError: There is no such data set, split or feature.
    """
    builder, split = _dataset(config)
    info = builder.info.splits[split]
    name = builder.info.full_name
    return {"path": config.tfds_name, "name": f"{name}:{split}", "examples": info.num_examples}


def _cut_dataset(config: RecordsConfig) -> list[Segment]:
    builder, split = _dataset(config)
    info = builder.info.splits[split]
    mean_bytes = max(info.num_bytes / max(info.num_examples, 1), 1)
    step = max(int(config.segment_bytes / mean_bytes), 1)
    starts = range(0, info.num_examples, step)
    return [
        (Piece(config.tfds_name, start, min(start + step, info.num_examples)),) for start in starts
    ]


def _dataset_texts(config: RecordsConfig, segment: Segment) -> Iterator[str]:
    builder, split = _dataset(config)
    for piece in segment:
        part = builder.as_dataset(split=f"{split}[{piece.start}:{piece.end}]", shuffle_files=False)
        for number, example in enumerate(part.as_numpy_iterator(), piece.start):
            text = example[config.text_feature]
            if len(text) > MAX_DOCUMENT_BYTES:
                raise InputError(
                    f"Example {number} of {config.tfds_name} is larger than "
                    f"{MAX_DOCUMENT_BYTES >> 20} MiB, the most that a document may have."
                )
            yield text.decode("utf-8", "replace")
