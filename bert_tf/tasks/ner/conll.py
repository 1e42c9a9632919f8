"""Reads and writes files with one word and its tag on each line, such as CoNLL files.

Each line has the same columns, separated by tabs or by blanks. An empty line, or a line
of only white space, ends a sentence; in a file of one column, other white space than
blanks and tabs is a word. A line whose first column is -DOCSTART- starts a document. A
line that begins with "#" is a comment if it has another number of columns than the
other lines, or if it precedes the words of a sentence and has no tag; otherwise "#" is
a word. The first line may have the names of the columns.

A `.csv` file with commas in its first line has a row for each word, after a header
line. Its rows are read like lines with tabs, and the column that identifies sentences
is removed.
"""

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError
from bert_tf.tasks import tables
from bert_tf.tasks.ner.ner_examples import (
    SKIPPED,
    MalformedSentenceError,
    NerExample,
    join_documents,
    read_tag,
)
from bert_tf.tasks.ner.schemes import OUTSIDE, TYPE, Notation, is_tag, types_of
from bert_tf.tasks.splits import RowCounts

ALONE = "sentences before the first -DOCSTART- line, without document context"
COMMENTS = "comments between sentences"
_DOCUMENT_MARK = re.compile(r"-DOCSTART-(\s|$)")
# Matches the end of a line whose columns are separated by ";" or ",".
_OTHER_SEPARATOR = re.compile(r"\S[;,](O|[BIES]-\S+)$")
# The names of the columns of `.csv` files that identify sentences begin with one of
# these.
_SENTENCE_COLUMNS = ("sentence", "sent_id")


@documented
@dataclasses.dataclass(frozen=True)
class Columns:
    """The indices of the columns with the words and with the tags."""

    token_column: int = option(0, "Column of the words, from 0; -1 is the last column.")
    label_column: int = option(
        -1,
        "Column of the tags, from 0; -1 is the last column. A file to predict that "
        "does not have this column has no tags.",
    )


@dataclasses.dataclass(frozen=True)
class Layout:
    """The form of the lines of a file.

    Attributes:
        separator: A tab or a blank. Several blanks count as one.
        width: The number of columns.
        token: The index of the column of the words.
        label: The index of the column of the tags; None if the file has no tags.
        end: A tab if all lines end with a tab, which is not a column; else "".
        notation: How the tags are written. `find_layout` sets it.
        tags: The different tags of the lines that do not begin with "#".
        header: The line with the names of the columns, or "".
    """

    separator: str
    width: int
    token: int
    label: int | None
    end: str
    encoding: str
    notation: Notation = None  # type: ignore[assignment]
    tags: Collection[str] = ()
    header: str = ""

    def fields(self, line: str) -> list[str]:
        """Splits a line into the values of its columns."""
        return _fields(line.removesuffix(self.end), self.separator)

    def has_word(self, line: str) -> bool:
        """Returns whether a line is part of a sentence: no empty line, document mark or header."""
        text = line.strip(" \t" if self.width == 1 else None)
        return bool(text) and not _DOCUMENT_MARK.match(line) and line != self.header

    def is_comment(self, line: str, is_first: bool = False) -> bool:
        """Returns whether a line is a comment.

        A comment begins with "#" and has another number of columns than the file. A
        line before the words of a sentence (`is_first`) is also a comment if it begins
        with "#" and the column of the tags has no tag.
        """
        if not line.startswith("#"):
            return False
        # Some comments have empty columns at the end.
        if len(self.fields(line.rstrip())) != self.width:
            return True
        if not is_first or self.label is None:
            return False
        tag = self.fields(line)[self.label].strip()
        # If tags have no prefixes, any word may be a tag.
        if self.notation.is_io:
            return tag not in self.tags
        return self.notation.read(tag) is None

    def with_column(self, line: str, value: str) -> str:
        """Returns a line with `value` as one more column; a file of one column gets a tab."""
        line = line.removesuffix(self.end)
        if self.separator == "\t":
            return f"{line}\t{value}"
        separator = "\t" if self.width == 1 else " "
        return f"{line.rstrip(' ')}{separator}{value}"


