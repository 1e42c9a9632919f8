"""Reads and writes sentences as JSON lines.

A line has one of two forms:

* {"tokens": ["Ann", "left"], "tags": ["B-PER", "O"]}: words and tags.
* {"text": "Ann left", "entities": [{"start": 0, "end": 3, "label": "PER"}]}: a text, and spans in
  characters. The words of the text are those of the tokenizer: it splits at white space, at
  punctuation and around Chinese characters.

Each line is a document of its own.
"""

import bisect
import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.errors import InputError
from bert_tf.tasks.ner.ner_examples import SKIPPED, MalformedSentenceError, NerExample, check_tag
from bert_tf.tasks.ner.schemes import Entity, find_entities, is_tag, to_tags
from bert_tf.tasks.tables import json_lines
from bert_tf.tasks.words import is_word_start
from bert_tf.tokenization import BertTokenizer

EXTENDED = "entities that start or end inside a word, extended to the complete word"
# The key of the predictions in an output line.
PREDICTED = "predicted"
# The tokenizer is much faster for many texts at a time.
_LINES_PER_BLOCK = 512
_FORMS = 'Expected: {"tokens": [...], "tags": [...]}, or {"text": "...", "entities": [...]}.'

Span = tuple[int, int]  # first character, and the one after the last


@dataclasses.dataclass(frozen=True)
class JsonSentence:
    """A line of a file.

    Attributes:
        row: The JSON object.
        spans: The place of each word in the text; None if the line has words instead of a text.
    """

    row: Mapping[str, Any]
    spans: tuple[Span, ...] | None


def read_examples(
    path: str, kind: str, scheme: str | None, tokenizer: BertTokenizer, counts: Counter[str]
) -> Iterator[NerExample]:
    """Yields the sentences of a file, in their order.

    Args:
        path: The file.
        kind: "train", "dev" or "test". A sentence of a train split with a malformed tag, or with
            another number of tags than words, is skipped. Test files need neither tags nor
            entities.
        scheme: The scheme of the tags, or None to accept the tags of all schemes.
        tokenizer: Splits texts into words.
        counts: Receives the number of skipped sentences, and of extended entities.

    Raises:
        InputError: The file is missing or is not UTF-8, or a line is malformed.
    """
    starts_word = is_word_start(tokenizer.vocabulary)
    lines = json_lines(path)
    while block := list(itertools.islice(lines, _LINES_PER_BLOCK)):
        texts = [row["text"] for _, row in block if _has_text(row)]
        spans = iter(_find_words(texts, tokenizer, starts_word))
        for number, row in block:
            line = _Line(f"{path}, line {number}", row, scheme, kind != "test")
            try:
                yield line.with_text(next(spans), counts) if _has_text(row) else line.with_tokens()
            except MalformedSentenceError:
                if kind != "train":
                    raise
                counts[SKIPPED] += 1


def _has_text(row: Mapping[str, Any]) -> bool:
    return row.get("tokens") is None and isinstance(row.get("text"), str)


def _find_words(
    texts: Sequence[str], tokenizer: BertTokenizer, starts_word: np.ndarray
) -> list[tuple[Span, ...]]:
    """Returns the spans of the words of each text, in characters.

    A word is a sequence of characters that the tokenizer converts to pieces together. Characters
    that the tokenizer removes are words only if they are inside or directly after other characters.

    Args:
        texts: The texts.
        tokenizer: Converts text to ids.
        starts_word: See `is_word_start`.
    """
    if not texts:
        return []
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    starts, ends = (
        tokenizer.in_characters(texts, each).values.numpy().tolist() for each in (starts, ends)
    )
    splits: np.ndarray = ids.row_splits.numpy()
    first: np.ndarray = np.flatnonzero(starts_word[ids.values.numpy()])
    places = [int(np.searchsorted(first, split)) for split in splits]
    found = []
    for row, end in enumerate(splits[1:].tolist()):
        pieces = [*first[places[row] : places[row + 1]].tolist(), end]
        # A word ends with the piece before the first piece of the next word.
        pairs = itertools.pairwise(pieces)
        found.append(tuple((starts[piece], ends[after - 1]) for piece, after in pairs))
    return found


