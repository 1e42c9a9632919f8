"""Cuts the input into segments, and reads their documents as token ids.

A segment has about `segment_bytes` of text in whole documents, and is tokenized and
paired as one unit of work. A segment consists of pieces (see `Piece`). The positions of
the cuts depend on the input and on `segment_bytes`, not on the number of workers. The
sentences of a segment are read block by block: only one block is in memory at a time.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf import record_format
from bert_tf.corpus.document_ends import document_end, document_end_pattern
from bert_tf.corpus.sources import SeekableFile, TfdsSplit
from bert_tf.corpus.text_formats import (
    CHUNK_BYTES,
    UNITS,
    line_number,
    read_chunks,
    read_json_texts,
    read_lines,
)
from bert_tf.errors import InputError
from bert_tf.record_creation.records_config import RecordsConfig
from bert_tf.storage.files import explain_read_errors, gfile

# A document must fit in memory together with the segments that supply random next
# sentences.
MAX_DOCUMENT_BYTES = 8 << 20


@dataclasses.dataclass(frozen=True)
class Piece:
    """A range of the input: bytes [start, end) of a file, or examples [start, end) of a split."""

    file: SeekableFile
    start: int
    end: int


Segment = tuple[Piece, ...]


def tfds_split(config: RecordsConfig) -> TfdsSplit:
    """Opens the data set of `config.tfds_name`."""
    return TfdsSplit(config.tfds_name, config.tfds_data_dir, config.text_feature)


def cut(config: RecordsConfig, files: Sequence[SeekableFile]) -> list[Segment]:
    """Cuts the input into segments of whole documents, of about `segment_bytes`.

    If no blank line ends the last document of a text file, the document continues in
    the next file, as in google-research/bert, unless `break_documents_at_files` is
    true. Only the bytes around the cuts are read. If `tfds_name` is not empty, that
    data set of tensorflow-datasets is cut instead of the files. A document of more than
    `MAX_DOCUMENT_BYTES` raises an `InputError`.
    """
    if config.tfds_name:
        return _cut_split(config)

    # A segment may have pieces of several files. It ends at the first end of a document
    # after `segment_bytes`.
    pieces: list[Piece] = []
    segments: list[Segment] = []
    size = 0
    for file in files:
        start = 0
        with explain_read_errors(file.path):
            total = gfile().stat(file.path).length
        while start < total:
            least = start + max(config.segment_bytes - size, 0)
            end = (
                document_end(file, least, MAX_DOCUMENT_BYTES) if least < total else None
            )
            piece = Piece(file, start, total if end is None else end)
            pieces.append(piece)
            size += piece.end - start
            start = piece.end
            if size > config.segment_bytes + MAX_DOCUMENT_BYTES:
                raise _too_large(config, pieces)
            if end is not None or (
                config.documents_end_at_files and size >= config.segment_bytes
            ):
                segments.append(tuple(pieces))
                pieces = []
                size = 0
    return [*segments, tuple(pieces)] if pieces else segments


def sizes(config: RecordsConfig, segments: Iterable[Segment]) -> tuple[int, ...]:
    """Returns the approximate number of bytes of text in each segment."""
    if config.tfds_name:
        return tuple(config.segment_bytes for _ in segments)
    return tuple(
        sum(piece.end - piece.start for piece in segment) for segment in segments
    )


def _too_large(config: RecordsConfig, pieces: Sequence[Piece]) -> InputError:
    """Returns an error with the line at which the last document in `pieces` starts."""
    file = pieces[0].file
    start = pieces[0].start
    for piece in pieces:
        end = min(piece.end, piece.start + config.segment_bytes)
        text = b"\n" + b"".join(read_chunks(piece.file.path, piece.start, end))
        for match in document_end_pattern(piece.file).finditer(text):
            file = piece.file
            start = piece.start + match.end() - 1

    # The message names the place in the file that the user gave.
    limit = f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB, the limit for a document"
    line = line_number(file.path, start)
    if file.format != "text":
        unit = UNITS[file.format].capitalize()
        return InputError(
            f"{unit} {line} of {file.source}, a document, is {limit}. Split it."
        )
    return InputError(
        f"The document that starts in line {line} of {file.source} is {limit}. Are the "
        "blank lines between documents missing? If each file is a document, give "
        "break_documents_at_files=True; else put a blank line before each new document."
    )


def _cut_split(config: RecordsConfig) -> list[Segment]:
    split = tfds_split(config)
    mean_bytes = max(split.num_bytes / max(split.num_examples, 1), 1)
    step = max(int(config.segment_bytes / mean_bytes), 1)
    file = SeekableFile(config.tfds_name, config.tfds_name, "tfds")
    return [
        (Piece(file, start, min(start + step, split.num_examples)),)
        for start in range(0, split.num_examples, step)
    ]


# A block has two parts: N sentences that are not empty, and int64 [N], the document
# number of each sentence. The document numbers are in non-decreasing order.
Block = tuple[list[str], np.ndarray]
# White space of several bytes, such as U+00A0 and U+3000.
_LONG_SPACE = re.compile(r"[^\S\x00-\x7f]")


def read_sentences(config: RecordsConfig, segment: Segment) -> Iterator[Block]:
    """Yields blocks of the sentences of a segment, with their document numbers."""
    number = 0
    for lines in _lines(config, segment):
        blank = np.array([not line for line in lines])
        documents = number + np.cumsum(blank)
        number = documents[-1]
        sentences = [line for line in lines if line]
        documents = documents[~blank]
        if config.split_sentences:
            sentences, documents = split_sentences(sentences, documents)
        yield sentences, documents


def split_sentences(paragraphs: Sequence[str], documents: np.ndarray) -> Block:
    """Splits paragraphs into sentences with tensorflow-text's state-based breaker.

    `documents`, int64 [N], has the document number of each of the N paragraphs.
    """
    if not paragraphs:
        return [], documents
    import tensorflow_text as tf_text

    # After the end of a sentence, the breaker would cut inside of a space of several
    # bytes.
    spaced = [_LONG_SPACE.sub(" ", paragraph) for paragraph in paragraphs]
    sentences = tf_text.StateBasedSentenceBreaker().break_sentences(spaced)
    texts = [text.decode("utf-8").strip() for text in sentences.flat_values.numpy()]
    numbers: np.ndarray = np.repeat(documents, sentences.row_lengths().numpy())
    keep = np.array([bool(text) for text in texts])
    return [text for text in texts if text], numbers[keep]


def _lines(config: RecordsConfig, segment: Segment) -> Iterator[list[str]]:
    """Yields blocks of one or more stripped lines. An empty line ends a document."""
    for piece in segment:
        file = piece.file
        if file.format == "text":
            for lines, _ in read_lines(file.path, piece.start, piece.end, file.source):
                yield [line.strip() for line in lines.removesuffix("\n").split("\n")]
        elif file.format == "tfds":
            texts = tfds_split(config).texts(f"[{piece.start}:{piece.end}]")
            yield from _blocks(text.decode("utf-8", "replace") for text in texts)
        else:
            span = piece.start, piece.end
            yield from _blocks(
                read_json_texts(file.path, config.text_feature, *span, file.source)
            )
        if config.documents_end_at_files:
            yield [""]


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Groups the non-blank lines of texts into blocks, with "" after each text (a document)."""
    lines: list[str] = []
    size = 0
    for text in texts:
        lines += [*filter(None, map(str.strip, text.split("\n"))), ""]
        size += len(text)
        if size >= CHUNK_BYTES:
            yield lines
            lines = []
            size = 0
    if lines:
        yield lines