@dataclasses.dataclass(frozen=True)
class SentenceLines:
    """The lines of a sentence in a file, and the lines around them.

    Attributes:
        number: The number of the first line, from 1.
        lines: The lines with the words, and comments between them.
        before: The empty lines, comments and marks of documents that precede `lines`.
        after: The lines that follow `lines`; only the last sentence of a file has them.
    """

    layout: Layout
    number: int
    lines: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...] = ()

    @property
    def notation(self) -> Notation:
        """The notation of the tags of the file."""
        return self.layout.notation

    @property
    def description(self) -> str:
        """Text for the log that states which columns are read."""
        layout = self.layout
        words = f"words: column {layout.token} of {layout.width}"
        if layout.header:
            words = f"header line: {', '.join(layout.fields(layout.header))}; {words}"
        return (
            words if layout.label is None else f"{words}; tags: column {layout.label}"
        )

    def other_tags(self) -> dict[int, list[str]]:
        """Returns the columns that are not read, by index; a value that is no tag becomes O."""
        layout = self.layout
        lines = itertools.filterfalse(layout.is_comment, self.lines)
        return {
            index: [layout.notation.read(value.strip()) or OUTSIDE for value in values]
            for index, values in enumerate(zip(*map(layout.fields, lines), strict=True))
            if index not in (layout.token, layout.label)
        }


def read_examples(
    path: str,
    kind: str,
    layout: Layout | None,
    document_context: bool,
    counts: RowCounts,
) -> Iterator[NerExample]:
    """Yields the sentences of a file, in their order.

    Only one document is in memory at a time. A sentence before the first -DOCSTART-
    line is a document of its own. A sentence is malformed if a line has more or fewer
    columns than the others, a word is empty, or a tag is malformed. A malformed
    sentence of a train split is skipped, and in other splits it raises InputError.
    `counts` receives the numbers of skipped sentences, of comments between sentences,
    and of sentences before the first -DOCSTART- line.
    """
    document: list[NerExample] = []
    in_document = False
    for sentence in _sentences(path, layout) if layout else ():
        for line in (*sentence.before, *sentence.after):
            if line.startswith("#"):
                counts.add(COMMENTS, f"{path}: {line[:60]!r}")

        if document_context and any(map(_DOCUMENT_MARK.match, sentence.before)):
            yield from join_documents(document)
            document = []
            in_document = True

        try:
            example = _parse(sentence, path)
        except MalformedSentenceError as error:
            if kind != "train":
                raise
            counts.add(SKIPPED, str(error), is_skipped=True)
            continue

        # A sentence waits for the end of its document.
        if in_document:
            document.append(example)
        else:
            if document_context:
                counts[ALONE] += 1
            yield example
    yield from join_documents(document)


def find_layout(
    path: str,
    kind: str,
    columns: Columns,
    notation_of: Callable[[Counter[str]], Notation],
    encoding: str,
) -> Layout | None:
    """Reads a file, and returns the layout of its lines; None if it has no words.

    `notation_of` receives the frequencies of the tags, and returns how they are
    written, such as B-PER or PER-B. A file without a column for tags raises InputError
    unless `kind` is "test".
    """
    first = ""
    end = "\t"
    for _, line in _lines(path, encoding):
        if line.strip() and not _DOCUMENT_MARK.match(line):
            # Comments may precede the first word.
            if first[:1] in ("", "#"):
                first = line
            if not line.endswith(end):
                end = ""
    if not first:
        return None

    separator = "\t" if "\t" in first else " "
    width = len(_fields(first.removesuffix(end), separator))
    token = _index(columns.token_column, width)
    label = _index(columns.label_column, width)
    if token is None:
        raise InputError(
            f"{path} has {_num_columns(width)}. token_column must be from {-width} to "
            f"{width - 1}. Received: {columns.token_column}."
        )

    # The last column of a file with one column has words.
    label = None if label == token else label
    # A file to predict needs no tags, but its words must not contain an unknown
    # separator.
    if label is None and (kind != "test" or _OTHER_SEPARATOR.search(first)):
        raise InputError(
            f"{path} has {_num_columns(width)}, of which column {token} has the words, "
            f"and no column for tags. Received: {first[:60]!r}, with label_column="
            f"{columns.label_column}. Separate columns by tabs or blanks, not by ';' "
            "or ',', or give the index of another column, from 0 or, from the end, "
            "from -1."
        )
    layout = Layout(
        separator, width, token=token, label=None, end=end, encoding=encoding
    )

    # The most frequent tags decide the notation, so all tags are counted, except in
    # comments.
    tags: Counter[str] = Counter()
    header = ""
    if label is not None:
        for sentence in _sentences(path, layout):
            lines = (line for line in sentence.lines if not line.startswith("#"))
            rows = map(layout.fields, lines)
            tags.update(row[label].strip() for row in rows if len(row) == width)

        # The first line may have the name of the column, which is no tag. Without other
        # tags than O, it could be a type.
        name = layout.fields(first)[label].strip()
        others = tags - Counter([name])
        notation = notation_of(others)
        types = types_of(filter(None, map(notation.read, others)))
        is_name = TYPE.fullmatch(name.replace(" ", "_")) and not notation.read(name)
        if types and is_name and name not in {*others, *types}:
            tags, header = others, first
    return dataclasses.replace(
        layout, label=label, notation=notation_of(tags), tags=tags.keys(), header=header
    )


