"""`SplitSummary`: what was read from the file of a split, and signs of a mistaken column."""

from collections import Counter, defaultdict
from typing import Any

from bert_tf.tasks.ner.ner_examples import NerExample
from bert_tf.tasks.ner.schemes import UNNAMED, SchemeEvidence, all_tags, find_entities
from bert_tf.tasks.row_counts import RowCounts
from bert_tf.tasks.text_tables import shortened

_MAX_TYPES = 20
# Another column with this number of times the entities is probably that of the tags.
_SUSPICIOUS_RATIO = 3
# With this share of numbers among the words, the words are probably in another column.
_NUMBERED_SHARE = 0.9


class SplitSummary:
    """Counts the entities of a split, and those in the other columns of its file.

    Attributes:
        evidence: The evidence for the scheme of the tags.
        has_tags: Whether an example has tags.
    """

    def __init__(self) -> None:
        self.evidence, self.has_tags = SchemeEvidence(), False
        self._origin: Any = None
        self._are_numbers: Counter[bool] = Counter()
        # The types of the entities by column; those of the examples have the key None.
        self._types: defaultdict[int | None, Counter[str]] = defaultdict(Counter)

    def add(self, example: NerExample) -> None:
        """Adds an example."""
        self._origin, tags = example.origin, example.tags or ()
        self.has_tags |= example.tags is not None
        self.evidence.add(tags)
        self._are_numbers.update(map(str.isdecimal, example.words))

        for column, values in {None: tags, **self._origin.other_tags()}.items():
            self._types[column].update(entity.type for entity in find_entities(values))

    def report(self, path: str, counts: RowCounts) -> None:
        """Adds to `counts.notes` what was read, and a warning for each sign of a mistaken column.

        Args:
            path: The file.
            counts: Receives texts such as "words: column 0 of 2; tags: column 1: LOC
                47, ORG 3".
        """
        own, text = (
            self._types[None],
            self._origin.description if self._origin else "no words",
        )
        if self.has_tags:
            notation = self._origin.notation
            scheme = notation.scheme or self.evidence.scheme()
            written = dict.fromkeys(map(notation.write, all_tags([UNNAMED], scheme)))
            found = [f"{name} {number:,}" for name, number in sorted(own.items())]
            scheme = scheme if notation.heads["B"] else "io"
            text += f": {shortened(found, _MAX_TYPES)}; scheme {scheme}: {' '.join(written)}"
        counts.notes["read"].append(text)

        warnings = counts.notes["warnings"]
        if self._are_numbers[True] > _NUMBERED_SHARE * self._are_numbers.total():
            warnings.append(
                f"The words of {path} are numbers, such as 1, 2, 3. If another column "
                "has the words, give its index as token_column."
            )

        for column, types in self._types.items():
            # Without entities, those of all types in another column are of interest.
            number = sum(types[name] for name in own or types)
            if number >= _SUSPICIOUS_RATIO * max(own.total(), 1):
                warnings.append(
                    f"Column {column} of {path} has {number:,} entities, and the "
                    f"column of the tags has {own.total():,}. To read the other "
                    f"column, give label_column={column}."
                )