@dataclasses.dataclass(frozen=True)
class Documents:
    """D documents as flat arrays, with N sentences and T tokens in total.

    Attributes:
        tokens: uint16 or int32 [T], the token ids.
        sentences: int64 [N + 1], the index in `tokens` at which each sentence starts,
            then the end of the last sentence.
        documents: int64 [D + 1], the index in `sentences` at which each document
            starts, then the end of the last document.
        ids: uint64 [D], s * 2**32 + d for the document with the number d in the segment
            with the number s. A document has the same id in every run.
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    ids: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> "Documents":
        """Returns the documents for which `keep`, bool [D], is true."""
        per_document = np.diff(self.documents)
        per_sentence = np.diff(self.sentences)
        sentences: np.ndarray = np.repeat(keep, per_document)
        tokens: np.ndarray = np.repeat(sentences, per_sentence)
        return Documents(
            self.tokens[tokens],
            offsets(per_sentence[sentences]),
            offsets(per_document[keep]),
            self.ids[keep],
        )

    @staticmethod
    def joined(parts: Sequence["Documents"]) -> "Documents":
        """Concatenates several `Documents`."""
        return Documents(
            np.concatenate([part.tokens for part in parts]),
            offsets(np.concatenate([np.diff(part.sentences) for part in parts])),
            offsets(np.concatenate([np.diff(part.documents) for part in parts])),
            np.concatenate([part.ids for part in parts]),
        )


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Returns the cumulative sum of `lengths`, int [n], after a 0: int64 [n + 1]."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def tokenize(
    number: int,
    blocks: Iterable[Block],
    tokenize_batch: Callable[[list[str]], Any],
    vocab_size: int,
) -> Documents:
    """Tokenizes segment `number`, and drops sentences and documents without tokens.

    `tokenize_batch` maps B strings to a ragged int32 tensor [B, None].
    """
    dtype = np.dtype(record_format.ids_dtype(vocab_size))
    parts: list[Any] = [(np.zeros(0, dtype), *np.zeros((2, 0), np.int64))]
    for sentences, documents in blocks:
        if sentences:
            ragged = tokenize_batch(sentences)
            ids = ragged.flat_values.numpy().astype(dtype)
            parts.append((ids, ragged.row_lengths().numpy(), documents))

    # All tokens, and for each sentence its length and the number of its document.
    tokens, length, numbers = map(np.concatenate, zip(*parts, strict=True))
    keep = length > 0
    _, per_document = np.unique(numbers[keep], return_counts=True)
    first_id = np.uint64(number) << np.uint64(32)
    ids = first_id + np.arange(len(per_document), dtype=np.uint64)
    return Documents(tokens, offsets(length[keep]), offsets(per_document), ids)
