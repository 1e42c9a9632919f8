"""The example of named-entity recognition, and the summary of a split."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.errors import InputError, shortened
from bert_tf.tasks.ner.schemes import (
    IO,
    UNNAMED,
    Notation,
    SchemeEvidence,
    all_tags,
    find_entities,
)
from bert_tf.tasks.splits import RowCounts

SKIPPED = "sentences skipped, because a line or a tag is malformed"
_MAX_TYPES = 20
# A column with this many times the entities of the tag column probably has the tags.
_SUSPICIOUS_RATIO = 3
# With this share of numbers among the words, the words are probably in another column.
_NUMBERED_SHARE = 0.9


class MalformedSentenceError(InputError):
    """A sentence that cannot be used. In a train split, it is skipped and counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class NerExample:
    """A sentence with its tags, and its place in the file and in its document.

    Attributes:
        tags: The tag of each word, in the scheme of the file and the notation of
            `schemes`; None if they are unknown.
        origin: The part of the file that contains the sentence: a
            `conll.SentenceLines`, or a `json_sentences.JsonSentence`.
        document: The words of the document that contains the sentence.
        first_word: The index of the first word of the sentence in `document`.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    origin: Any
    document: tuple[str, ...]
    first_word: int = 0


def join_documents(sentences: Sequence[NerExample]) -> Iterator[NerExample]:
    """Yields the sentences of a document, with all words of the document as `document`."""
    document = tuple(word for sentence in sentences for word in sentence.words)
    first_word = 0
    for sentence in sentences:
        yield dataclasses.replace(sentence, document=document, first_word=first_word)
        first_word += len(sentence.words)


def read_tag(tag: str, notation: Notation, place: str) -> str:
    """Returns a tag of a file in the notation of `schemes`, or raises MalformedSentenceError."""
    parsed_tag = notation.read(tag.strip())
    if parsed_tag is None:
        is_iob = notation.scheme in ("iob1", "iob2")
        prefixes = "B- or I-" if is_iob else "B-, I-, E- or S-"
        raise MalformedSentenceError(
            f"{place}: the tag {tag.strip()[:60]!r} is malformed. Expected: O, or "
            f"{prefixes} and a type without blanks, such as B-PER or B-WORK_OF_ART. "
            "Correct the tag, or give the "
            "column of the tags as label_column. For a file without tags to predict, "
            "give a label_column that it does not have."
        )
    return parsed_tag


class SplitSummary:
    """Counts the entities in the tags of a split.

    It also counts those in other columns of its file, which may be meant instead.
    """

    def __init__(self) -> None:
        self.evidence = SchemeEvidence()
        self.has_tags = False
        self._origin: Any = None
        self._are_numbers: Counter[bool] = Counter()
        # The types of the entities by column; those of the examples have the key None.
        self._types: defaultdict[int | None, Counter[str]] = defaultdict(Counter)

    def add(self, example: NerExample) -> None:
        """Adds an example."""
        self._origin = example.origin
        tags = example.tags or ()
        self.has_tags |= example.tags is not None
        self.evidence.add(tags)
        self._are_numbers.update(map(str.isdecimal, example.words))

        for column, values in {None: tags, **self._origin.other_tags()}.items():
            self._types[column].update(entity.type for entity in find_entities(values))

    @property
    def scheme(self) -> str:
        """The scheme of the tags: one of `SCHEMES`, or `IO`."""
        notation = self._origin.notation
        return IO if notation.is_io else notation.scheme or self.evidence.scheme()

    def report(self, path: str, counts: RowCounts) -> None:
        """Adds to `counts.notes` what was read, and warnings about wrong columns.

        Adds, for example, "words: column 0 of 2; tags: column 1: LOC 47, ORG 3".
        """
        own = self._types[None]
        text = self._origin.description if self._origin else "no words"
        if self.has_tags:
            notation = self._origin.notation
            tags = all_tags([UNNAMED], self.scheme)
            written = dict.fromkeys(map(notation.write, tags))
            entries = [f"{name} {number:,}" for name, number in sorted(own.items())]
            types = shortened(entries, _MAX_TYPES)
            text += f": {types}; scheme {self.scheme}: {' '.join(written)}"
        counts.notes["read"].append(text)

        # Signs that the column of the words or of the tags is wrong.
        warnings = counts.notes["warnings"]
        if self._are_numbers[True] > _NUMBERED_SHARE * self._are_numbers.total():
            warnings.append(
                f"The words of {path} are numbers, such as 1, 2, 3. If another column "
                "has the words, give its index as token_column."
            )
        for column, others in self._types.items():
            # If the tag column has no entities, all types in the other column count.
            number = sum(others[name] for name in own or others)
            if number >= _SUSPICIOUS_RATIO * max(own.total(), 1):
                warnings.append(
                    f"Column {column} of {path} has {others.total():,} entities, and "
                    f"the column of the tags has {own.total():,}. To read the other "
                    f"column, give label_column={column}."
                )
