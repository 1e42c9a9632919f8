"""Learns a WordPiece vocabulary from word counts.

Google's WordPiece learner in tensorflow_text keeps the subwords whose frequency reaches
a threshold. This module unites the subwords of several thresholds, so that each
vocabulary contains all smaller vocabularies of the same text.
"""

import collections
import dataclasses
import heapq
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.config_fields import documented, option
from bert_tf.errors import InputError, check_at_least, check_between
from bert_tf.progress import Progress
from bert_tf.tokenization.unicode_tables import CJK
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS
from bert_tf.vocabularies.word_counts import LONGEST_WORD

# Number of [unusedN] entries between [PAD] and [UNK] in google-research/bert. There,
# the id of [UNK] is 100.
_UNUSED_BEFORE_UNK = 99
# Far above the size of any published vocabulary. A larger vocabulary would be filled
# with [unusedN] entries.
_MAX_SIZE = 2_000_000
# By default, the vocabulary covers the characters that make up this share of the text.
_COVERAGE = 0.9995
# If fewer characters make up that share, further characters are covered, up to 1000 in
# total, as long as all characters together take at most half of the entries.
_MIN_CHARACTERS = 1000
# The learner stores each part (substring) of each word. A word of 13 characters has
# about 100 parts.
_PARTS_PER_WORD = 100


