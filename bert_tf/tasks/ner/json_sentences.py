"""Reads and writes sentences as JSON lines.

A line has one of two forms:

* {"tokens": ["Ann", "left"], "tags": ["B-PER", "O"]}: words and tags. The keys "words"
  and "ner_tags" are read too.
* {"text": "Ann left", "entities": [{"start": 0, "end": 3, "label": "PER"}]}: a text,
  and spans in characters. The words of the text are those of the tokenizer: it splits
  at white space, at punctuation and around Chinese characters. The spans of doccano are
  read too: the key "label" or "labels" with [start, end, label], and "start_offset" and
  "end_offset"; and those of Label Studio, with "labels": ["PER"].

Each line is a document of its own, so document context adds no other sentences.
"""

import bisect
import dataclasses
import itertools
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.tasks.ner.ner_examples import (
    SKIPPED,
    MalformedSentenceError,
    NerExample,
    read_tag,
)
from bert_tf.tasks.ner.schemes import Entity, Notation, find_entities, is_tag, to_tags
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.tables import Row, json_lines
from bert_tf.tasks.windows import is_word_start
from bert_tf.tokenization import BertTokenizer

EXTENDED = "entities that start or end inside a word, extended to the complete word"
# The key of the predictions in an output line.
PREDICTED = "predicted"
# The tokenizer is much faster for many texts at a time.
_LINES_PER_BLOCK = 512
# The Unicode categories of characters that `FullTokenizer` removes.
_REMOVED = ("Cc", "Cf")
# The names of these keys in the files of other programs. Only lists are read: a "label"
# that is no list is the label of the whole text.
_OTHER_NAMES = {
    "tokens": ["words"],
    "tags": ["ner_tags"],
    "entities": ["label", "labels"],
}
_FORMS = (
    'Expected: {"tokens": [...], "tags": [...]}, or {"text": "...", "entities": [...]}.'
)

Span = tuple[int, int]  # first character, and the one after the last
_WordsAndTags = tuple[tuple[str, ...], tuple[str, ...] | None]


@dataclasses.dataclass(frozen=True)
class JsonSentence:
    """A line of a file; `spans` has the words' positions in its text, None without a text."""

    row: Row
    spans: tuple[Span, ...] | None
    notation: Notation

    description = "JSON"  # for the log

    def other_tags(self) -> dict[int, list[str]]:
        """Returns {}, because a JSON line has no columns with other tags."""
        return {}


def _value(row: Row, key: str) -> Any:
    """Returns the value of a key, else a list under another name of the key, else None."""
    lists = (row[name] for name in _OTHER_NAMES[key] if isinstance(row.get(name), list))
    return next(lists, None) if row.get(key) is None else row[key]


def read_examples(
    path: str,
    kind: str,
    notation: Notation,
    tokenizer: BertTokenizer,
    counts: RowCounts,
    encoding: str,
) -> Iterator[NerExample]:
    """Yields the sentences of a file, in their order.

    A sentence of a train split with a malformed tag, or with another number of tags
    than words, is skipped; all other mistakes raise InputError. Test files need neither
    tags nor entities. The tokenizer splits texts into words. `counts` receives the
    numbers of skipped sentences and of entities that are extended to complete words.
    """
    starts_word = is_word_start(tokenizer.vocabulary)
    lines = json_lines(path, encoding)
    while block := list(itertools.islice(lines, _LINES_PER_BLOCK)):
        texts = [row["text"] for _, row in block if _has_text(row)]
        spans = iter(_find_words(texts, tokenizer, starts_word))

        for number, row in block:
            line = _Line(f"{path}, line {number}", row, notation, kind != "test")
            places = next(spans) if _has_text(row) else None
            try:
                words, tags = (
                    line.with_tokens()
                    if places is None
                    else line.with_text(places, counts)
                )
            except MalformedSentenceError as error:
                if kind != "train":
                    raise
                counts.add(SKIPPED, str(error), is_skipped=True)
            else:
                origin = JsonSentence(row, places, notation)
                yield NerExample(words, tags, origin, words)


