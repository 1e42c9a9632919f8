"""Learns a WordPiece vocabulary from counted words.

The learner is tensorflow_text's, Google's own algorithm: from the counted words down to the pieces
that stay above a threshold of frequency. Here the threshold is sought that gives the size asked
for. Imports `errors`, `progress`, `tokenization`, `word_counts`; TensorFlow inside functions.
"""

import dataclasses
import heapq
import math
from collections.abc import Mapping, Sequence

from bert_tf.errors import InputError
from bert_tf.progress import Progress
from bert_tf.tokenization.vocabulary import SPECIAL_TOKENS
from data_prep.word_counts import LONGEST_WORD

# [unusedN] between [PAD] and [UNK] in the released files, so that [UNK] has id 100.
_UNUSED_BEFORE_UNK = 99
_SLACK = 0.02  # share of surplus entries at which the search ends
_MOST_TRIALS = 12


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
            with others are left out.
    """

    vocab_size: int = 30522
    do_lower_case: bool = True
    num_unused_tokens: int = 99
    max_words: int = 100_000
    max_characters: int = 1000

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
        if self.max_words < 1 or self.max_characters < 1:
            raise InputError(
                f"max_words and max_characters must be positive. Received: {self.max_words} and "
                f"{self.max_characters}."
            )


def learn(counts: Mapping[str, int], config: VocabularyConfig) -> tuple[list[str], int]:
    """Learns the vocabulary.

    Args:
        counts: Occurrences of each word.
        config: What is asked for.

    Returns:
        The tokens in the order of their ids, exactly `config.vocab_size`, and how many of them
        are [unusedN] put in because the text gave fewer pieces.

    Raises:
        InputError: The text has no words, or more characters than the vocabulary has entries.
    """
    pieces = _search(_most_frequent(counts, config), config)
    room = config.vocab_size - len(SPECIAL_TOKENS) - config.num_unused_tokens
    pieces = _cut(pieces, room)
    missing = room - len(pieces)
    return _special_tokens(config.num_unused_tokens + missing) + pieces, missing


def _most_frequent(counts: Mapping[str, int], config: VocabularyConfig) -> list[tuple[str, int]]:
    """The words to learn from, in an order that depends on the counts alone."""
    words = heapq.nsmallest(config.max_words, counts.items(), key=lambda item: (-item[1], item[0]))
    if not words:
        raise InputError("There are no words in the text. Check the input files.")
    return words


def _search(words: Sequence[tuple[str, int]], config: VocabularyConfig) -> list[str]:
    """Seeks the highest threshold that gives the pieces asked for, or a few more.

    The number of pieces falls about as a power of the threshold, so each trial is put where the
    line through the last two, in logarithms, meets the goal.
    """
    goal = config.vocab_size - len(SPECIAL_TOKENS) - config.num_unused_tokens
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

    return learner.learn(
        words,
        vocab_size=config.vocab_size,
        reserved_tokens=[],
        upper_thresh=threshold,
        lower_thresh=threshold,
        max_unique_chars=config.max_characters,
        max_token_length=LONGEST_WORD,
    )


def _cut(pieces: list[str], room: int) -> list[str]:
    """Leaves out the rarest of the pieces that are not single characters.

    Raises:
        InputError: The characters alone are too many.
    """
    surplus = len(pieces) - room
    if surplus <= 0:
        return pieces
    longer = [index for index, piece in enumerate(pieces) if len(piece.removeprefix("##")) > 1]
    if len(longer) < surplus:
        raise InputError(
            f"The text has {(len(pieces) - len(longer)) // 2} characters, each in two forms: too "
            f"many for the {room} entries left. Raise vocab_size or lower max_characters."
        )
    left_out = set(longer[-surplus:])
    return [piece for index, piece in enumerate(pieces) if index not in left_out]


def _special_tokens(num_unused: int) -> list[str]:
    """[PAD], the first [unusedN], [UNK] [CLS] [SEP] [MASK], the other [unusedN]."""
    unused = [f"[unused{index}]" for index in range(num_unused)]
    pad, *others = SPECIAL_TOKENS
    return [pad, *unused[:_UNUSED_BEFORE_UNK], *others, *unused[_UNUSED_BEFORE_UNK:]]
