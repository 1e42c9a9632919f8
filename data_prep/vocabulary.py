"""Learns a WordPiece vocabulary from counted words.

The learner is tensorflow_text's, Google's own algorithm: from the counted words down to the pieces
that stay above a threshold of frequency. Here the threshold is sought that gives the size asked
for. Imports `errors`, `progress`, `tokenization`, `word_counts`; numpy; TensorFlow inside
functions.
"""

import collections
import dataclasses
import heapq
import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tokenization.tables import CJK
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS
from data_prep.word_counts import LONGEST_WORD

# [unusedN] between [PAD] and [UNK] in the released files, so that [UNK] has id 100.
_UNUSED_BEFORE_UNK = 99
_SLACK = 0.02  # share of surplus entries at which the search ends
_MOST_TRIALS = 12
_COVERAGE = 0.9995  # share of the text whose characters are covered, if they fit
_CHEAP_CHARACTERS = 1000  # covered beyond that


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
    """What defines a vocabulary, beside the text.

    Attributes:
        vocab_size: Number of entries, exactly.
        do_lower_case: Whether text is lower-cased and its accents dropped.
        num_unused_tokens: Number of [unusedN] entries, free for later use. The first 99 stand
            between [PAD] and [UNK], the others behind [MASK], as in the released files.
        max_words: How many of the most frequent words the learner looks at. Its time and memory
            grow with it.
        max_characters: How many of the most frequent characters the vocabulary covers; words
            with others become [UNK]. 0 takes those that make up 99.95 % of the text, rarer ones
            while they are less than 1,000 and fill less than half of the vocabulary, and any
            where the text gives too few pieces: never more than fit.
    """

    vocab_size: int = 30522
    do_lower_case: bool = True
    num_unused_tokens: int = 99
    max_words: int = 100_000
    max_characters: int = 0

    def __post_init__(self) -> None:
        least = len(SPECIAL_TOKENS) + self.num_unused_tokens + 1
        if self.num_unused_tokens < 0:
            raise InputError(
                f"num_unused_tokens must be 0 or more. Received: {self.num_unused_tokens}."
            )
        if self.vocab_size < least:
            raise InputError(
                f"vocab_size must be at least {least} with num_unused_tokens "
                f"{self.num_unused_tokens}. Received: {self.vocab_size}."
            )
        if self.max_words < 1 or self.max_characters < 0:
            raise InputError(
                f"max_words must be positive and max_characters 0 or more. Received: "
                f"{self.max_words} and {self.max_characters}."
            )

    @property
    def room(self) -> int:
        """Entries left for what is learned."""
        return self.vocab_size - len(SPECIAL_TOKENS) - self.num_unused_tokens


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What was learned.

    Attributes:
        tokens: In the order of their ids, as many as asked for.
        missing: Number of [unusedN] that stand in for pieces that the text did not give.
        characters: Number of distinct characters in the text.
        left_out: Number of those that the vocabulary does not cover.
        share_left_out: Share of the text's characters that they make up, in [0, 1].
    """

    tokens: list[str]
    missing: int
    characters: int
    left_out: int
    share_left_out: float


def learn(counts: Mapping[str, int], config: VocabularyConfig) -> Vocabulary:
    """Learns the vocabulary.

    Args:
        counts: Occurrences of each word.
        config: What is asked for.

    Raises:
        InputError: The text has no words, or more characters were asked for than fit.
    """
    ranked = _characters(counts)
    if not ranked:
        raise InputError("There are no words in the text. Check the input files.")
    number = _number_covered(ranked, config)
    pieces = _learned(counts, ranked[:number], config)
    if not config.max_characters and len(pieces) < config.room:
        # Rarer characters, and the words that they are in, fill the place that is left.
        further = _fitting(ranked, config.room - len(pieces) + int(_entries(ranked)[number - 1]))
        pieces = _learned(counts, ranked[:further], config) if further > number else pieces
    missing = config.room - len(pieces)
    left_out = dict(ranked).keys() - set(pieces)
    return Vocabulary(
        _special_tokens(config.num_unused_tokens + missing) + pieces,
        missing,
        len(ranked),
        len(left_out),
        sum(number for character, number in ranked if character in left_out)
        / sum(number for _, number in ranked),
    )


def _characters(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The characters with their occurrences, from frequent to rare, then by code point."""
    found: collections.Counter[str] = collections.Counter()
    for word, number in counts.items():
        for character in word:
            found[character] += number
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _is_ideograph(character: str) -> bool:
    """Whether it is a word of its own by the rules, so that it needs no entry with ##."""
    return any(first <= ord(character) <= last for first, last in CJK)


def _entries(ranked: Sequence[tuple[str, int]]) -> np.ndarray:
    """How many entries the first characters need: int64 [characters]."""
    return np.cumsum([1 if _is_ideograph(character) else 2 for character, _ in ranked])


def _fitting(ranked: Sequence[tuple[str, int]], room: int) -> int:
    """How many of the first characters fit."""
    return int(np.searchsorted(_entries(ranked), room, side="right"))


