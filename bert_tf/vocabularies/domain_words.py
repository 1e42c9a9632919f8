"""Chooses words of a domain that a vocabulary lacks, and measures the cost of texts.

The cost of a text has two numbers: WordPiece tokens, and words that become [UNK]. A
word that the vocabulary lacks costs several WordPiece tokens, or becomes [UNK].
"""

import dataclasses
import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.config_fields import documented, option
from bert_tf.corpus.text_blocks import DOCUMENTS_PER_HELD_OUT
from bert_tf.errors import InputError, check_at_least

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer


@documented
@dataclasses.dataclass(frozen=True)
class NewWordsConfig:
    """Settings of the choice of new words for a vocabulary.

    Raises:
        InputError: `num_words` is below 1.
    """

    num_words: int = option(
        500,
        "Number of words that get an entry of the vocabulary; fewer if the text has "
        "fewer words of several pieces.",
    )

    def __post_init__(self) -> None:
        check_at_least(1, self, "num_words")


@dataclasses.dataclass(frozen=True)
class NewWord:
    """A word that gets an entry of its own in the vocabulary.

    `count` is its number of occurrences in the text. `pieces` are the ids of the tokens
    into which the former vocabulary splits the word, or only the id of [UNK].
    """

    word: str
    count: int
    pieces: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TextCost:
    """Numbers of words of a text, of their WordPiece tokens, and of words that become [UNK]."""

    words: int
    tokens: int
    unknown: int

    def __str__(self) -> str:
        tokens = self.tokens / self.words
        unknown = self.unknown / self.words
        return f"{tokens:.3f} tokens per word, {unknown:.2%} [UNK]"


def choose_words(
    counts: Mapping[str, int], tokenizer: "BertTokenizer", config: NewWordsConfig
) -> list[NewWord]:
    """Chooses the words for which an entry of their own saves the most tokens.

    An entry saves all pieces (WordPiece tokens) but one at each occurrence of its word.
    A word that becomes [UNK] counts as if each of its characters were a piece, and as
    at least two pieces.

    Returns at most `num_words` words, from most to fewest saved tokens. Words that save
    equally many tokens are in alphabetical order. If the vocabulary has all words, an
    `InputError` is raised.
    """
    words = list(counts)
    if not words:
        raise InputError("There are no words in the text. Check the input files.")

    # A word with an entry is one token. `saved` counts the tokens that this removes.
    ids, lengths, unknown = _tokenized(words, tokenizer)
    characters = np.array([len(word) for word in words])
    saved = np.where(unknown, np.maximum(characters, 2), lengths) - 1
    saved *= np.array(list(counts.values()))

    candidates = np.flatnonzero(saved > 0)
    if not len(candidates):
        raise InputError(
            f"All {len(words):,} distinct words of the text are in the vocabulary. Use "
            "the checkpoint as it is, or give texts of the domain as input_file."
        )

    best = heapq.nsmallest(
        config.num_words, candidates, lambda i: (-saved[i], words[i])
    )
    return [
        NewWord(words[i], counts[words[i]], tuple(ids[i].numpy().tolist()))
        for i in best
    ]


def cost_of(counts: Mapping[str, int], tokenizer: "BertTokenizer") -> TextCost:
    """Returns the cost of a text with the given word counts."""
    if not counts:
        return TextCost(0, 0, 0)
    _, lengths, unknown = _tokenized(list(counts), tokenizer)
    numbers = np.array(list(counts.values()))
    return TextCost(int(numbers.sum()), int(numbers @ lengths), int(numbers @ unknown))


def _tokenized(
    words: Sequence[str], tokenizer: "BertTokenizer"
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Returns for N words: ids, ragged [N, None]; numbers of ids, [N]; bool [N], true for [UNK]."""
    ids = tokenizer.tokenize(words)
    lengths = ids.row_lengths().numpy()
    unknown: np.ndarray = np.zeros(len(words), bool)
    unknown[ids.value_rowids().numpy()[ids.values.numpy() == tokenizer.unk_id]] = True
    return ids, lengths, unknown


def rows(words: Sequence[NewWord], old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Returns the lines of new_words.tsv. `old` and `new` are the entries before and after."""
    ids = {token: index for index, token in enumerate(new)}
    lines = ["id\tword\toccurrences\tformer pieces"]
    for word in words:
        pieces = " ".join(old[piece] for piece in word.pieces)
        lines.append(f"{ids[word.word]}\t{word.word}\t{word.count}\t{pieces}")
    return lines


def costs(
    counts: Mapping[str, int],
    documents: int,
    old: "BertTokenizer",
    new: "BertTokenizer",
) -> str:
    """Returns a text that reports the cost of the held-out documents with both vocabularies.

    `counts` are the words of the held-out documents. `documents` counts all documents.
    """
    if not counts:
        return (
            f"No words are held out: the text has {documents:,} documents, and every "
            "tenth is held out. In a text file, a blank line ends a document."
        )

    before, after = cost_of(counts, old), cost_of(counts, new)
    held = documents // DOCUMENTS_PER_HELD_OUT
    return (
        f"{held:,} of {documents:,} documents are held out, with {before.words:,} "
        f"words.\n  before: {before}\n  after: {after}"
    )
