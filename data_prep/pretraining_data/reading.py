"""From input files to sentences, segment by segment.

A segment is a run of whole documents of about `segment_bytes`; it is the unit that is read,
tokenized and paired, and no more than a few are ever held. Where segments end depends on the input
alone.

Imports `errors`; TensorFlow inside functions.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from data_prep.pretraining_data.settings import RecordsConfig

MAX_DOCUMENT_BYTES = 64 << 20
_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_LINE_END = re.compile(rb"\n")
_LONGEST_BLANK_LINE = 256
_WINDOW_BYTES = 1 << 18


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
        InputError: No text, or a document of more than `MAX_DOCUMENT_BYTES`.
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
            _check_size(size, config, pieces)
            if end is not None or (_breaks(config) and size >= config.segment_bytes):
                segments.append(tuple(pieces))
                pieces, size = [], 0
    return [*segments, tuple(pieces)] if pieces else segments


def _breaks(config: RecordsConfig) -> bool:
    return config.break_documents_at_files or config.input_format != "text"


def _check_size(size: int, config: RecordsConfig, pieces: Sequence[Piece]) -> None:
    if size > config.segment_bytes + MAX_DOCUMENT_BYTES:
        raise InputError(
            f"{pieces[-1].path} has no blank line in {MAX_DOCUMENT_BYTES >> 20} MiB of text. "
            "Separate the documents by blank lines."
        )


def _size(path: str) -> int:
    import tensorflow as tf

    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder; name its files, such as {path.rstrip('/')}/*.txt.")
    return int(tf.io.gfile.stat(path).length)


def _document_end(path: str, start: int, config: RecordsConfig) -> int | None:
    """Where the first document that ends at or behind `start` ends, or None at the file's end."""
    import tensorflow as tf

    # From the byte before: the line break in front of a blank line may be just there.
    start, window, searched = max(start - 1, 0), bytearray(), 0
    pattern = _LINE_END if config.input_format == "jsonl" else _BLANK_LINE
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(start)
        while len(window) < MAX_DOCUMENT_BYTES:
            more = file.read(_WINDOW_BYTES)
            if not more:
                return None
            window += more
            if found := pattern.search(window, max(searched - _LONGEST_BLANK_LINE, 0)):
                return start + found.end()
            searched = len(window)
    return None


# Reading a segment ----------------------------------------------------------------------------


def read(config: RecordsConfig, segment: Segment) -> tuple[list[str], np.ndarray]:
    """The sentences of a segment and which document each is in.

    Args:
        config: Format, and whether to split sentences.
        segment: From `cut`.

    Returns:
        N sentences, none of them empty, and int64 [N] document numbers, not decreasing.

    Raises:
        InputError: A line that is not UTF-8, or not JSON with the text where it must be.
    """
    if config.input_format == "tfds":
        texts = _dataset_texts(config, segment)
    elif config.input_format == "jsonl":
        texts = [text for piece in segment for text in _json_texts(config, piece)]
    else:
        join = "\n\n" if config.break_documents_at_files else ""
        texts = [join.join(_lines_of(piece) for piece in segment)]
    lines = [[line.strip() for line in text.split("\n")] for text in texts]
    sentences = [line for text in lines for line in text if line]
    blank = np.array([not line for text in lines for line in text], bool)
    if config.input_format == "text":
        documents = np.cumsum(blank)[~blank]
    else:
        # Each text is a document, also over its blank lines.
        documents = np.repeat(np.arange(len(lines)), [len(text) for text in lines])[~blank]
    return (
        split_sentences(sentences, documents)
        if config.split_sentences
        else (
            sentences,
            documents,
        )
    )


def _lines_of(piece: Piece) -> str:
    text = _decode(piece)
    return text if text.endswith("\n") else text + "\n"


def _bytes_of(piece: Piece) -> bytes:
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(piece.path, "rb") as file:
            file.seek(piece.start)
            return bytes(file.read(piece.end - piece.start))
    except tf.errors.OpError as error:
        raise InputError(f"{piece.path} cannot be read: {error.message}.") from error


def _decode(piece: Piece) -> str:
    raw = _bytes_of(piece)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = _line_number(piece, error.start)
        raise InputError(
            f"{piece.path} is not UTF-8: byte 0x{raw[error.start]:02x} in line {line}. "
            "Convert it first."
        ) from error


def _line_number(piece: Piece, position: int) -> int:
    """Line of the file, from 1, that holds the byte at this position of the piece."""
    before, line = piece.start + position, 1
    for start in range(0, before, _WINDOW_BYTES):
        end = min(start + _WINDOW_BYTES, before)
        line += _bytes_of(Piece(piece.path, start, end)).count(b"\n")
    return line


def _json_texts(config: RecordsConfig, piece: Piece) -> Iterator[str]:
    position = 0
    for line in _bytes_of(piece).split(b"\n"):
        if line.strip():
            try:
                text = json.loads(line.decode("utf-8"))[config.text_feature]
            except (ValueError, KeyError, TypeError):
                text = None
            if not isinstance(text, str):
                raise InputError(
                    f"Line {_line_number(piece, position)} of {piece.path} is not a JSON object "
                    f'with a text under "{config.text_feature}" (--text_feature names the key).'
                )
            yield text
        position += len(line) + 1


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


def _dataset_texts(config: RecordsConfig, segment: Segment) -> list[str]:
    builder, split = _dataset(config)
    texts = []
    for piece in segment:
        part = builder.as_dataset(split=f"{split}[{piece.start}:{piece.end}]", shuffle_files=False)
        texts += [
            example[config.text_feature].decode("utf-8", "replace")
            for example in part.as_numpy_iterator()
        ]
    return texts