def find_notation(
    path: str, notation_of: Callable[[Counter[str]], Notation], encoding: str
) -> Notation:
    """Reads a file, and returns how its tags are written.

    `notation_of` receives the frequencies of the tags, and returns their notation.
    """
    tags: Counter[str] = Counter()
    for _, row in json_lines(path, encoding):
        values = _value(row, "tags")
        if isinstance(values, list):
            tags.update(value.strip() for value in values if isinstance(value, str))
    return notation_of(tags)


def _has_text(row: Row) -> bool:
    return _value(row, "tokens") is None and isinstance(row.get("text"), str)


def _find_words(
    texts: Sequence[str], tokenizer: BertTokenizer, starts_word: np.ndarray
) -> list[tuple[Span, ...]]:
    """Returns the spans of the words of each text, in characters.

    A word is a sequence of characters that the tokenizer converts to pieces together. A
    character that the tokenizer removes is part of a word if it is inside the word, or
    is a combining mark directly after the word. Other invisible characters after the
    word are not.
    """
    if not texts:
        return []
    ids, *offsets = tokenizer.tokenize_with_offsets(texts)
    starts, ends = (
        tokenizer.in_characters(texts, offset).values.numpy().tolist()
        for offset in offsets
    )

    # The indices of the pieces that start a word, and the first of them for each text.
    splits = ids.row_splits.numpy()
    first = np.flatnonzero(starts_word[ids.values.numpy()])
    places: Any = np.searchsorted(first, splits).tolist()

    all_spans = []
    for row, end in enumerate(splits[1:].tolist()):
        pieces = [*first[places[row] : places[row + 1]].tolist(), end]
        # A word ends with the piece before the first piece of the next word.
        spans = (
            (starts[piece], _visible_end(texts[row], ends[after - 1]))
            for piece, after in itertools.pairwise(pieces)
        )
        all_spans.append(tuple(spans))
    return all_spans


def _visible_end(text: str, end: int) -> int:
    """Moves the end of a word before the final characters that `FullTokenizer` removes."""
    while text[end - 1] == "\ufffd" or unicodedata.category(text[end - 1]) in _REMOVED:
        end -= 1
    return end


