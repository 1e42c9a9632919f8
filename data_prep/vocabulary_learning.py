"""Learns a WordPiece vocabulary from word counts.

The learner is that of tensorflow_text, Google's algorithm. It keeps the subwords whose frequency is
above a threshold; this module searches for the threshold that gives the requested vocabulary size.

Imports `errors`, `progress`, `tokenization`, `word_counts`; numpy; TensorFlow inside functions.
"""

import collections
import dataclasses
import heapq
import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.errors import InputError, check_at_least
from bert_tf.progress import Progress
from bert_tf.tokenization.unicode_tables import CJK
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS
from data_prep.word_counts import LONGEST_WORD

# Number of [unusedN] between [PAD] and [UNK] in the released files; [UNK] then has the id 100.
_UNUSED_BEFORE_UNK = 99
_SURPLUS = 0.02  # share of surplus subwords at which the search ends
_MAX_TRIALS = 12
_COVERAGE = 0.9995  # share of the text whose characters are covered, if they fit
_MIN_CHARACTERS = 1000  # number of characters to cover even if fewer give that share


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
    """Settings of a vocabulary.

    Attributes:
        vocab_size: Number of entries, exactly.
        do_lower_case: Whether text is lower-cased and its accents dropped.
        num_unused_tokens: Number of [unusedN] entries, free for later use. The first 99 are between
            [PAD] and [UNK], the others after [MASK], as in the released files. 99 gives the special
            tokens their released ids.
        max_words: Number of most frequent words that the learner reads. Its time and memory grow
            with this number.
        max_characters: Number of most frequent characters that the vocabulary covers; words with
            other characters become [UNK]. A character takes two entries, an ideograph one. 0 covers
            the characters that make up 99.95 % of the text, up to 1,000 characters while they fill
            less than half of the vocabulary, and more if the text gives too few subwords; never
            more than fit.

    Raises:
        InputError: A value is too small.
    """

    vocab_size: int = 30522
    do_lower_case: bool = True
    num_unused_tokens: int = 99
    max_words: int = 100_000
    max_characters: int = 0

    def __post_init__(self) -> None:
        check_at_least(0, self, "num_unused_tokens", "max_characters")
        check_at_least(1, self, "max_words")
        minimum = len(SPECIAL_TOKENS) + self.num_unused_tokens + 1
        if self.vocab_size < minimum:
            raise InputError(
                f"vocab_size must be at least {minimum} with num_unused_tokens "
                f"{self.num_unused_tokens}. Received: {self.vocab_size}."
            )

    @property
    def num_learned(self) -> int:
        """Number of entries for characters and subwords."""
        return self.vocab_size - len(SPECIAL_TOKENS) - self.num_unused_tokens


@dataclasses.dataclass(frozen=True)
class LearnedVocabulary:
    """A vocabulary, and the text that it does not cover.

    Attributes:
        tokens: The entries in the order of their ids.
        missing: Number of [unusedN] entries in addition to `num_unused_tokens`, because the text
            gave too few subwords.
        characters: Number of distinct characters in the text.
        uncovered: Number of distinct characters that the vocabulary does not cover.
        uncovered_share: Share of the characters of the text that are not covered, in [0, 1].
    """

    tokens: list[str]
    missing: int
    characters: int
    uncovered: int
    uncovered_share: float


def learn(counts: Mapping[str, int], config: VocabularyConfig) -> LearnedVocabulary:
    """Learns a vocabulary.

    Args:
        counts: Occurrences of each word.
        config: Size and other settings.

    Raises:
        InputError: There are no words, or `max_characters` characters do not fit.
    """
    ranked = _characters(counts)
    if not ranked:
        raise InputError("There are no words in the text. Check the input files.")
    number = _number_covered(ranked, config)
    subwords = _learn_covering(counts, ranked[:number], config)
    if not config.max_characters and len(subwords) < config.num_learned:
        # Fill the free entries with rarer characters and subwords that contain them.
        entries = config.num_learned - len(subwords) + int(_entries(ranked)[number - 1])
        if (more := _num_fitting(ranked, entries)) > number:
            subwords = _learn_covering(counts, ranked[:more], config)
    missing = config.num_learned - len(subwords)
    uncovered = dict(ranked).keys() - set(subwords)
    return LearnedVocabulary(
        _special_tokens(config.num_unused_tokens + missing) + subwords,
        missing,
        len(ranked),
        len(uncovered),
        sum(number for character, number in ranked if character in uncovered)
        / sum(number for _, number in ranked),
    )


