"""Converts sentences to the records of the model, one for each window.

A record is [CLS], a window and [SEP]. A window consists of pieces (WordPiece tokens) of
a sentence and, with document context, of the sentences around it.

Shape letters: N sentences, W words of all sentences, R records, S sequence length, T
pieces of all documents.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.tasks.ner.ner_examples import NerExample
from bert_tf.tasks.ner.schemes import convert
from bert_tf.tasks.task import Encoded
from bert_tf.tasks.windows import (
    Pieces,
    count_windows,
    group_and_place,
    has_max_context,
    stride_of,
    tokenize_sequence,
)
from bert_tf.tokenization import BertTokenizer

SPECIAL_TOKENS = 2  # [CLS] window [SEP]
# The numbers of two windows with the same piece differ by at most this: windows overlap
# by half, and with document context the last one can be twice as long.
_NEAREST = 4
SEVERAL_WINDOWS = (
    "sentences in several windows, because they are longer than max_seq_length"
)
EMPTY_WORDS = "words whose characters the tokenizer removes, read as [UNK]"


def encode(
    examples: Sequence[NerExample],
    tokenizer: BertTokenizer,
    max_seq_length: int,
    labels: Sequence[str],
    scheme: str,
    document_context: bool,
) -> Encoded:
    """Converts N sentences to R records of `record_format.TAGGING`.

    The first piece of each word has a label; all other positions are ignored. A
    sentence with more pieces than a window is split into windows that overlap by half
    of a window, and each word has its label only in the window in which its first piece
    has most context. A window in which no word has a label gives no record. With
    document context, the rest of a window is filled with complete words that precede
    and follow in the document, if possible with equal numbers of pieces; these words
    have no labels.

    Args:
        max_seq_length: S, at least 3.
        labels: The tags of `scheme`, in the order of their indices. A tag that is
            unknown, or not in `labels`, gets the index 0.

    Source: the BERT paper, section 5.3 (label of the first sub-token, document
    context).
    """
    room = max_seq_length - SPECIAL_TOKENS
    texts = _Texts.of(examples, tokenizer, room if document_context else 0)

    # R windows, and the window of each word: [W]
    windows = _Windows.of(texts, room, document_context)
    owner = _owners(texts, windows)

    # Windows without labels give no record.
    used, owner = np.unique(owner, return_inverse=True)
    windows = _Windows(windows.example[used], windows.start[used], windows.end[used])
    per_example = np.bincount(windows.example, minlength=len(examples))
    columns = _inputs(texts.pieces.ids, windows, tokenizer, max_seq_length)

    # The labels of the first pieces of words: [R, S]
    index = {label: number for number, label in enumerate(labels)}
    tags = [
        number for example in examples for number in _label_ids(example, index, scheme)
    ]
    label_ids = np.zeros(columns["input_ids"].shape, np.min_scalar_type(len(labels)))
    positions = 1 + texts.first_piece - windows.start[owner]  # [CLS] is at 0
    label_ids[owner, positions] = 1 + np.array(tags, np.int64)
    columns["label_ids"] = label_ids

    counts = {
        SEVERAL_WINDOWS: int(np.count_nonzero(per_example > 1)),
        EMPTY_WORDS: texts.num_empty_words,
    }
    return Encoded(columns, per_example, counts)


def _label_ids(example: NerExample, index: Mapping[str, int], scheme: str) -> list[int]:
    """Returns the index in `labels` of the tag of each word; 0 if the tag is not known."""
    if example.tags is None:
        return [0] * len(example.words)
    return [index.get(tag, 0) for tag in convert(example.tags, scheme)]


@dataclasses.dataclass(frozen=True)
class _Texts:
    """The pieces of N sentences' documents, and the place of each sentence there.

    Attributes:
        pieces: The pieces. Each word has at least one.
        word_example: int [W], the index of the sentence of each word.
        first_piece: int [W], the first piece of each word.
        start, end: int [N], the first piece of each sentence, and the piece after its
            last piece.
        document_start, document_end: int [N], the same for the part of the sentence's
            document that is in `pieces`.
        num_empty_words: The number of words of the sentences that are [UNK] because the
            tokenizer removes all of their characters.
    """

    pieces: Pieces
    word_example: np.ndarray
    first_piece: np.ndarray
    start: np.ndarray
    end: np.ndarray
    document_start: np.ndarray
    document_end: np.ndarray
    num_empty_words: int

    @classmethod
    def of(
        cls, examples: Sequence[NerExample], tokenizer: BertTokenizer, reach: int
    ) -> "_Texts":
        """Tokenizes N sentences, with up to `reach` words of their document on both sides."""
        words, places = _words_with_neighbors(examples, reach)
        pieces = tokenize_sequence(words, tokenizer)
        is_empty, pieces = pieces.is_empty(), pieces.fill_empty_words(tokenizer.unk_id)

        # The place of each word of the sentences among all words: [W]
        sentence, document, document_end = places.T
        num_words = np.array([len(example.words) for example in examples], np.int64)
        word_example, number = group_and_place(num_words)
        index = sentence[word_example] + number

        return cls(
            pieces=pieces,
            word_example=word_example,
            first_piece=pieces.first[index],
            start=pieces.first[sentence],
            end=pieces.first[sentence + num_words],
            document_start=pieces.first[document],
            document_end=pieces.first[document_end],
            num_empty_words=int(np.count_nonzero(is_empty[index])),
        )


def _words_with_neighbors(
    examples: Sequence[NerExample], reach: int
) -> tuple[list[str], np.ndarray]:
    """Concatenates the parts of documents that N sentences need; each part once.

    A sentence needs the `reach` words before and after it. The second result, int64
    [N, 3], has the indices in the first result of the first word of the sentence, of
    the first word of the part of its document, and of the word after that part.
    """
    # For each document, by its id, the range of words from its first sentence to its
    # last sentence in the block.
    needed: dict[int, tuple[int, int]] = {}
    for example in examples:
        key = id(example.document)
        first, last = example.first_word, example.first_word + len(example.words)
        start, end = needed.get(key, (first, last))
        needed[key] = min(start, first), max(end, last)

    words: list[str] = []
    parts: dict[int, tuple[int, int, int]] = {}
    places = []
    for example in examples:
        key = id(example.document)
        if key not in parts:
            start, end = needed[key]
            start = max(0, start - reach)
            first = len(words)
            words += example.document[start : end + reach]
            parts[key] = (first - start, first, len(words))
        offset, *limits = parts[key]
        places.append([offset + example.first_word, *limits])
    return words, np.array(places, np.int64).reshape(-1, 3)


@dataclasses.dataclass(frozen=True)
class _Windows:
    """The windows of all sentences, in the order of the sentences.

    Attributes:
        example: int [R], the index of the sentence.
        start, end: int [R], the first piece, and the piece after the last one.
    """

    example: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @classmethod
    def of(cls, texts: _Texts, room: int, document_context: bool) -> "_Windows":
        """Splits the sentences into windows of at most `room` pieces."""
        num_pieces = texts.end - texts.start  # [N]
        stride = stride_of(room)
        counts = count_windows(num_pieces, np.full_like(num_pieces, room), stride)

        # The sentence of each window, and its number there: [R]
        example, number = group_and_place(counts)
        start = texts.start[example] + number * stride
        end = np.minimum(start + room, texts.end[example])
        windows = cls(example, start, end)
        return windows._with_neighbors(texts, room) if document_context else windows

    def _with_neighbors(self, texts: _Texts, room: int) -> "_Windows":
        """Fills the windows with complete words from the same document."""
        spare = room - (self.end - self.start)  # [R]
        available_left = self.start - texts.document_start[self.example]
        available_right = texts.document_end[self.example] - self.end
        left = np.minimum(
            available_left, np.maximum(spare // 2, spare - available_right)
        )
        right = np.minimum(available_right, spare - left)

        # Only complete words.
        first = texts.pieces.first
        start = first[np.searchsorted(first, self.start - left)]
        end = first[np.searchsorted(first, self.end + right, "right") - 1]
        # A window of a long sentence may start or end inside a word.
        return _Windows(
            self.example, np.minimum(start, self.start), np.maximum(end, self.end)
        )


def _owners(texts: _Texts, windows: _Windows) -> np.ndarray:
    """Returns for each word the window in which its first piece has most context: int [W]."""
    num_windows = np.bincount(windows.example, minlength=len(texts.start))  # [N]
    first_window = np.cumsum(num_windows) - num_windows
    owner = first_window[texts.word_example]

    # If a sentence has only one window, this window labels all of its words.
    for example in np.flatnonzero(num_windows > 1).tolist():
        own = slice(first_window[example], first_window[example] + num_windows[example])
        starts = windows.start[own]
        lengths = windows.end[own] - starts
        bounds: Any = np.searchsorted(
            texts.word_example, [example, example + 1]
        ).tolist()
        words = slice(*bounds)
        places = texts.first_piece[words]

        for window, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            bounds = np.searchsorted(places, [start, start + length]).tolist()
            inside = slice(*bounds)
            near = slice(max(0, window - _NEAREST), window + _NEAREST + 1)
            best = has_max_context(starts[near], lengths[near], window - near.start)
            chosen = owner[words][inside]  # a view
            chosen[best[places[inside] - start]] = own.start + window
    return owner


def _inputs(
    ids: np.ndarray, windows: _Windows, tokenizer: BertTokenizer, max_seq_length: int
) -> dict[str, np.ndarray]:
    """Returns `input_ids` (int32), `input_mask` and `segment_ids` (uint8), each [R, S]."""
    # In NumPy: `tokenizer.pack` takes more time than the tokenization.
    length = (windows.end - windows.start)[:, None]  # [R, 1]
    position = np.arange(max_seq_length)
    is_piece = (position >= 1) & (position <= length)  # [R, S]

    shape = [len(length), max_seq_length]
    input_ids: np.ndarray = np.full(shape, tokenizer.pad_id, np.int32)
    input_ids[is_piece] = ids[(windows.start[:, None] + position - 1)[is_piece]]
    input_ids[:, 0] = tokenizer.cls_id
    np.put_along_axis(input_ids, length + 1, np.int32(tokenizer.sep_id), axis=1)
    return {
        "input_ids": input_ids,
        "input_mask": (position <= length + 1).astype(np.uint8),
        "segment_ids": np.zeros_like(input_ids, np.uint8),
    }
