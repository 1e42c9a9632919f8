"""Labelled sets whose examples are whole sentences: classification, pairs, multiple choice.

Pure functions from the documents of one part to rows. Imports `documentation` and `sentences`.
"""

import itertools
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
CLASSIFICATION_COLUMNS = ("sentence", "label")
PAIR_COLUMNS = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
CHOICE_COLUMNS = (
    *("", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"),
    *("ending0", "ending1", "ending2", "ending3", "label"),
)
_MIN_WORDS, _MAX_WORDS = 20, 100
_MIN_PAIR_WORDS, _MAX_PAIR_WORDS = 8, 60
_MIN_ENDING_WORDS, _MAX_ENDING_WORDS = 3, 40


def label(library: str) -> str:
    """The label of a library."""
    return _SHORT.get(library, library)


def classification(texts: Sequence[Text], per_label: int, seed: int) -> list[tuple[str, ...]]:
    """Passages of up to three sentences and the library that they are from.

    Args:
        texts: Documents of one part.
        per_label: At most this many passages for each library.
        seed: Of the choice and the order.

    Returns:
        Rows of `CLASSIFICATION_COLUMNS`; no passage names a library, none comes twice.
    """
    rng = random.Random(f"{seed} classification")
    found: dict[str, dict[str, None]] = {library: {} for library in LABELS}
    seen: set[str] = set()
    for text in texts:
        if text.library in found:
            for run in _nameless(text):
                for passage in _passages(run, 3, _MIN_WORDS, _MAX_WORDS):
                    if passage.lower() not in seen:
                        found[text.library][passage] = None
                    seen.add(passage.lower())
    rows: list[tuple[str, ...]] = []
    for library, passages in found.items():
        chosen = rng.sample(list(passages), min(per_label, len(passages)))
        rows += [(passage, label(library)) for passage in chosen]
    rng.shuffle(rows)
    return rows


def _nameless(text: Text) -> Iterator[list[str]]:
    """Runs of sentences that name no library; not joined over a gap, so no run of words is new."""
    named = [bool(NAMES.search(sentence.text)) for sentence in text.sentences]
    grouped = itertools.groupby(zip(named, text.sentences, strict=True), key=lambda each: each[0])
    for is_named, run in grouped:
        if not is_named:
            yield [sentence.text for _, sentence in run]


def _passages(sentences: Sequence[str], size: int, shortest: int, longest: int) -> Iterator[str]:
    """Cuts sentences into runs of up to `size`, and gives those with so many words."""
    for start in range(0, len(sentences), size):
        passage = " ".join(sentences[start : start + size])
        if shortest <= len(passage.split()) <= longest:
            yield passage


def pairs(texts: Sequence[Text], limit: int, seed: int) -> list[tuple[str, ...]]:
    """Two passages of up to two sentences: from the same entry of the documentation or not.

    Args:
        texts: Documents of one part.
        limit: At most this many pairs.
        seed: Of the choice and the order.

    Returns:
        Rows of `PAIR_COLUMNS`. Quality is "1" for the same entry and "0" for two entries of one
        library, as often; an ID stands for one passage.
    """
    rng = random.Random(f"{seed} pairs")
    by_library: dict[str, list[list[str]]] = {}
    for text in texts:
        sentences = [sentence.text for sentence in text.sentences]
        passages = [*_passages(sentences, 2, _MIN_PAIR_WORDS, _MAX_PAIR_WORDS)]
        if len(passages) > 1:
            by_library.setdefault(text.library, []).append(passages)
    found: list[tuple[str, str, str]] = []
    for entries in (each for each in by_library.values() if len(each) > 1):
        for number, passages in enumerate(entries):
            first, second = rng.sample(passages, 2)
            # Any entry but this one.
            other = entries[(number + rng.randrange(1, len(entries))) % len(entries)]
            found += [("1", first, second), ("0", first, rng.choice(other))]
    rng.shuffle(found)
    ids: dict[str, int] = {}
    rows: list[tuple[str, ...]] = []
    for quality, first, second in found[:limit]:
        one, two = (str(ids.setdefault(each, len(ids) + 1)) for each in (first, second))
        rows.append((quality, one, two, first, second))
    return rows


def continuations(texts: Sequence[Text], limit: int, seed: int) -> list[tuple[str, ...]]:
    """Multiple choice: which sentence continues this one.

    As in SWAG the endings share their beginning, here the first word: the wrong three are from
    other documents of the same library.

    Args:
        texts: Documents of one part.
        limit: At most this many questions, at most one from a document.
        seed: Of the choice and the order.

    Returns:
        Rows of `CHOICE_COLUMNS`.
    """
    rng = random.Random(f"{seed} continuations")
    pools = _endings(texts)
    found: list[tuple[str, ...]] = []
    for number in rng.sample(range(len(texts)), len(texts)):
        text = texts[number]
        candidates = [
            (before.text, *_beginning(after.text))
            for before, after in zip(text.sentences, text.sentences[1:], strict=False)
            if after.follows and _fits(_beginning(after.text)[1])
        ]
        rng.shuffle(candidates)
        for context, start, ending in candidates:
            wrong = _distractors(pools.get((text.library, start), []), number, ending, rng)
            if wrong and len(found) < limit:
                found.append(_choice(len(found), text.name, context, start, ending, wrong, rng))
                break
    return found


def _beginning(sentence: str) -> tuple[str, str]:
    start, _, ending = sentence.partition(" ")
    return start, ending


def _fits(ending: str) -> bool:
    return _MIN_ENDING_WORDS <= len(ending.split()) <= _MAX_ENDING_WORDS


def _endings(texts: Sequence[Text]) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """(library, first word) -> (document number, rest of the sentence)."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for number, text in enumerate(texts):
        for sentence in text.sentences:
            start, ending = _beginning(sentence.text)
            if _fits(ending):
                found.setdefault((text.library, start), []).append((number, ending))
    return found


def _distractors(
    pool: Sequence[tuple[int, str]], number: int, ending: str, rng: random.Random
) -> list[str]:
    """Three endings from three other documents, or none."""
    others = {own: text for own, text in rng.sample(pool, min(12, len(pool))) if own != number}
    distinct = list(dict.fromkeys(text for text in others.values() if text != ending))
    return distinct[:3] if len(distinct) >= 3 else []


def _choice(
    number: int,
    name: str,
    context: str,
    start: str,
    ending: str,
    wrong: Sequence[str],
    rng: random.Random,
) -> tuple[str, ...]:
    answer = rng.randrange(4)
    endings = [*wrong[:answer], ending, *wrong[answer:]]
    phrase = f"{context} {start}"
    return (str(number), name, str(number), phrase, context, start, "gold", *endings, str(answer))