@dataclasses.dataclass(frozen=True)
class _Line:
    """A line of a file, with its place for messages.

    Attributes:
        place: The file and the number of the line.
        row: The JSON object.
        scheme: The scheme of the tags; None if all tags are accepted.
        needs_tags: Whether tags or entities are required.
    """

    place: str
    row: Mapping[str, Any]
    scheme: str | None
    needs_tags: bool

    def with_tokens(self) -> NerExample:
        """Returns a line with words.

        Raises:
            InputError: The line has no list of words.
            MalformedSentenceError: The tags are malformed.
        """
        words = self._list_of_texts("tokens")
        if words is None:
            raise InputError(
                f"{self.place}: the keys are {', '.join(self.row) or 'missing'}. {_FORMS}"
            )
        if not all(words):
            raise InputError(f"{self.place}: a word is empty. Write words of one or more letters.")
        tags = self._list_of_texts("tags")
        tags = None if tags is None else [tag.strip() for tag in tags]
        if tags is None and self.needs_tags:
            raise InputError(f"{self.place} has no tags, which this split needs. {_FORMS}")
        if tags is not None and len(tags) != len(words):
            raise MalformedSentenceError(
                f"{self.place} has {len(words)} words and {len(tags)} tags. Write a tag for each "
                "word."
            )
        for tag in tags or ():
            check_tag(tag, self.scheme, self.place)
        known_tags = None if tags is None else tuple(tags)
        return NerExample(tuple(words), known_tags, JsonSentence(self.row, None), tuple(words))

    def _list_of_texts(self, key: str) -> list[str] | None:
        """Returns the value of a key, or None if it is missing or null."""
        values = self.row.get(key)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            shown = json.dumps(values)[:60]
            raise InputError(f"{self.place}: {key!r} must be a list of texts. Received: {shown}.")
        return values

    def with_text(self, spans: tuple[Span, ...], counts: Counter[str]) -> NerExample:
        """Returns a line with a text.

        Args:
            spans: The places of the words.
            counts: Receives the number of extended entities.

        Raises:
            InputError: The entities are missing or malformed.
        """
        text = self.row["text"]
        words = tuple(text[start:end] for start, end in spans)
        tags = None
        if self.row.get("entities") is not None:
            entities = sorted(self._entities(text), key=lambda entity: entity.start)
            found = self._in_words(entities, spans)
            for each, entity in zip(found, entities, strict=True):
                first, last = spans[each.start], spans[each.end - 1]
                if first[0] < entity.start or last[1] > entity.end:
                    counts[EXTENDED] += 1
            tags = tuple(to_tags(found, len(words), self.scheme or "iob2"))
        elif self.needs_tags:
            raise InputError(f"{self.place} has no entities, which this split needs. {_FORMS}")
        return NerExample(words, tags, JsonSentence(self.row, spans), words)

    def _entities(self, text: str) -> Iterator[Entity]:
        """Yields the entities, with `start` and `end` in characters."""
        rows = self.row["entities"]
        for row in rows if isinstance(rows, list) else [rows]:
            keys = ("label", "start", "end")
            values: list[Any] = [row.get(key) for key in keys] if isinstance(row, dict) else []
            if not (
                [type(value) for value in values] == [str, int, int]
                and is_tag(f"B-{values[0].strip()}")
                and 0 <= values[1] < values[2] <= len(text)
            ):
                raise InputError(
                    f"{self.place}: an entity must have a label without blanks, such as PER or "
                    f"WORK_OF_ART, and start and end with 0 <= start < end <= {len(text)}, the "
                    f"number of characters of the text. Received: {json.dumps(row)[:80]}."
                )
            yield Entity(values[0].strip(), values[1], values[2])

    def _in_words(self, entities: Sequence[Entity], spans: Sequence[Span]) -> list[Entity]:
        """Returns the entities, with `start` and `end` in words.

        Raises:
            InputError: Two entities overlap or are in the same word, or an entity has no word.
        """
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        found: list[Entity] = []
        for entity in entities:
            first = bisect.bisect_right(ends, entity.start)
            last = bisect.bisect_left(starts, entity.end)
            place = f"{self.place}: the entity {entity.type} at {entity.start} to {entity.end}"
            if first >= last:
                raise InputError(f"{place} contains no word. Correct its start and end.")
            if found and first < found[-1].end:
                raise InputError(
                    f"{place} overlaps another entity, or is in the same word. Remove one of "
                    "them: a word can be in one entity only."
                )
            found.append(Entity(entity.type, first, last))
        return found


def render(example: NerExample, tags: list[str]) -> Iterator[str]:
    """Yields one line of JSON: the line of the file, and the predictions under one more key.

    The key is "predicted". Its value is a list of tags, or of entities if the line has a text.

    Args:
        example: A sentence that `read_examples` returned.
        tags: A tag for each word.
    """
    origin: JsonSentence = example.origin
    predicted: list[Any] = tags
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