def _number_covered(ranked: Sequence[tuple[str, int]], config: VocabularyConfig) -> int:
    """How many of the characters to cover, of those ranked the first.

    Raises:
        InputError: Those asked for do not fit.
    """
    if config.max_characters:
        number = min(config.max_characters, len(ranked))
    else:
        occurrences = np.cumsum([number for _, number in ranked])
        needed = int(np.searchsorted(occurrences, _COVERAGE * occurrences[-1])) + 1
        cheap = min(_fitting(ranked, config.room // 2), _CHEAP_CHARACTERS)
        number = max(1, min(max(needed, cheap), _fitting(ranked, config.room)))
    entries = _entries(ranked)[number - 1]
    if entries > config.room:
        raise InputError(
            f"{number} characters take {entries} entries, two for each that is no ideograph, and "
            f"vocab_size leaves {config.room}. Raise vocab_size or lower max_characters."
        )
    return number


def _learned(
    counts: Mapping[str, int], ranked: Sequence[tuple[str, int]], config: VocabularyConfig
) -> list[str]:
    """The pieces of the words that hold these characters only, no more than there is room for."""
    characters = [character for character, _ in ranked]
    return _cut(_search(_most_frequent(counts, characters, config), config), config.room)


def _most_frequent(
    counts: Mapping[str, int], characters: Sequence[str], config: VocabularyConfig
) -> list[tuple[str, int]]:
    """The words to learn from, in an order that depends on the counts alone.

    A character that only rarer words hold is a word here, so that it has an entry.
    """
    known = set(characters)
    possible = (item for item in counts.items() if known.issuperset(item[0]))
    words = heapq.nsmallest(config.max_words, possible, key=lambda item: (-item[1], item[0]))
    held = {character for word, _ in words for character in word}
    return words + [(character, 1) for character in characters if character not in held]


def _search(words: Sequence[tuple[str, int]], config: VocabularyConfig) -> list[str]:
    """Seeks the highest threshold that gives the pieces asked for, or a few more.

    The number of pieces falls about as a power of the threshold, so each trial is put where the
    line through the last two, in logarithms, meets the goal.
    """
    goal = config.room
    high = words[0][1] + 1  # a threshold that gives too few
    low, best = 0, None  # the highest that gave enough, and what it gave
    trials: list[tuple[int, int]] = []
    threshold = max(1, words[min(goal, len(words)) - 1][1])
    with Progress("learning pieces", None, "trials") as progress:
        while low + 1 < high and len(trials) < _MOST_TRIALS:
            threshold = min(max(threshold, low + 1), high - 1)
            pieces = _pieces(words, threshold, config)
            trials.append((threshold, len(pieces)))
            progress.update(1, f"threshold {threshold} gives {len(pieces)} of {goal}")
            if len(pieces) < goal:
                high = threshold
            else:
                low, best = threshold, pieces
                if len(pieces) <= goal * (1 + _SLACK):
                    break
            threshold = _next_threshold(trials, goal * (1 + _SLACK / 2))
    return pieces if best is None else best


def _next_threshold(trials: Sequence[tuple[int, int]], goal: float) -> int:
    slope = -0.9  # of log pieces over log threshold, as natural text has it
    threshold, number = trials[-1]
    if len(trials) > 1 and trials[-2][0] != threshold and trials[-2][1] != number:
        slope = math.log(number / trials[-2][1]) / math.log(threshold / trials[-2][0])
    change = math.log(goal / number) / min(slope, -0.1)
    return round(threshold * math.exp(min(max(change, -5), 5)))


def _pieces(
    words: Sequence[tuple[str, int]], threshold: int, config: VocabularyConfig
) -> list[str]:
    """One run of the learner: characters, then pieces from frequent to rare."""
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    pieces = learner.learn(
        words,
        vocab_size=config.vocab_size,
        reserved_tokens=[],
        upper_thresh=threshold,
        lower_thresh=threshold,
        max_unique_chars=sys.maxunicode,
        max_token_length=LONGEST_WORD,
    )
    return [
        piece
        for piece in pieces
        if not (len(piece) == 3 and piece.startswith("##") and _is_ideograph(piece[2]))
    ]


def _cut(pieces: list[str], room: int) -> list[str]:
    """Leaves out the rarest of the pieces that are not single characters."""
    longer = [index for index, piece in enumerate(pieces) if len(piece.removeprefix("##")) > 1]
    left_out = set(longer[len(longer) - max(0, len(pieces) - room) :])
    return [piece for index, piece in enumerate(pieces) if index not in left_out]


def _special_tokens(num_unused: int) -> list[str]:
    """[PAD], the first [unusedN], [UNK] [CLS] [SEP] [MASK], the other [unusedN]."""
    unused = [f"[unused{index}]" for index in range(num_unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *unused[:_UNUSED_BEFORE_UNK], *others, *unused[_UNUSED_BEFORE_UNK:]]
