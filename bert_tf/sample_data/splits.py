"""Splits documents into train, dev and test, which share no eight words in a row.

Documentation contains many repetitions: two versions of a function often have the same
description, and many functions describe the same argument. With a random split of the
documents, some evaluation text would also be training text. Here, documents that share
any eight consecutive words are assigned to the same part, and so are documents that are
connected by a chain of such documents.
"""

import collections
import dataclasses
import random
import re
from collections.abc import Sequence

from bert_tf.sample_data.cleaning import Document

# In this module, an n-gram is a run of this number of consecutive words.
NGRAM_WORDS = 8
PARTS = ("train", "dev", "test")
# An n-gram that occurs in more than this number of documents is boilerplate. Sentences
# that contain boilerplate are dropped.
MAX_REPEATS = 8
# Groups of more than this number of documents are assigned to training, so that no
# topic dominates the held-out parts.
MAX_HELD_OUT_GROUP = 20
_WORD = re.compile(r"\w+")


def remove_boilerplate(documents: Sequence[Document]) -> list[Document]:
    """Drops sentences that share an n-gram with many documents.

    Documents that have fewer than two sentences after this step are dropped too.
    """
    ngrams = [[_ngrams(s.text) for s in document.texts] for document in documents]
    repeats = collections.Counter(
        ngram for document_ngrams in ngrams for ngram in set().union(*document_ngrams)
    )
    boilerplate = {ngram for ngram, count in repeats.items() if count > MAX_REPEATS}
    kept = [
        dataclasses.replace(
            document,
            texts=tuple(
                sentence
                for sentence, sentence_ngrams in zip(
                    document.texts, document_ngrams, strict=True
                )
                if sentence_ngrams.isdisjoint(boilerplate)
            ),
        )
        for document, document_ngrams in zip(documents, ngrams, strict=True)
    ]
    return [document for document in kept if len(document.texts) > 1]


def _ngrams(text: str) -> set[int]:
    """Returns hashes of the n-grams of a text; of a shorter text, the hash of all words.

    A word consists of letters, digits and "_". Upper and lower case are equal.
    """
    words = _WORD.findall(text.lower())
    last = max(len(words) - NGRAM_WORDS, 0)
    return {
        hash(tuple(words[start : start + NGRAM_WORDS])) for start in range(last + 1)
    }


def group_near_duplicates(documents: Sequence[Document]) -> list[int]:
    """Groups documents that share an n-gram, directly or through a chain of documents.

    Returns, for each document, the index of one document of its group.
    """
    parents = list(range(len(documents)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    first: dict[int, int] = {}
    for number, document in enumerate(documents):
        for ngram in _ngrams(" ".join(s.text for s in document.texts)):
            parents[root(first.setdefault(ngram, number))] = root(number)
    return [root(number) for number in range(len(documents))]


def assign_parts(
    documents: Sequence[Document], heldout_fraction: float, seed: int
) -> list[str]:
    """Assigns groups of near-duplicate documents to `PARTS`, library by library.

    At most `heldout_fraction` of the characters of each library is held out, one half
    for dev and one half for test. Returns the part of each document.
    """
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(group_near_duplicates(documents)):
        groups.setdefault(group, []).append(number)

    sizes = [sum(len(s.text) for s in document.texts) for document in documents]
    parts = ["train"] * len(documents)

    for library in sorted({document.library for document in documents}):
        # A group with documents of several libraries is assigned with its first
        # document's library.
        in_library = [g for g in groups.values() if documents[g[0]].library == library]
        random.Random(f"{seed} {library}").shuffle(in_library)
        total = sum(
            s for s, d in zip(sizes, documents, strict=True) if d.library == library
        )

        # Each group goes to the part that can take more characters, or to training.
        remaining = dict.fromkeys(("dev", "test"), heldout_fraction / 2 * total)
        for group_members in in_library:
            size = sum(sizes[number] for number in group_members)
            part = max(remaining, key=lambda name: remaining[name])
            if len(group_members) <= MAX_HELD_OUT_GROUP and size <= remaining[part]:
                remaining[part] -= size
                for number in group_members:
                    parts[number] = part
    return parts
