"""Labeled sets whose examples are sentences: classification, pairs, multiple choice.

The functions are pure: they convert the documents of one part (train, dev or test) to
rows. Imports `documentation` and `sentences`.
"""

import itertools
import random
import re
from collections.abc import Iterator, Sequence

from bert_tf.data_prep.sample_data.cleaning import Document
from bert_tf.data_prep.sample_data.documentation import LABELS

# All names of the classified libraries, including their usual import names, such as
# `tf` and `np`.
LIBRARY_NAMES = re.compile(
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


def classification_rows(
    documents: Sequence[Document], per_label: int, seed: int
) -> list[tuple[str, ...]]:
    """Makes passages of up to three sentences.

    The label is the library that contains the passage.

    Args:
        documents: The documents of one part.
        per_label: The maximum number of passages from each library.
        seed: Seed of the random selection and order of the rows.

    Returns:
        Rows of `CLASSIFICATION_COLUMNS`. No passage contains the name of a classified
        library, and all passages differ.
    """
    rng = random.Random(f"{seed} classification")
    passages: dict[str, list[str]] = {library: [] for library in LABELS}
    seen: set[str] = set()
    for document in documents:
        if document.library in LABELS:
            for run in _runs_without_library_name(document):
                for passage in _passages(run, 3, _MIN_WORDS, _MAX_WORDS):
                    if passage.lower() not in seen:
                        passages[document.library].append(passage)
                    seen.add(passage.lower())
    rows: list[tuple[str, ...]] = []
    for library, label in LABELS.items():
        selected = rng.sample(passages[library], min(per_label, len(passages[library])))
        rows += [(passage, label) for passage in selected]
    rng.shuffle(rows)
    return rows


def _runs_without_library_name(document: Document) -> Iterator[list[str]]:
    """Yields the maximal runs of consecutive sentences without a classified library's name.

    Two runs are never joined, so every n-gram of a passage also occurs in the document.
    """
    texts = [sentence.text for sentence in document.texts]
    for names_library, run in itertools.groupby(
        texts, lambda s: bool(LIBRARY_NAMES.search(s))
    ):
        if not names_library:
            yield list(run)


def _passages(
    sentences: Sequence[str], size: int, min_words: int, max_words: int
) -> Iterator[str]:
    """Yields passages that have at most `size` sentences and `min_words` to `max_words` words."""
    for start in range(0, len(sentences), size):
        passage = " ".join(sentences[start : start + size])
        if min_words <= len(passage.split()) <= max_words:
            yield passage


def pair_rows(
    documents: Sequence[Document], limit: int, seed: int
) -> list[tuple[str, ...]]:
    """Makes pairs of passages from one document, or from two documents of the same library.

    A passage has up to two sentences.

    Args:
        documents: The documents of one part.
        limit: The maximum number of pairs.
        seed: Seed of the random selection and order of the rows.

    Returns:
        Rows of `PAIR_COLUMNS`. Quality is "1" if both passages are from the same
        document, and "0" if they are from two documents of the same library. Before the
        limit is applied, both values are equally frequent. An ID identifies a passage.
    """
    rng = random.Random(f"{seed} pairs")
    by_library: dict[str, list[list[str]]] = {}
    for document in documents:
        sentences = [sentence.text for sentence in document.texts]
        passages = [*_passages(sentences, 2, _MIN_PAIR_WORDS, _MAX_PAIR_WORDS)]
        if len(passages) > 1:
            by_library.setdefault(document.library, []).append(passages)
    pairs: list[tuple[str, str, str]] = []
    for candidates in (each for each in by_library.values() if len(each) > 1):
        for number, passages in enumerate(candidates):
            first, second = rng.sample(passages, 2)
            # A random document of the same library, except this document.
            other = candidates[
                (number + rng.randrange(1, len(candidates))) % len(candidates)
            ]
            pairs += [("1", first, second), ("0", first, rng.choice(other))]
    rng.shuffle(pairs)
    ids: dict[str, int] = {}
    rows: list[tuple[str, ...]] = []
    for quality, first, second in pairs[:limit]:
        first_id, second_id = (
            str(ids.setdefault(s, len(ids) + 1)) for s in (first, second)
        )
        rows.append((quality, first_id, second_id, first, second))
    return rows


def choice_rows(
    documents: Sequence[Document], limit: int, seed: int
) -> list[tuple[str, ...]]:
    """Makes multiple-choice questions: which of four endings continues a sentence.

    As in SWAG, a question consists of a first sentence (the context) and the start of
    the next one. Here, the start is the first word. The three wrong endings are from
    sentences with the same first word in other documents of the same library.

    Args:
        documents: The documents of one part.
        limit: The maximum number of questions; each document gives at most one.
        seed: Seed of the random selection and order of the rows.

    Returns:
        Rows of `CHOICE_COLUMNS`.
    """
    rng = random.Random(f"{seed} continuations")
    endings: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for number, document in enumerate(documents):
        for sentence in document.texts:
            if parts := _start_and_ending(sentence.text):
                endings.setdefault((document.library, parts[0]), []).append(
                    (number, parts[1])
                )
    rows: list[tuple[str, ...]] = []
    for number in rng.sample(range(len(documents)), len(documents)):
        document = documents[number]
        candidates = [
            (before.text, *parts)
            for before, after in itertools.pairwise(document.texts)
            if after.follows and (parts := _start_and_ending(after.text))
        ]
        rng.shuffle(candidates)
        for context, start, ending in candidates:
            choices = _wrong_endings(
                endings[document.library, start], number, ending, rng
            )
            if choices and len(rows) < limit:
                answer = rng.randrange(4)
                choices.insert(answer, ending)
                index, phrase = str(len(rows)), f"{context} {start}"
                row = (index, document.name, index, phrase, context, start, "gold")
                rows.append((*row, *choices, str(answer)))
                break
    return rows


def _start_and_ending(sentence: str) -> tuple[str, str] | None:
    """Returns the first word and the rest of a sentence.

    None if the rest is too short or long.
    """
    start, _, ending = sentence.partition(" ")
    has_length = _MIN_ENDING_WORDS <= len(ending.split()) <= _MAX_ENDING_WORDS
    return (start, ending) if has_length else None


def _wrong_endings(
    pool: Sequence[tuple[int, str]], number: int, ending: str, rng: random.Random
) -> list[str]:
    """Returns three wrong endings for a sentence, or an empty list if there are too few.

    Args:
        pool: (document number, ending) pairs to choose from.
        number: Number of the document that contains the sentence. No ending is from
            this document.
        ending: The correct ending, which is not returned.
        rng: The random number generator.
    """
    sample = rng.sample(pool, min(12, len(pool)))
    by_document = {other: text for other, text in sample if other != number}
    distinct = list(
        dict.fromkeys(text for text in by_document.values() if text != ending)
    )
    return distinct[:3] if len(distinct) >= 3 else []
