"""The held-out part: no run of eight words of it stands in the training part.

Documentation repeats itself: two versions of a function, an argument described alike in many
places. A split at random would ask for what was shown. So documents that share any eight words in
a row, directly or over others, stay together. Imports `sentences`.
"""

import dataclasses
import random
import re
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import coo_matrix, csgraph  # type: ignore[import-untyped]

from data_prep.sample_data.sentences import Sentence, Text

GRAM = 8
PARTS = ("train", "dev", "test")
# A run of words in more documents than this is boilerplate: the sentence with it goes.
MAX_REPEATS = 8
# Larger groups are for training, so that no one topic fills the held-out part.
MAX_HELD_OUT_GROUP = 20
_WORD = re.compile(r"\w+")
_MIX = np.uint64(0x9E3779B97F4A7C15)


def words(text: str) -> list[str]:
    """The words that near-duplicates are judged by: lower-case letters, digits and "_"."""
    return _WORD.findall(text.lower())


def without_boilerplate(texts: Sequence[Text]) -> list[Text]:
    """Drops sentences with a run of words that stands in many documents, then short documents."""
    sentences = [sentence for text in texts for sentence in text.sentences]
    document_of: np.ndarray = np.repeat(
        np.arange(len(texts)), [len(text.sentences) for text in texts]
    )
    # Shorter sentences count whole.
    hashes, sentence_of = _grams([words(sentence.text) for sentence in sentences], short=True)
    pairs = np.unique(np.stack([hashes, document_of[sentence_of].astype(np.uint64)]), axis=1)
    gram, repeats = np.unique(pairs[0], return_counts=True)
    common = gram[repeats > MAX_REPEATS]
    dropped: np.ndarray = np.zeros(len(sentences), bool)
    dropped[sentence_of[np.isin(hashes, common)]] = True
    keep = iter((~dropped).tolist())
    kept = [dataclasses.replace(text, sentences=_kept(text.sentences, keep)) for text in texts]
    return [text for text in kept if len(text.sentences) > 1]


def _kept(sentences: Sequence[Sentence], keep: Iterator[bool]) -> tuple[Sentence, ...]:
    found: list[Sentence] = []
    gap = False
    for sentence in sentences:
        if next(keep):
            found.append(dataclasses.replace(sentence, follows=sentence.follows and not gap))
            gap = False
        else:
            gap = True
    return tuple(found)


def _grams(texts: list[list[str]], short: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all runs of `GRAM` words, and the number of the text that each is from.

    Args:
        texts: Words.
        short: Whether a text with fewer words gives one run, of all its words.

    Returns:
        hashes: uint64 [N].
        owners: int64 [N].
    """
    if short:
        texts = [each + [""] * (GRAM - len(each)) for each in texts]
    ids: dict[str, int] = {}
    flat = np.array([ids.setdefault(w, len(ids) + 1) for each in texts for w in each], np.uint64)
    owners: np.ndarray = np.repeat(np.arange(len(texts)), [len(each) for each in texts])
    if len(flat) < GRAM:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    count = len(flat) - GRAM + 1
    hashes: np.ndarray = np.zeros(count, np.uint64)
    for offset in range(GRAM):
        hashes = (hashes ^ flat[offset : offset + count]) * _MIX
        hashes ^= hashes >> np.uint64(29)
    whole = owners[:count] == owners[GRAM - 1 :]
    return hashes[whole], owners[:count][whole]


def components(texts: Sequence[Text]) -> np.ndarray:
    """Groups documents that share a run of `GRAM` words, directly or over others.

    Returns:
        The number of the group of each document, int32 [number of documents].
    """
    hashes, owners = _grams([words(" ".join(s.text for s in text.sentences)) for text in texts])
    order = np.lexsort((owners, hashes))
    hashes, owners = hashes[order], owners[order]
    same = hashes[1:] == hashes[:-1]
    edges = (owners[:-1][same], owners[1:][same])
    graph = coo_matrix((np.ones(len(edges[0]), bool), edges), shape=(len(texts),) * 2)
    return csgraph.connected_components(graph, directed=False)[1]


def parts(texts: Sequence[Text], heldout_fraction: float, seed: int) -> list[str]:
    """Deals whole groups of documents to the parts, library by library.

    Args:
        texts: The documents.
        heldout_fraction: The share of each library's words that is not for training; half of it
            is for development, half for testing.
        seed: Of the order in which groups are dealt.

    Returns:
        The part of each document, one of `PARTS`.
    """
    groups: dict[int, list[int]] = {}
    for document, group in enumerate(components(texts).tolist()):
        groups.setdefault(group, []).append(document)
    sizes = [sum(len(s.text) for s in text.sentences) for text in texts]
    found = ["train"] * len(texts)
    for library in sorted({text.library for text in texts}):
        # A group of several libraries counts for that of its first document.
        own = [each for each in groups.values() if texts[each[0]].library == library]
        total = sum(
            size for size, text in zip(sizes, texts, strict=True) if text.library == library
        )
        random.Random(f"{seed} {library}").shuffle(own)
        share = {"dev": heldout_fraction / 2 * total, "test": heldout_fraction / 2 * total}
        for members in own:
            size = sum(sizes[each] for each in members)
            part = max(share, key=lambda name: share[name])
            if len(members) <= MAX_HELD_OUT_GROUP and size <= share[part]:
                share[part] -= size
                for each in members:
                    found[each] = part
    return found
