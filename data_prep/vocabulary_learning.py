"""Learns a WordPiece vocabulary from word counts.

Google's WordPiece learner in tensorflow_text keeps the subwords whose frequency reaches a
threshold. This module searches for the threshold that gives the requested vocabulary size.

Imports `errors`, `progress`, `tokenization`, `word_counts` and numpy, and TensorFlow Text inside
a function.
"""

import collections
import dataclasses
import heapq
import math
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.data_prep.word_counts import LONGEST_WORD
from bert_tf.errors import InputError, check_at_least, check_between
from bert_tf.progress import Progress
from bert_tf.tokenization.unicode_tables import CJK
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS

# Number of [unusedN] entries between [PAD] and [UNK] in google-research/bert. There,
# the id of [UNK] is 100.
_UNUSED_BEFORE_UNK = 99
# The search ends when the number of subwords exceeds the requested number by at most this share.
_SURPLUS = 0.02
_MAX_TRIALS = 12
# Far above the size of any published vocabulary; [unusedN] entries would fill a larger one.
_MAX_SIZE = 2_000_000
# By default, the vocabulary covers the characters that make up this share of the text.
_COVERAGE = 0.9995
# If fewer characters make up that share, further characters are covered, up to 1000 in total, as
# long as all characters together take at most half of the entries.
_MIN_CHARACTERS = 1000


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
    """Settings of a vocabulary.

    Attributes:
        vocab_size: Exact number of entries of the vocabulary.
        do_lower_case: Whether to lower-case the text and to remove its accents.
        num_unused_tokens: Number of [unusedN] entries, which are reserved for later use. The first
            99 are between [PAD] and [UNK], the others after [MASK], as in google-research/bert.
            With 99, the special tokens have the same ids as in google-research/bert.
        max_words: The learner reads this number of the most frequent words. The time and memory of
            the learner grow with this number.
        max_characters: The vocabulary covers this number of the most frequent characters; words
            with other characters become [UNK]. A CJK ideograph takes one entry, every other
            character two (with and without ##). If 0, the vocabulary covers the characters that
            make up 99.95 % of the text, or as many of these characters as fit. If
            fewer than 1,000 characters make up this share, the vocabulary covers up to 1,000
            characters, in at most half of its entries. If the text gives too few subwords, the
            vocabulary covers further characters.

    Raises:
        InputError: A value is out of range.
    """

    vocab_size: int = 30522
    do_lower_case: bool = True
    num_unused_tokens: int = 99
    max_words: int = 100_000
    max_characters: int = 0

    def __post_init__(self) -> None:
        check_at_least(0, self, "max_characters")
        check_at_least(1, self, "max_words")
        check_between(0, _MAX_SIZE // 2, self, "num_unused_tokens")
        minimum = len(SPECIAL_TOKENS) + self.num_unused_tokens + 1
        check_between(minimum, _MAX_SIZE, self, "vocab_size")

    @property
    def num_learned(self) -> int:
        """Number of entries that are characters or subwords, not special or unused tokens."""
        return self.vocab_size - len(SPECIAL_TOKENS) - self.num_unused_tokens


@dataclasses.dataclass(frozen=True)
class LearnedVocabulary:
    """A vocabulary, and statistics of the characters that the vocabulary does not cover.

    Attributes:
        tokens: The entries in the order of their ids.
        missing: Number of [unusedN] entries beyond `num_unused_tokens`. These entries fill the
            vocabulary if the text gives too few subwords and words.
        added: Number of less useful subwords and of words at the end of `tokens`. These entries
            fill the vocabulary if the text gives too few subwords.
        characters: Number of distinct characters in the text.
        uncovered: Number of distinct characters that the vocabulary does not cover.
        unknown: Number of occurrences of words with such a character: each becomes [UNK].
    """

    tokens: list[str]
    missing: int
    added: int
    characters: int
    uncovered: int
    unknown: int


def learn(counts: Mapping[str, int], config: VocabularyConfig) -> LearnedVocabulary:
    """Learns a vocabulary from word counts.

    Args:
        counts: Number of occurrences of each word.
        config: The settings of the vocabulary.

    Raises:
        InputError: `counts` is empty, or `vocab_size` is too small for `max_characters` characters.
    """
    ranked = _characters(counts)
    if not ranked:
        raise InputError("There are no words in the text. Check the input files.")
    number = _number_covered(ranked, config)
    subwords, added = _search(_most_frequent(counts, ranked[:number], config), config)
    if not config.max_characters and len(subwords) < config.num_learned:
        # Fill the free entries with rarer characters, and with subwords that contain these.
        entries = config.num_learned - len(subwords) + int(_entries(ranked)[number - 1])
        if (more := _num_fitting(ranked, entries)) > number:
            subwords, added = _search(_most_frequent(counts, ranked[:more], config), config)
    missing = config.num_learned - len(subwords)
    uncovered = dict(ranked).keys() - set(subwords)
    return LearnedVocabulary(
        _special_tokens(config.num_unused_tokens + missing) + subwords,
        missing,
        added,
        len(ranked),
        len(uncovered),
        sum(number for word, number in counts.items() if not uncovered.isdisjoint(word)),
    )


def _characters(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns (character, occurrences), from frequent to rare; equal counts in code point order."""
    found: collections.Counter[str] = collections.Counter()
    for word, number in counts.items():
        for character in word:
            found[character] += number
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _is_ideograph(character: str) -> bool:
    """Whether the tokenizer makes the character a separate word.

    Such a character needs no entry with "##".
    """
    return any(first <= ord(character) <= last for first, last in CJK)


def _entries(ranked: Sequence[tuple[str, int]]) -> np.ndarray:
    """Returns how many entries the first 1, 2, ... ranked characters take, int64 [characters]."""
    return np.cumsum([1 if _is_ideograph(character) else 2 for character, _ in ranked])


def _num_fitting(ranked: Sequence[tuple[str, int]], entries: int) -> int:
    """Returns how many of the most frequent characters fit in this number of entries."""
    return int(np.searchsorted(_entries(ranked), entries, side="right"))


def _number_covered(ranked: Sequence[tuple[str, int]], config: VocabularyConfig) -> int:
    """Returns how many of the most frequent characters the vocabulary covers.

    Raises:
        InputError: `vocab_size` is too small for `max_characters` characters.
    """
    if config.max_characters:
        number = min(config.max_characters, len(ranked))
    else:
        occurrences = np.cumsum([number for _, number in ranked])
        needed = int(np.searchsorted(occurrences, _COVERAGE * occurrences[-1])) + 1
        half = min(_num_fitting(ranked, config.num_learned // 2), _MIN_CHARACTERS)
        number = max(1, min(max(needed, half), _num_fitting(ranked, config.num_learned)))
    entries = _entries(ranked)[number - 1]
    if entries > config.num_learned:
        raise InputError(
            f"{number} characters take {entries} entries (an ideograph one, others two), but "
            f"vocab_size leaves {config.num_learned}. Raise vocab_size or lower max_characters."
        )
    return number


def _most_frequent(
    counts: Mapping[str, int], ranked: Sequence[tuple[str, int]], config: VocabularyConfig
) -> list[tuple[str, int]]:
    """Returns the most frequent words with only ranked characters, in an order without ties.

    A character that does not occur in these words is added as a word, so that the vocabulary gets
    an entry for it.
    """
    known = {character for character, _ in ranked}
    candidates = (
        item
        for item in counts.items()
        if known.issuperset(item[0]) and len(item[0]) <= LONGEST_WORD
    )
    words = heapq.nsmallest(config.max_words, candidates, key=lambda item: (-item[1], item[0]))
    in_words = {character for word, _ in words for character in word}
    return words + [(character, 1) for character, _ in ranked if character not in in_words]


def _search(words: Sequence[tuple[str, int]], config: VocabularyConfig) -> tuple[list[str], int]:
    """Searches for the threshold that gives `num_learned` subwords.

    The search ends at a threshold that gives at most 2 % more subwords; the rarest are dropped. In
    a small text, one threshold may give too few subwords, and the next lower one far more. Without
    most of its rare subwords, a vocabulary splits words into more tokens than a smaller vocabulary
    that is complete. So the subwords of the higher threshold are kept, and the most frequent others
    of the lower threshold fill up the entries.

    At a threshold that every word reaches, the subwords are these words and no parts of words, and
    there are few parts of words at the next threshold. The search therefore uses higher thresholds
    only. If none of these gives enough subwords, the subwords of the neighboring thresholds and
    then the most frequent words fill up the entries.

    log(number of subwords) is about linear in log(threshold), so each new threshold is
    extrapolated linearly, in logarithms, from the last two trials.

    Returns:
        At most `num_learned` subwords, and how many of them fill entries because no threshold gives
        enough.
    """
    goal = config.num_learned
    # The highest threshold that gave enough subwords or that is too low for parts of words.
    low = min((number for word, number in words if len(word) > 1), default=0) + 1
    high = max(words[0][1], low + 1) + 1  # the lowest known threshold that gives too few subwords
    few, best = [], []  # the subwords of the thresholds `high` and `low`, if they were tried
    trials: list[tuple[int, int]] = []
    threshold = max(1, words[min(goal, len(words)) - 1][1])
    with Progress("learning subwords", None, "trials") as progress:
        while low + 1 < high and len(trials) < _MAX_TRIALS:
            threshold = min(max(threshold, low + 1), high - 1)
            subwords = _learn_subwords(words, threshold)
            trials.append((threshold, len(subwords)))
            progress.update(1, f"threshold {threshold} gives {len(subwords)} of {goal}")
            if len(subwords) < goal:
                high, few = threshold, subwords
            else:
                low, best = threshold, subwords
                if len(subwords) <= goal * (1 + _SURPLUS):
                    break
            threshold = _next_threshold(trials, goal * (1 + _SURPLUS / 2))
    if best and (not few or len(best) <= goal * (1 + _SURPLUS)):
        return _drop_rarest(best, goal), 0
    if best:
        return list(dict.fromkeys(few + best))[:goal], 0
    others = _learn_subwords(words, low) + _learn_subwords(words, high + 1)
    filled = list(dict.fromkeys([*few, *others, *(word for word, _ in words)]))[:goal]
    return filled, len(filled) - len(few)


def _next_threshold(trials: Sequence[tuple[int, int]], goal: float) -> int:
    """Extrapolates from the last trials to the threshold that gives `goal` subwords.

    Args:
        trials: (threshold, number of subwords) of each trial.
        goal: The number of subwords to aim at.
    """
    # Initial estimate of d log(number of subwords) / d log(threshold), measured on natural text.
    slope = -0.9
    threshold, number = trials[-1]
    if len(trials) > 1 and trials[-2][0] != threshold and trials[-2][1] != number:
        slope = math.log(number / trials[-2][1]) / math.log(threshold / trials[-2][0])
    change = math.log(goal / number) / min(slope, -0.1)
    return round(threshold * math.exp(min(max(change, -5), 5)))


def _learn_subwords(words: Sequence[tuple[str, int]], threshold: int) -> list[str]:
    """Runs the learner once; returns the characters, then the subwords from frequent to rare."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    # Most settings are for the learner's own search of a threshold.
    settings = dict.fromkeys(learner.Params._fields)
    settings.update(num_iterations=4, max_token_length=LONGEST_WORD, reserved_tokens=[])
    settings.update(include_joiner_token=True, joiner="##")
    subwords = learner.learn_with_thresh(words, threshold, learner.Params(**settings))
    return [
        subword
        for subword in subwords
        if not (len(subword) == 3 and subword.startswith("##") and _is_ideograph(subword[2]))
    ]


def _drop_rarest(subwords: list[str], number: int) -> list[str]:
    """Drops the rarest subwords of two or more characters until `number` subwords remain."""
    longer = [index for index, word in enumerate(subwords) if len(word.removeprefix("##")) > 1]
    dropped = set(longer[len(longer) - max(0, len(subwords) - number) :])
    return [word for index, word in enumerate(subwords) if index not in dropped]


def _special_tokens(num_unused: int) -> list[str]:
    """Returns [PAD], up to 99 [unusedN], [UNK], [CLS], [SEP], [MASK], and the other [unusedN]."""
    unused = [f"[unused{index}]" for index in range(num_unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *unused[:_UNUSED_BEFORE_UNK], *others, *unused[_UNUSED_BEFORE_UNK:]]