def _lines(path: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Yields the number and the text of each line; a CSV row becomes a line with tabs.

    An empty line is added before each further sentence of a CSV file. A sentence starts
    where a column such as "Sentence #" has a new value that is not empty or, without
    such a column, after empty lines.
    """
    # Some files with the ending .csv have tabs or blanks.
    first = next((line for _, line in tables.lines(path, encoding) if line.strip()), "")
    is_csv = tables.ending_without_gz(path) == ".csv"
    if not is_csv or "\t" in first or "," not in first:
        yield from tables.lines(path, encoding)
        return

    # The header line, and the column that identifies sentences.
    rows = tables.comma_separated(path, encoding)
    previous, header = next(rows)
    names = enumerate(map(str.lower, header))
    column = next((n for n, name in names if name.startswith(_SENTENCE_COLUMNS)), None)
    if is_tag(header[-1]):  # there is no header line
        previous = 0
        rows = tables.comma_separated(path, encoding)

    sentence = ""
    for number, fields in rows:
        value = "" if number == previous + 1 else str(number)
        if column is not None:
            value = fields.pop(column) if column < len(fields) else ""
        if value and value != sentence:
            if sentence or column is None:
                yield number, ""
            sentence = value
        previous = number
        yield number, "\t".join(re.sub(r"[\t\r\n]", " ", field) for field in fields)


def _index(column: int, width: int) -> int | None:
    """Converts a column number, from the end if negative, to an index; None if out of range."""
    index = column + width if column < 0 else column
    return index if 0 <= index < width else None


def _num_columns(width: int) -> str:
    return f"{width} column{'' if width == 1 else 's'}"


def _fields(line: str, separator: str) -> list[str]:
    # Other white space, such as U+00A0, may be part of a word.
    return line.split("\t") if separator == "\t" else [f for f in line.split(" ") if f]


def _sentences(path: str, layout: Layout) -> Iterator[SentenceLines]:
    """Yields the sentences of a file, which together contain all lines of the file."""
    complete: SentenceLines | None = None
    number = 0
    lines: list[str] = []
    before: list[str] = []
    # The added empty line ends the last sentence.
    for line_number, line in itertools.chain(_lines(path, layout.encoding), [(0, "")]):
        # A comment before the first word is between the sentences.
        if layout.has_word(line) and (lines or not layout.is_comment(line, True)):
            number = number if lines else line_number
            lines.append(line)
            continue

        # Each sentence is yielded when the next one is complete, because the last
        # sentence of the file gets the lines after it.
        if lines:
            if complete:
                yield complete
            complete = SentenceLines(layout, number, tuple(lines), tuple(before))
            lines = []
            before = []
        before.append(line)
    if complete:
        yield dataclasses.replace(complete, after=tuple(before[:-1]))


def _parse(sentence: SentenceLines, path: str) -> NerExample:
    """Returns a sentence as an example, or raises MalformedSentenceError."""
    layout = sentence.layout
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate(sentence.lines, start=sentence.number):
        if layout.is_comment(line):
            continue
        fields = layout.fields(line)
        location = f"{path}, line {number}"
        if len(fields) != layout.width:
            raise MalformedSentenceError(
                f"{location} has {_num_columns(len(fields))}, and the first line of the "
                f"file has {layout.width}. Received: {line[:60]!r}. Write the same "
                "columns in each line."
            )
        if not fields[layout.token]:
            raise MalformedSentenceError(
                f"{location}: the word is empty. Write a word in each line."
            )
        words.append(fields[layout.token])
        if layout.label is not None:
            tags.append(read_tag(fields[layout.label], layout.notation, location))

    # A file to predict may have no tags.
    known_tags = None if layout.label is None else tuple(tags)
    return NerExample(tuple(words), known_tags, sentence, tuple(words))


def render(example: NerExample, tags: list[str]) -> Iterator[str]:
    """Yields the lines of a sentence, with the given tags as a last column.

    Each line of the file gives one line. Lines of only white space become empty. The
    mark of a document gets the tag O if it has as many columns as the other lines,
    because conlleval reads it like a word. Comments stay as they are. The given tags
    have the notation of `schemes`.
    """
    sentence = example.origin
    layout = sentence.layout
    remaining = map(layout.notation.write, tags)
    yield from (_render_between(line, layout) for line in sentence.before)
    for line in sentence.lines:
        is_comment = layout.is_comment(line)
        yield line if is_comment else layout.with_column(line, next(remaining))
    yield from (_render_between(line, layout) for line in sentence.after)


def _render_between(line: str, layout: Layout) -> str:
    if not line.strip():
        return ""
    if line.startswith("#") or len(layout.fields(line)) != layout.width:
        return line
    value = "predicted" if line == layout.header else "O"
    return layout.with_column(line, value)
