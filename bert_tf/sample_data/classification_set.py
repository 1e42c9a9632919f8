"""Makes the classification set: passages of docstrings, labeled with their libraries."""

import itertools
import random
import re
from collections.abc import Iterator, Sequence

from bert_tf.sample_data.cleaning import Document
from bert_tf.sample_data.documentation import LABELS

# All names of the classified libraries, including their usual import names, such as
# `tf` and `np`.
LIBRARY_NAMES = re.compile(
    r"tensorflow|keras|numpy|scipy|sklearn|scikit|python|(?<![A-Za-z])(?:tf|np|sp|sk|py)(?![a-z])",
    re.I,
)
CLASSIFICATION_COLUMNS = ("sentence", "label")
_MIN_WORDS = 20
_MAX_WORDS = 100


def classification_rows(
    documents: Sequence[Document], per_label: int, seed: int
) -> list[tuple[str, ...]]:
    """Returns rows (passage, label). The label names the library of the passage.

    A passage has up to three sentences, and does not contain the name of a classified
    library. All passages differ, and each library has at most `per_label` passages.
    """
    # The first of several equal passages, and its library.
    distinct_passages: dict[str, tuple[str, str]] = {}
    for document in documents:
        if document.library in LABELS:
            for run in _runs_without_library_name(document):
                for passage in _passages(run):
                    distinct_passages.setdefault(
                        passage.lower(), (document.library, passage)
                    )

    rng = random.Random(f"{seed} classification")
    rows: list[tuple[str, ...]] = []
    for library, label in LABELS.items():
        passages = [
            passage
            for origin, passage in distinct_passages.values()
            if origin == library
        ]
        for passage in rng.sample(passages, min(per_label, len(passages))):
            rows.append((passage, label))
    rng.shuffle(rows)
    return rows


def _runs_without_library_name(document: Document) -> Iterator[list[str]]:
    """Yields the maximal runs of sentences without the name of a classified library.

    Two runs are never joined, so every n-gram of a passage also occurs in the document.
    """
    for names_library, run in itertools.groupby(
        document.texts, lambda s: bool(LIBRARY_NAMES.search(s.text))
    ):
        if not names_library:
            yield [sentence.text for sentence in run]


def _passages(sentences: Sequence[str]) -> Iterator[str]:
    """Joins up to three sentences to a passage, and yields the passages of 20 to 100 words."""
    for start in range(0, len(sentences), 3):
        passage = " ".join(sentences[start : start + 3])
        if _MIN_WORDS <= len(passage.split()) <= _MAX_WORDS:
            yield passage
