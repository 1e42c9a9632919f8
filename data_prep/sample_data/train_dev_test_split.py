"""Splits documents into train, dev and test parts that share no eight consecutive words.

Documentation contains many repetitions: two versions of a function often have the same description,
and many functions describe the same argument. With a random split of the documents, some evaluation
text would also be training text. Here, documents that share any eight consecutive words are
assigned to the same part, and so are documents that are connected by a chain of such documents.
"""

import dataclasses
import random
import re
from collections.abc import Iterator, Sequence

import numpy as np

from bert_tf.data_prep.sample_data.sentences import Document, Sentence

# In this module, an n-gram is a run of this number of consecutive words.
NGRAM_WORDS = 8
PARTS = ("train", "dev", "test")
# An n-gram that occurs in more than this number of documents is boilerplate. Sentences that contain
# boilerplate are dropped.
MAX_REPEATS = 8
# Groups of more than this number of documents are assigned to training, so that no topic dominates
# the held-out parts.
MAX_HELD_OUT_GROUP = 20
_WORD = re.compile(r"\w+")
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def remove_boilerplate(documents: Sequence[Document]) -> list[Document]:
    """Drops sentences that share an n-gram with many documents.

    Documents that have fewer than two sentences after this step are dropped too.
    """
    sentences = [sentence for document in documents for sentence in document.sentences]
    counts = [len(document.sentences) for document in documents]
    document_of: np.ndarray = np.repeat(np.arange(len(documents)), counts)
    # A sentence with fewer words than an n-gram is padded to the length of one n-gram.
    words = [_words(sentence.text) for sentence in sentences]
    hashes, sentence_of = _ngram_hashes([w + [""] * (NGRAM_WORDS - len(w)) for w in words])
    pairs = np.unique(np.stack([hashes, document_of[sentence_of].astype(np.uint64)]), axis=1)
    ngrams, repeats = np.unique(pairs[0], return_counts=True)
    dropped: np.ndarray = np.zeros(len(sentences), bool)
    dropped[sentence_of[np.isin(hashes, ngrams[repeats > MAX_REPEATS])]] = True
    keep = iter((~dropped).tolist())
    kept = [
        dataclasses.replace(document, sentences=_kept_sentences(document.sentences, keep))
        for document in documents
    ]
    return [document for document in kept if len(document.sentences) > 1]


def _kept_sentences(sentences: Sequence[Sentence], keep: Iterator[bool]) -> tuple[Sentence, ...]:
    kept: list[Sentence] = []
    previous_kept = True
    for sentence in sentences:
        is_kept = next(keep)
        if is_kept:
            kept.append(dataclasses.replace(sentence, follows=sentence.follows and previous_kept))
        previous_kept = is_kept
    return tuple(kept)


def _words(text: str) -> list[str]:
    """Returns the words of a text in lower case; a word consists of letters, digits and "_"."""
    return _WORD.findall(text.lower())


def _ngram_hashes(texts: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes all n-grams of `NGRAM_WORDS` consecutive words of each text.

    Args:
        texts: The words of each text.

    Returns:
        hashes: uint64 [N], the hash of each n-gram.
        text_numbers: int64 [N], the index of the text that contains the n-gram.
    """
    ids: dict[str, int] = {}
    word_ids = np.array(
        [ids.setdefault(word, len(ids) + 1) for words in texts for word in words], np.uint64
    )
    text_of: np.ndarray = np.repeat(np.arange(len(texts)), [len(words) for words in texts])
    if len(word_ids) < NGRAM_WORDS:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    count = len(word_ids) - NGRAM_WORDS + 1
    hashes: np.ndarray = np.zeros(count, np.uint64)
    for offset in range(NGRAM_WORDS):
        hashes = (hashes ^ word_ids[offset : offset + count]) * _HASH_FACTOR
        hashes ^= hashes >> np.uint64(29)
    in_one_text = text_of[:count] == text_of[NGRAM_WORDS - 1 :]
    return hashes[in_one_text], text_of[:count][in_one_text]


def group_near_duplicates(documents: Sequence[Document]) -> np.ndarray:
    """Groups documents that share an n-gram.

    Documents are also in the same group if a chain of documents connects them and each document of
    the chain shares an n-gram with the next one.

    Returns:
        The group number of each document, int32 [number of documents].
    """
    from scipy.sparse import coo_matrix, csgraph  # type: ignore[import-untyped]

    texts = [" ".join(s.text for s in document.sentences) for document in documents]
    hashes, document_of = _ngram_hashes([_words(text) for text in texts])
    order = np.lexsort((document_of, hashes))
    hashes, document_of = hashes[order], document_of[order]
    same = hashes[1:] == hashes[:-1]
    edges = (document_of[:-1][same], document_of[1:][same])
    graph = coo_matrix((np.ones(len(edges[0]), bool), edges), shape=(len(documents),) * 2)
    return csgraph.connected_components(graph, directed=False)[1]


def assign_parts(documents: Sequence[Document], heldout_fraction: float, seed: int) -> list[str]:
    """Assigns groups of near-duplicate documents to parts, library by library.

    Args:
        documents: The documents.
        heldout_fraction: At most this share of the characters of each library is held out, one half
            for dev and one half for test.
        seed: Seed of the order in which groups are assigned.

    Returns:
        The part of each document, one of `PARTS`.
    """
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(group_near_duplicates(documents).tolist()):
        groups.setdefault(group, []).append(number)
    sizes = [sum(len(s.text) for s in document.sentences) for document in documents]
    parts = ["train"] * len(documents)
    for library in sorted({document.library for document in documents}):
        # A group with documents of several libraries is assigned with its first document's library.
        in_library = [g for g in groups.values() if documents[g[0]].library == library]
        random.Random(f"{seed} {library}").shuffle(in_library)
        total = sum(s for s, d in zip(sizes, documents, strict=True) if d.library == library)
        remaining = dict.fromkeys(("dev", "test"), heldout_fraction / 2 * total)
        for group_members in in_library:
            size = sum(sizes[number] for number in group_members)
            part = max(remaining, key=lambda name: remaining[name])
            if len(group_members) <= MAX_HELD_OUT_GROUP and size <= remaining[part]:
                remaining[part] -= size
                for number in group_members:
                    parts[number] = part
    return parts
