"""Reads and writes files with one word and its tag on each line, as in the CoNLL shared tasks.

Each line has the same columns, separated by tabs or by blanks. An empty line, or a line of only
white space, ends a sentence. A line whose first column is -DOCSTART- starts a document. There are
no comments: "#" is a word.
"""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator

from bert_tf.errors import InputError
from bert_tf.tasks import tables
from bert_tf.tasks.ner.ner_examples import (
    SKIPPED,
    MalformedSentenceError,
    NerExample,
    check_tag,
    join_documents,
)

ALONE = "sentences before the first -DOCSTART- line, without document context"
_DOCUMENT_MARK = re.compile(r"-DOCSTART-(\s|$)")


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of the words and of the tags.

    Attributes:
        token_column: Column of the words, from 0; -1 is the last column.
        label_column: Column of the tags, from 0; -1 is the last column. A file to predict that does
            not have this column has no tags.
    """

    token_column: int = 0
    label_column: int = -1


@dataclasses.dataclass(frozen=True)
class Layout:
    """The form of the lines of a file.

    Attributes:
        separator: A tab or a blank. Several blanks count as one.
        width: The number of columns.
        token: The index of the column of the words.
        label: The index of the column of the tags; None if the file has no tags.
    """

    separator: str
    width: int
    token: int
    label: int | None

    def fields(self, line: str) -> list[str]:
        """Returns the columns of a line."""
        return _fields(line, self.separator)

    def with_column(self, line: str, value: str) -> str:
        """Returns a line with one more column at the end; a file of one column gets a tab."""
        if self.separator == "\t":
            return f"{line}\t{value}"
        separator = "\t" if self.width == 1 else " "
        return f"{line.rstrip(' ')}{separator}{value}"


@dataclasses.dataclass(frozen=True)
class SentenceLines:
    """A sentence in a file.

    Attributes:
        number: The number of the first line, from 1.
        lines: The lines with the words.
        before: The lines before them: empty lines, and marks of documents.
        after: The lines after them, for the last sentence of the file.
    """

    number: int
    lines: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...] = ()

    @property
    def starts_document(self) -> bool:
        """Whether a mark of a document precedes the sentence."""
        return any(map(_DOCUMENT_MARK.match, self.before))


def read_examples(
    path: str,
    kind: str,
    columns: Columns,
    scheme: str | None,
    document_context: bool,
    counts: Counter[str],
) -> Iterator[NerExample]:
    """Yields the sentences of a file, in their order.

    Only one document is in memory at a time. A sentence before the first mark of a document is a
    document of its own.

    Args:
        path: The file.
        kind: "train", "dev" or "test". A malformed sentence of a train split is skipped, and test
            files need no tags.
        columns: The columns of the words and of the tags.
        scheme: The scheme of the tags, or None to accept the tags of all schemes.
        document_context: Whether sentences get their documents.
        counts: Receives the number of skipped sentences, and of sentences without a document.

    Raises:
        InputError: The file is missing or is not UTF-8, a column does not exist, or a sentence of a
            dev or test split is malformed: a line has more or fewer columns than the others, a word
            is empty, or a tag is malformed.
    """
    layout: Layout | None = None
    document: list[NerExample] = []
    in_document = False
    for sentence in _sentences(path):
        layout = layout or _layout_of(sentence.lines[0], path, columns, needs_tags=kind != "test")
        if document_context and sentence.starts_document:
            yield from join_documents(document)
            document, in_document = [], True
        try:
            example = _parse(sentence, layout, scheme, path)
        except MalformedSentenceError:
            if kind != "train":
                raise
            counts[SKIPPED] += 1
            continue
        if in_document:
            document.append(example)
        else:
            if document_context:
                counts[ALONE] += 1
            yield example
    yield from join_documents(document)


def _layout_of(line: str, path: str, columns: Columns, needs_tags: bool) -> Layout:
    """Returns the form of the lines of a file.

    Args:
        line: The first line with a word.
        path: The file.
        columns: The columns of the words and of the tags.
        needs_tags: Whether the column of the tags must exist. Otherwise, a file without this column
            has no tags.

    Raises:
        InputError: A column does not exist.
    """
    separator = "\t" if "\t" in line else " "
    width = len(_fields(line, separator))
    token = _index(columns.token_column, width)
    label = _index(columns.label_column, width)
    if token is None:
        raise InputError(
            f"{path} has {_num_columns(width)}. token_column must be from {-width} to {width - 1}. "
            f"Received: {columns.token_column}."
        )
    label = None if label == token else label
    if label is None and needs_tags:
        raise InputError(
            f"{path} has {_num_columns(width)}, of which column {token} has the words, and no "
            f"column for tags. Received: label_column={columns.label_column}. Give the index of "
            "another column, from 0 or, from the end, from -1."
        )
    return Layout(separator, width, token, label)


def _index(column: int, width: int) -> int | None:
    """Returns the index of a column from 0, or None if there is no such column."""
    index = column + width if column < 0 else column
    return index if 0 <= index < width else None


def _num_columns(width: int) -> str:
    return f"{width} column{'' if width == 1 else 's'}"


def _fields(line: str, separator: str) -> list[str]:
    # Other white space, such as U+00A0, may be part of a word.
    return line.split("\t") if separator == "\t" else [f for f in line.split(" ") if f]


def _sentences(path: str) -> Iterator[SentenceLines]:
    """Yields the sentences of a file. All of its lines are in one of them."""
    complete: SentenceLines | None = None
    number = 0
    lines: list[str] = []
    before: list[str] = []
    # The last item ends the last sentence, and is no line of the file.
    numbered: Iterator[tuple[int, str | None]] = tables.lines(path)
    for line_number, line in itertools.chain(numbered, [(0, None)]):
        if line is not None and line.strip() and not _DOCUMENT_MARK.match(line):
            number = number if lines else line_number
            lines.append(line)
            continue
        if lines:
            if complete:
                yield complete
            complete = SentenceLines(number, tuple(lines), tuple(before))
            lines, before = [], []
        if line is not None:
            before.append(line)
    if complete:
        yield dataclasses.replace(complete, after=tuple(before))


def _parse(sentence: SentenceLines, layout: Layout, scheme: str | None, path: str) -> NerExample:
    """Returns a sentence as an example.

    Raises:
        MalformedSentenceError: See `read_examples`.
    """
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate(sentence.lines, start=sentence.number):
        fields, place = layout.fields(line), f"{path}, line {number}"
        if len(fields) != layout.width:
            raise MalformedSentenceError(
                f"{place} has {_num_columns(len(fields))}, and the first line of the file has "
                f"{layout.width}. Received: {line[:60]!r}. Write the same columns in each line."
            )
        if not fields[layout.token]:
            raise MalformedSentenceError(f"{place}: the word is empty. Write a word in each line.")
        words.append(fields[layout.token])
        if layout.label is not None:
            tag = fields[layout.label].strip()
            check_tag(tag, scheme, place)
            tags.append(tag)
    known_tags = None if layout.label is None else tuple(tags)
    return NerExample(tuple(words), known_tags, (sentence, layout), tuple(words))


def render(example: NerExample, tags: list[str]) -> Iterator[str]:
    """Yields the lines of a sentence, with the given tags as one more column at the end.

    Each line of the file gives one line. Lines of only white space become empty. The mark of a
    document gets the tag O if it has as many columns as the other lines, because conlleval reads it
    like them.

    Args:
        example: A sentence that `read_examples` returned.
        tags: A tag for each word.
    """
    sentence, layout = example.origin
    yield from (_render_between(line, layout) for line in sentence.before)
    for line, tag in zip(sentence.lines, tags, strict=True):
        yield layout.with_column(line, tag)
    yield from (_render_between(line, layout) for line in sentence.after)


def _render_between(line: str, layout: Layout) -> str:
    if not line.strip():
        return ""
    return layout.with_column(line, "O") if len(layout.fields(line)) == layout.width else line
