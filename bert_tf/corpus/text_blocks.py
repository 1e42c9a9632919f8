"""Reads the input of vocabulary training in blocks of bounded size.

`DocumentFilter` keeps every tenth document of a text, or all other documents.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from bert_tf.config_fields import documented, option
from bert_tf.corpus import sources, text_formats
from bert_tf.errors import InputError
from bert_tf.storage import files
from bert_tf.storage.paths import check_output_file
from bert_tf.tokenization.vocabulary import check_casing_file

BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Block:
    """A part of the input text.

    Attributes:
        text: Less than 3 MiB of UTF-8; may begin and end inside a line.
        line: Number, from 1, of the line of `source` in which the text begins. In other
            formats than text, each document counts as one line.
    """

    text: bytes
    source: str
    line: int


@documented
@dataclasses.dataclass(frozen=True)
class TextSource:
    """The files, or the data set of tensorflow-datasets, to read text from.

    Raises:
        InputError: Neither `input_file` nor `tfds_name` is given, or both are given.
    """

    input_file: str | None = option(
        None, 'Comma-separated list of globs; "-" is standard input.', is_path=True
    )
    input_format: str = option(
        "auto",
        "Format of the files. auto: determined by the ending of each file name "
        "(.jsonl, .tfrecord, .parquet, also with .gz or .bz2; all other endings are "
        "text), and wikiextractor for text files that begin with <doc id=.",
        choices=("auto", *text_formats.FORMATS),
    )
    tfds_name: str | None = option(
        None,
        "Data set and split of tensorflow-datasets, such as lm1b:train, instead of "
        "input_file.",
    )
    text_feature: str = option(
        "text",
        "JSON key, tf.train.Example feature or Parquet column that holds the text; "
        "not used for text files.",
    )
    tfds_data_dir: str | None = option(
        None,
        "Folder of prepared tensorflow-datasets. If not given, the default folder of "
        "tensorflow-datasets.",
        is_path=True,
    )

    def __post_init__(self) -> None:
        if bool(self.input_file) == bool(self.tfds_name):
            raise InputError("Give either input_file or tfds_name, one of the two.")


class TextCounter:
    """Counts documents and sentences (lines that are not blank), as record creation does."""

    documents = sentences = 0
    _before = _current = False  # whether the last two lines have text

    def counted(self, texts: Iterable[bytes], documents: bool) -> Iterator[bytes]:
        """Counts and yields texts: whole documents if `documents`, else parts of a text file."""
        self._before = (self._before or self._current) and not documents
        self._current = False
        for text in texts:
            lines = text.split(b"\n")
            if documents:
                lines = [*filter(bytes.strip, lines), b"", b""]
            for number, line in enumerate(lines):
                self._count(line, is_next=number > 0)
            yield text

    def _count(self, line: bytes, is_next: bool) -> None:
        """Counts a new line if `is_next`; otherwise, `line` continues the previous line."""
        if is_next:
            self._before = self._current
            self._current = False
        if not self._current and line.strip():
            self._current = True
            self.sentences += 1
            self.documents += not self._before


def read_blocks(
    source: TextSource, output_file: str = "", counter: TextCounter | None = None
) -> tuple[Iterator[Block], int | None]:
    """Reads the text in blocks of about 1 MiB, in the order of the files.

    The start of every file is checked before the first block is read. `counter` counts
    the documents and sentences while the text is read. `output_file` is the vocabulary
    that the caller will write. If an input file is this vocabulary or the file with its
    casing, an `InputError` is raised.

    Returns:
        The blocks, and the size of the text in bytes (None if it is not known).
    """
    feature = source.text_feature
    formats = {}
    counter = counter or TextCounter()
    if source.input_file:
        formats = text_formats.input_files(
            source.input_file, source.input_format, feature, True
        )

    # Neither the vocabulary nor the file with its casing may be an input.
    if output_file:
        check_output_file(output_file, formats)
        check_casing_file(output_file, formats)
    if source.tfds_name:
        split = sources.TfdsSplit(source.tfds_name, source.tfds_data_dir, feature)
        texts = counter.counted(split.texts(), True)
        return cut_into_blocks(map(_as_line, texts), source.tfds_name), None

    # The size is known for plain text only: other files are unpacked as they are read.
    plain = all(
        file_format == "text"
        and not path.endswith(tuple(text_formats.PACKED))
        and not text_formats.is_pipe(path)
        for path, file_format in formats.items()
    )
    size = sum(files.gfile().stat(path).length for path in formats) if plain else None
    blocks = (
        block
        for path, file_format in formats.items()
        for block in cut_into_blocks(_chunks(path, file_format, source, counter), path)
    )
    return blocks, size


def _chunks(
    path: str, file_format: str, source: TextSource, counter: TextCounter
) -> Iterable[bytes]:
    if file_format == "text":
        return counter.counted(text_formats.read_text(path, source.input_format), False)
    texts = text_formats.read_documents(path, file_format, source.text_feature)
    return map(_as_line, counter.counted(texts, True))


def _as_line(text: bytes) -> bytes:
    """Joins the lines of a document, so that line numbers are document numbers."""
    return text.replace(b"\n", b" ") + b"\n"


def cut_into_blocks(chunks: Iterable[bytes], source: str) -> Iterator[Block]:
    """Cuts a text, given in chunks of any size, into blocks, between words if possible.

    Each block ends after a space, tab or line break. If 1 MiB of text has none of
    these, the block ends between any two characters.
    """
    line = 1
    rest = bytearray()
    for chunk in chunks:
        for start in range(0, len(chunk), BLOCK_BYTES):
            rest += chunk[start : start + BLOCK_BYTES]
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
        starts = (
            at
            for at in range(len(text) - 1, len(text) - 5, -1)
            if text[at] & 0xC0 != 0x80
        )
        end = next(starts, len(text))
    return end


# The last of each ten documents is held out.
DOCUMENTS_PER_HELD_OUT = 10


class DocumentFilter(TextCounter):
    """Keeps every tenth document of a text if `held_out`, else all other documents.

    In a text file, a blank line ends a document, and so does the end of the file. The
    lines of dropped documents become empty, so that the line numbers do not change. The
    attribute `documents` counts all documents.
    """

    def __init__(self, held_out: bool) -> None:
        self._held_out = held_out

    def counted(self, texts: Iterable[bytes], documents: bool) -> Iterator[bytes]:
        """Yields the texts of a file, with empty lines in place of dropped documents."""
        if documents:
            for text in texts:
                self.documents += 1
                yield text if self._is_kept() else b""
            return

        self._before = self._current = False
        for text in texts:
            kept = []
            for number, line in enumerate(text.split(b"\n")):
                self._count(line, is_next=number > 0)
                kept.append(line if self._is_kept() else b"")
            yield b"\n".join(kept)

    def _is_kept(self) -> bool:
        return (self.documents % DOCUMENTS_PER_HELD_OUT == 0) == self._held_out
