"""Labelled sets whose examples are whole sentences: classification, pairs, multiple choice.

Pure functions from documents to rows. Imports `documentation`, `sentences`, `split`.
"""

import random
import re
from collections.abc import Iterator, Sequence

from data_prep.sample_data.documentation import LABELS
from data_prep.sample_data.sentences import Text

# Import names serve as labels where they are shorter.
_SHORT = {"scikit-learn": "sklearn"}
# Any name of any of the libraries to tell apart, and what they are imported as.
NAMES = re.compile(
    r"tensorflow|keras|numpy|scipy|sklearn|scikit|python|(?<![A-Za-z])(?:tf|np|sp|sk|py)(?![a-z])",
    re.I,
)
_MIN_WORDS, _MAX_WORDS = 12, 90


def label(library: str) -> str:
    """The label of a library."""
    return _SHORT.get(library, library)


def classification(texts: Sequence[Text], per_label: int, seed: int) -> list[tuple[str, str]]:
    """Passages of one to three sentences and the library that they are from.

    Args:
        texts: Documents of one part.
        per_label: At most this many passages for each library.
        seed: Of the choice and the order.

    Returns:
        (passage, label); no passage names a library, none comes twice.
    """
    rng = random.Random(f"{seed} classification")
    found: dict[str, list[str]] = {name: [] for name in LABELS}
    seen: set[str] = set()
    for text in texts:
        if text.library in found:
            nameless = [s.text for s in text.sentences if not NAMES.search(s.text)]
            fresh = [each for each in _passages(nameless) if each.lower() not in seen]
            seen.update(each.lower() for each in fresh)
            found[text.library] += fresh
    rows = []
    for library, passages in found.items():
        rng.shuffle(passages)
        rows += [(passage, label(library)) for passage in passages[:per_label]]
    rng.shuffle(rows)
    return rows


def _passages(sentences: Sequence[str]) -> Iterator[str]:
    """Cuts sentences into runs of up to three, and gives those of a fitting length."""
    for start in range(0, len(sentences), 3):
        passage = " ".join(sentences[start : start + 3])
        if _MIN_WORDS <= len(passage.split()) <= _MAX_WORDS:
            yield passage