@documented
@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
    """Settings of the vocabulary that `learn` creates.

    Raises:
        InputError: A value is out of range.
    """

    vocab_size: int = option(30522, "Exact number of entries of the vocabulary.")
    do_lower_case: bool = option(
        True, "Whether to lower-case the text and to remove its accents."
    )
    num_unused_tokens: int = option(
        99,
        "Number of [unusedN] entries, which are reserved for later use. The first 99 "
        "are between [PAD] and [UNK], the others after [MASK], as in "
        "google-research/bert. With 99, the special tokens have the same ids as in "
        "google-research/bert.",
    )
    max_words: int = option(
        100_000,
        "The learner reads this number of the most frequent words. The time and "
        "memory of the learner grow with this number. Fewer are read if they have "
        "more than 13 characters on average.",
    )
    max_characters: int = option(
        0,
        "The vocabulary covers this number of the most frequent characters; words "
        "with other characters become [UNK]. A CJK ideograph takes one entry, every "
        "other character two (with and without ##). If 0, the vocabulary covers the "
        "characters that make up 99.95 % of the text, or as many of these characters "
        "as fit. If fewer than 1,000 characters make up this share, the vocabulary "
        "covers up to 1,000 characters, in at most half of its entries. If the text "
        "gives too few subwords, the vocabulary covers further characters.",
    )

    def __post_init__(self) -> None:
        check_at_least(0, self, "max_characters")
        check_at_least(1, self, "max_words")
        check_between(0, _MAX_SIZE // 2, self, "num_unused_tokens")
        minimum = len(SPECIAL_TOKENS) + self.num_unused_tokens + 1
        check_between(minimum, _MAX_SIZE, self, "vocab_size")

    @property
    def num_learned(self) -> int:
        """Number of characters and subwords, without special and unused tokens."""
        return self.vocab_size - len(SPECIAL_TOKENS) - self.num_unused_tokens


@dataclasses.dataclass(frozen=True)
class LearnedVocabulary:
    """A vocabulary, and statistics of the characters that it does not cover.

    Attributes:
        tokens: The entries in the order of their ids.
        missing: Number of [unusedN] entries beyond `num_unused_tokens`, which fill the
            vocabulary if the text gives too few subwords and words.
        added: Number of words and less useful subwords at the end of `tokens`, which
            fill the vocabulary if the text gives too few subwords.
        characters: Number of distinct characters in the text.
        uncovered: Number of these characters that the vocabulary does not cover.
        unknown: Number of occurrences of words that become [UNK], because they contain
            uncovered characters.
    """

    tokens: list[str]
    missing: int
    added: int
    characters: int
    uncovered: int
    unknown: int


def learn(counts: Mapping[str, int], config: VocabularyConfig) -> LearnedVocabulary:
    """Learns a vocabulary from the number of occurrences of each word."""
    ranked = _characters(counts)
    if not ranked:
        raise InputError("There are no words in the text. Check the input files.")

    number = _number_covered(ranked, config)
    subwords, added = _collect(counts, ranked[:number], config)

    if not config.max_characters and len(subwords) < config.num_learned:
        # Fill the free entries with rarer characters, and with subwords that contain
        # these.
        entries = config.num_learned - len(subwords) + int(_entries(ranked)[number - 1])
        if (more := _num_fitting(ranked, entries)) > number:
            subwords, added = _collect(counts, ranked[:more], config)

    missing = config.num_learned - len(subwords)
    uncovered = dict(ranked).keys() - subwords
    return LearnedVocabulary(
        _special_tokens(config.num_unused_tokens + missing) + subwords,
        missing,
        added=added,
        characters=len(ranked),
        uncovered=len(uncovered),
        unknown=sum(
            number for word, number in counts.items() if not uncovered.isdisjoint(word)
        ),
    )


def _characters(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns (character, occurrences) pairs from frequent to rare; ties by code point."""
    occurrences: collections.Counter[str] = collections.Counter()
    for word, number in counts.items():
        for character in word:
            occurrences[character] += number
    return sorted(occurrences.items(), key=lambda item: (-item[1], item[0]))


def _is_ideograph(character: str) -> bool:
    """Whether a character is CJK: a word for the tokenizer, which needs no entry with "##"."""
    return any(first <= ord(character) <= last for first, last in CJK)


def _entries(ranked: Sequence[tuple[str, int]]) -> np.ndarray:
    """Returns how many entries the first n characters take, for n = 1 to N: int64 [N]."""
    return np.cumsum([1 if _is_ideograph(character) else 2 for character, _ in ranked])


def _num_fitting(ranked: Sequence[tuple[str, int]], entries: int) -> int:
    """Returns how many of the most frequent characters fit in this number of entries."""
    return int(np.searchsorted(_entries(ranked), entries, side="right"))


def _number_covered(ranked: Sequence[tuple[str, int]], config: VocabularyConfig) -> int:
    """Returns how many of the most frequent characters the vocabulary covers."""
    if config.max_characters:
        number = min(config.max_characters, len(ranked))
    else:
        occurrences = np.cumsum([number for _, number in ranked])
        needed = int(np.searchsorted(occurrences, _COVERAGE * occurrences[-1])) + 1
        half = min(_num_fitting(ranked, config.num_learned // 2), _MIN_CHARACTERS)
        number = max(
            1, min(max(needed, half), _num_fitting(ranked, config.num_learned))
        )
    entries = _entries(ranked)[number - 1]
    if entries > config.num_learned:
        raise InputError(
            f"{number} characters take {entries} entries (an ideograph one, others "
            f"two), but vocab_size leaves {config.num_learned}. Raise vocab_size or "
            "lower max_characters."
        )
    return number


def _most_frequent(
    counts: Mapping[str, int],
    ranked: Sequence[tuple[str, int]],
    config: VocabularyConfig,
) -> list[tuple[str, int]]:
    """Returns the most frequent words that contain only `ranked` characters, and their counts.

    Equally frequent words are in alphabetical order. A ranked character that does not
    occur in these words is added as a word, so that the vocabulary gets an entry for
    the character.
    """
    known = {character for character, _ in ranked}
    candidates = (
        item
        for item in counts.items()
        if known.issuperset(item[0]) and len(item[0]) <= LONGEST_WORD
    )
    words = heapq.nsmallest(
        config.max_words, candidates, key=lambda item: (-item[1], item[0])
    )
    parts = np.cumsum([len(word) * (len(word) + 1) // 2 for word, _ in words])
    words = words[: np.searchsorted(parts, _PARTS_PER_WORD * config.max_words, "right")]
    in_words = {character for word, _ in words for character in word}
    return words + [
        (character, 1) for character, _ in ranked if character not in in_words
    ]


def _collect(
    counts: Mapping[str, int],
    ranked: Sequence[tuple[str, int]],
    config: VocabularyConfig,
) -> tuple[list[str], int]:
    """Collects subwords at thresholds from high to low, until there are enough.

    The lowest threshold is the frequency of the rarest word, the others are 2, 3, 5, 8,
    128, 2048, ... times as high. The thresholds depend only on the words, and subwords
    of higher thresholds are kept. So for the same words, each vocabulary contains all
    smaller vocabularies, and more entries do not make a vocabulary worse. At the lowest
    threshold, each word becomes a subword, and no part of a word does.

    Returns:
        At most `num_learned` subwords, and the number of subwords among them that only
        the lowest threshold gives.
    """
    words = _most_frequent(counts, ranked, config)
    lowest = min((number for word, number in words if len(word) > 1), default=1)
    # Thresholds far above the frequency of this word would give only a few subwords of
    # very frequent words.
    frequent = words[len(words) // 200][1]
    thresholds = [lowest * multiple for multiple in (1, 2, 3, 5, 8)]
    while thresholds[-1] < frequent:
        thresholds.append(16 * thresholds[-1])
    goal = config.num_learned
    pieces: dict[str, None] = {}
    with Progress("learning subwords", None, "thresholds") as progress:
        for threshold in reversed(thresholds):
            without = len(pieces) if threshold == lowest else goal
            pieces.update(dict.fromkeys(_learn_subwords(words, threshold)))
            progress.update(
                1, f"threshold {threshold}: {len(pieces)} of {goal} subwords"
            )
            if len(pieces) >= goal:
                break
    subwords = sorted(pieces, key=lambda word: len(word.removeprefix("##")) > 1)[:goal]
    return subwords, max(0, len(subwords) - without)


def _learn_subwords(words: Sequence[tuple[str, int]], threshold: int) -> list[str]:
    """Runs the learner once; returns the characters, then subwords from frequent to rare."""
    from tensorflow_text.tools.wordpiece_vocab import (
        wordpiece_tokenizer_learner_lib as learner,
    )

    # Most settings are for the learner's own search of a threshold.
    settings = dict.fromkeys(learner.Params._fields)
    settings.update(
        num_iterations=4,
        max_token_length=LONGEST_WORD,
        reserved_tokens=[],
        include_joiner_token=True,
        joiner="##",
    )
    subwords = learner.learn_with_thresh(words, threshold, learner.Params(**settings))
    return [
        subword
        for subword in subwords
        if not (
            len(subword) == 3 and subword.startswith("##") and _is_ideograph(subword[2])
        )
    ]


def _special_tokens(num_unused: int) -> list[str]:
    """Returns [PAD], up to 99 [unusedN], the special tokens, the other [unusedN]."""
    unused = [f"[unused{index}]" for index in range(num_unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *unused[:_UNUSED_BEFORE_UNK], *others, *unused[_UNUSED_BEFORE_UNK:]]
