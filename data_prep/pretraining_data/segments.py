"""Cuts the input into segments of whole documents.

A segment has about `segment_bytes` of text, and is tokenized and paired as one unit of
work. A segment consists of pieces (see `Piece`). The places of the cuts depend on the
input and on `segment_bytes`, not on the number of workers.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from bert_tf.data_prep.corpus.formats import UNITS, line_number, read_chunks
from bert_tf.data_prep.corpus.seekable_files import SeekableFile
from bert_tf.data_prep.corpus.tfds_splits import TfdsSplit
from bert_tf.data_prep.pretraining_data.settings import RecordsConfig
from bert_tf.errors import InputError
from bert_tf.storage.files import explain_read_errors, gfile

# A document must fit in memory together with the segments that supply random next
# sentences.
MAX_DOCUMENT_BYTES = 8 << 20
# The end of a document: in a text file, the line feed of the last line and the blank
# line after it; in other files, a line feed.
_BLANK_LINE = re.compile(
    rb"\n(?:[ \t\r\f\v\x1c-\x1f]|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]"
    rb"|\xe2\x81\x9f|\xe3\x80\x80)*\n"  # all characters that `str.strip` removes
)
_LINE_END = re.compile(rb"\n")
_LONGEST_BLANK_LINE = 256


@dataclasses.dataclass(frozen=True)
class Piece:
    """Bytes [start, end) of a file, or examples [start, end) of a split."""

    file: SeekableFile
    start: int
    end: int


Segment = tuple[Piece, ...]


def tfds_split(config: RecordsConfig) -> TfdsSplit:
    """Opens the data set of `config.tfds_name`."""
    return TfdsSplit(config.tfds_name, config.tfds_data_dir, config.text_feature)


def cut(config: RecordsConfig, files: Sequence[SeekableFile]) -> list[Segment]:
    """Cuts the input into segments of whole documents.

    If no blank line ends the last document of a text file, the document continues in
    the next file, as in google-research/bert. If `break_documents_at_files` is true,
    the end of the file ends the document. Only the bytes around the cuts are read.

    Args:
        config: The size of a segment. If `tfds_name` is not empty, that data set of
            tensorflow-datasets is cut instead of the files.
        files: The files in order. Not used if a data set is cut.

    Raises:
        InputError: A file cannot be read, or a document has more than
            `MAX_DOCUMENT_BYTES`.
    """
    if config.tfds_name:
        return _cut_split(config)

    # A segment may have pieces of several files. It ends at the first end of a document
    # after `segment_bytes`.
    pieces: list[Piece] = []
    segments: list[Segment] = []
    size = 0
    for file in files:
        start, total = 0, _size(file.path)
        while start < total:
            least = start + max(config.segment_bytes - size, 0)
            end = _document_end(file, least) if least < total else None
            pieces.append(Piece(file, start, total if end is None else end))
            size += pieces[-1].end - start
            start = pieces[-1].end
            if size > config.segment_bytes + MAX_DOCUMENT_BYTES:
                raise _too_large(config, pieces)
            if end is not None or (
                config.documents_end_at_files and size >= config.segment_bytes
            ):
                segments.append(tuple(pieces))
                pieces, size = [], 0
    return [*segments, tuple(pieces)] if pieces else segments


def sizes(config: RecordsConfig, segments: Iterable[Segment]) -> tuple[int, ...]:
    """Returns the approximate number of bytes of text in each segment."""
    if config.tfds_name:
        return tuple(config.segment_bytes for _ in segments)
    return tuple(
        sum(piece.end - piece.start for piece in segment) for segment in segments
    )


def _size(path: str) -> int:
    with explain_read_errors(path):
        return int(gfile().stat(path).length)


def _document_end(file: SeekableFile, start: int) -> int | None:
    """Returns the end of the first document that ends at or after the byte `start`.

    Returns None if that document ends at the end of the file or is too large.
    """
    # The search starts at the byte before `start`, because that byte may be the line
    # feed before a blank line. If `start` is 0, there is no such byte, and the search
    # starts with an inserted line feed.
    start -= 1
    window, searched = bytearray(b"" if start >= 0 else b"\n"), 0
    pattern = _document_end_pattern(file)
    for chunk in read_chunks(file.path, max(start, 0), start + MAX_DOCUMENT_BYTES + 1):
        window += chunk
        if match := pattern.search(window, max(searched - _LONGEST_BLANK_LINE, 0)):
            return start + match.end()
        searched = len(window)
    return None


def _document_end_pattern(file: SeekableFile) -> re.Pattern[bytes]:
    return _BLANK_LINE if file.format == "text" else _LINE_END


def _too_large(config: RecordsConfig, pieces: Sequence[Piece]) -> InputError:
    """Returns an error with the line at which the last document in `pieces` starts."""
    file, start = pieces[0].file, pieces[0].start
    for piece in pieces:
        end = min(piece.end, piece.start + config.segment_bytes)
        text = b"\n" + b"".join(read_chunks(piece.file.path, piece.start, end))
        for match in _document_end_pattern(piece.file).finditer(text):
            file, start = piece.file, piece.start + match.end() - 1
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