@dataclasses.dataclass(frozen=True)
class _Line:
    """A line of a file; `place` is its file and number, for messages."""

    place: str
    row: Row
    notation: Notation
    needs_tags: bool

    @property
    def _keys(self) -> str:
        """Text for messages: the keys that the line has, and the keys that are expected."""
        return f"the keys are {', '.join(self.row) or 'missing'}. {_FORMS}"

    def with_tokens(self) -> _WordsAndTags:
        """Returns the words and tags of a line with words.

        Malformed tags raise MalformedSentenceError; other mistakes raise InputError.
        """
        words = self._list_of_texts("tokens")
        if words is None:
            raise InputError(f"{self.place}: {self._keys}")
        if not all(words):
            raise InputError(
                f"{self.place}: a word is empty. Write words of one or more letters."
            )

        # A tag for each word; only a file to predict may have none.
        tags = self._list_of_texts("tags")
        if tags is None:
            if self.needs_tags:
                raise InputError(
                    f"{self.place} has no tags, which this split needs: {self._keys}"
                )
            return tuple(words), None
        if len(tags) != len(words):
            raise MalformedSentenceError(
                f"{self.place} has {len(words)} words and {len(tags)} tags. Write a tag "
                "for each word."
            )
        known_tags = (read_tag(tag, self.notation, self.place) for tag in tags)
        return tuple(words), tuple(known_tags)

    def _list_of_texts(self, key: str) -> list[str] | None:
        """Returns the list of texts under a key, or None if the key is missing or null."""
        values = _value(self.row, key)
        if values is None:
            return None
        if not isinstance(values, list) or {*map(type, values)} - {str}:
            shown = json.dumps(values)[:60]
            raise InputError(
                f"{self.place}: {key!r} must be a list of texts. Received: {shown}. "
                "Write words, and names of tags such as B-PER, not their numbers."
            )
        return values

    def with_text(self, spans: tuple[Span, ...], counts: RowCounts) -> _WordsAndTags:
        """Returns the words and tags of a line with a text; `counts` counts extended entities."""
        text = self.row["text"]
        words = tuple(text[start:end] for start, end in spans)
        rows = _value(self.row, "entities")
        # Label Studio leaves out the key of a text without entities.
        if (
            rows is None
            and self.row.get("annotation_id")
            and not any(isinstance(value, list) for value in self.row.values())
        ):
            rows = []
        if rows is None:
            if self.needs_tags:
                raise InputError(
                    f"{self.place} has no entities, which this split needs: {self._keys}"
                )
            return words, None
        entities = sorted(self._entities(text, rows), key=lambda entity: entity.start)
        word_entities = self._in_words(entities, spans)

        # An entity may start or end inside of a word.
        for word_entity, entity in zip(word_entities, entities, strict=True):
            start, end = spans[word_entity.start][0], spans[word_entity.end - 1][1]
            if start < entity.start or end > entity.end:
                original, extended = text[entity.start : entity.end], text[start:end]
                row = f"{self.place}: {original!r:.60} is now {extended!r:.60}"
                counts.add(EXTENDED, row)
        tags = to_tags(word_entities, len(words), self.notation.scheme or "iob2")
        return words, tuple(tags)

    def _entities(self, text: str, rows: Any) -> Iterator[Entity]:
        """Yields the entities in the JSON value `rows`, with `start` and `end` in characters."""
        for row in rows if isinstance(rows, list) else [rows]:
            # Label, start and end: with names, or in the order of doccano.
            values: list[Any] = []
            if isinstance(row, dict):
                places = (
                    row.get(key, row.get(f"{key}_offset")) for key in ("start", "end")
                )
                label: Any = row.get("label", row.get("labels"))
                # Label Studio writes a list of one label.
                is_alone = isinstance(label, list) and len(label) == 1
                values = [label[0] if is_alone else label, *places]
            elif isinstance(row, list) and len(row) == 3:
                values = [row[2], *row[:2]]

            if not (
                [*map(type, values)] == [str, int, int]
                and is_tag(f"B-{values[0].strip()}")
                and 0 <= values[1] < values[2] <= len(text)
            ):
                raise InputError(
                    f"{self.place}: an entity must have a label without blanks, such "
                    "as PER or WORK_OF_ART, and start and end with 0 <= start < end "
                    f"<= {len(text)}, the number of characters of the text. Received: "
                    f"{json.dumps(row)[:80]}."
                )
            yield Entity(values[0].strip(), values[1], values[2])

    def _in_words(
        self, entities: Sequence[Entity], spans: Sequence[Span]
    ) -> list[Entity]:
        """Converts entities to word positions; raises InputError if two of them share a word."""
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        word_entities: list[Entity] = []
        for entity in entities:
            # The words that have a character of the entity.
            first = bisect.bisect_right(ends, entity.start)
            last = bisect.bisect_left(starts, entity.end)

            span = f"{entity.start} to {entity.end}"
            subject = f"{self.place}: the entity {entity.type} at {span}"
            if first >= last:
                raise InputError(
                    f"{subject} contains no word. Correct its start and end."
                )
            if word_entities and first < word_entities[-1].end:
                raise InputError(
                    f"{subject} overlaps another entity, or is in the same word. Remove "
                    "one of them: a word can be in one entity only."
                )
            word_entities.append(Entity(entity.type, first, last))
        return word_entities


def render(example: NerExample, tags: list[str]) -> Iterator[str]:
    """Yields the line of the file, with the predictions under the key "predicted".

    The predictions are tags, in the notation of the file, or entities if the line has a
    text. The argument `tags` is in the notation of `schemes`.
    """
    origin: JsonSentence = example.origin
    predicted: list[Any] = list(map(origin.notation.write, tags))

    # Entities in characters, if the line has a text.
    if origin.spans is not None:
        predicted = [
            {
                "start": origin.spans[entity.start][0],
                "end": origin.spans[entity.end - 1][1],
                "label": entity.type,
            }
            for entity in find_entities(tags)
        ]
    yield json.dumps({**origin.row, PREDICTED: predicted}, ensure_ascii=False)