def _characters(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts the characters; sorted from frequent to rare, then by code point."""
    found: collections.Counter[str] = collections.Counter()
    for word, number in counts.items():
        for character in word:
            found[character] += number
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _is_ideograph(character: str) -> bool:
    """Whether the tokenizer makes the character a word, so that it needs no entry with ##."""
    return any(first <= ord(character) <= last for first, last in CJK)


def _entries(ranked: Sequence[tuple[str, int]]) -> np.ndarray:
    """Returns the number of entries for the first n characters, for each n: int64 [characters]."""
    return np.cumsum([1 if _is_ideograph(character) else 2 for character, _ in ranked])


def _num_fitting(ranked: Sequence[tuple[str, int]], entries: int) -> int:
    """Returns the number of most frequent characters that need at most this number of entries."""
    return int(np.searchsorted(_entries(ranked), entries, side="right"))


def _number_covered(ranked: Sequence[tuple[str, int]], config: VocabularyConfig) -> int:
    """Returns the number of most frequent characters to cover.

    Raises:
        InputError: `max_characters` characters do not fit.
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


def _learn_covering(
    counts: Mapping[str, int], ranked: Sequence[tuple[str, int]], config: VocabularyConfig
) -> list[str]:
    """Learns at most `num_learned` subwords from the words that have only these characters."""
    characters = [character for character, _ in ranked]
    subwords = _search(_most_frequent(counts, characters, config), config)
    return _drop_rarest(subwords, config.num_learned)


def _most_frequent(
    counts: Mapping[str, int], characters: Sequence[str], config: VocabularyConfig
) -> list[tuple[str, int]]:
    """Returns the words to learn from, in an order that depends on the counts alone.

    A character that occurs only in rarer words is added as a word, so that it gets an entry.
    """
    known = set(characters)
    candidates = (item for item in counts.items() if known.issuperset(item[0]))
    words = heapq.nsmallest(config.max_words, candidates, key=lambda item: (-item[1], item[0]))
    in_words = {character for word, _ in words for character in word}
    return words + [(character, 1) for character in characters if character not in in_words]


def _search(words: Sequence[tuple[str, int]], config: VocabularyConfig) -> list[str]:
    """Searches the highest threshold that gives `num_learned` subwords, or a few more.

    The logarithm of the number of subwords is about linear in the logarithm of the threshold. Each
    trial therefore extrapolates the last two linearly, in logarithms.
    """
    goal = config.num_learned
    high = words[0][1] + 1  # a threshold that gives too few subwords
    low, best = 0, None  # the highest threshold that gave enough subwords, and the subwords
    trials: list[tuple[int, int]] = []
    threshold = max(1, words[min(goal, len(words)) - 1][1])
    with Progress("learning subwords", None, "trials") as progress:
        while low + 1 < high and len(trials) < _MAX_TRIALS:
            threshold = min(max(threshold, low + 1), high - 1)
            subwords = _learn_subwords(words, threshold, config)
            trials.append((threshold, len(subwords)))
            progress.update(1, f"threshold {threshold} gives {len(subwords)} of {goal}")
            if len(subwords) < goal:
                high = threshold
            else:
                low, best = threshold, subwords
                if len(subwords) <= goal * (1 + _SURPLUS):
                    break
            threshold = _next_threshold(trials, goal * (1 + _SURPLUS / 2))
    return subwords if best is None else best


def _next_threshold(trials: Sequence[tuple[int, int]], goal: float) -> int:
    """Extrapolates (threshold, number of subwords) of the last trials to the goal."""
    slope = -0.9  # of log(number) over log(threshold), measured on natural text
    threshold, number = trials[-1]
    if len(trials) > 1 and trials[-2][0] != threshold and trials[-2][1] != number:
        slope = math.log(number / trials[-2][1]) / math.log(threshold / trials[-2][0])
    change = math.log(goal / number) / min(slope, -0.1)
    return round(threshold * math.exp(min(max(change, -5), 5)))


def _learn_subwords(
    words: Sequence[tuple[str, int]], threshold: int, config: VocabularyConfig
) -> list[str]:
    """Runs the learner once: returns characters, then subwords from frequent to rare."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    subwords = learner.learn(
        words,
        vocab_size=config.vocab_size,
        reserved_tokens=[],
        upper_thresh=threshold,
        lower_thresh=threshold,
        max_unique_chars=sys.maxunicode,
        max_token_length=LONGEST_WORD,
    )
    return [
        subword
        for subword in subwords
        if not (len(subword) == 3 and subword.startswith("##") and _is_ideograph(subword[2]))
    ]


def _drop_rarest(subwords: list[str], number: int) -> list[str]:
    """Keeps this number of subwords; drops the rarest that are not single characters."""
    longer = [index for index, word in enumerate(subwords) if len(word.removeprefix("##")) > 1]
    dropped = set(longer[len(longer) - max(0, len(subwords) - number) :])
    return [word for index, word in enumerate(subwords) if index not in dropped]


def _special_tokens(num_unused: int) -> list[str]:
    """Returns [PAD], the first [unusedN], [UNK] [CLS] [SEP] [MASK], and the other [unusedN]."""
    unused = [f"[unused{index}]" for index in range(num_unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *unused[:_UNUSED_BEFORE_UNK], *others, *unused[_UNUSED_BEFORE_UNK:]]
