"""Masks rows (unmasked sequences): chooses the tokens to predict, and replaces them.

`mask_rows` is called when records are created or, by `DynamicMasks`, when records are
read.

Shape letters: B rows, S tokens in a row, P predictions in a row, V vocabulary entries.

Source: google-research/bert `create_masked_lm_predictions`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import record_format
from bert_tf.masking import random_draws
from bert_tf.masking.masking_config import MaskingConfig
from bert_tf.masking.random_draws import Purpose

_LARGEST_UINT32 = np.uint32(0xFFFFFFFF)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The properties of a vocabulary that sentence pairing and masking need.

    Attributes:
        size: Number of entries, V.
        continues: bool [V], True for entries that start with "##".
        sha256: Hexadecimal hash of the vocabulary, as the tokenizer computes it.
    """

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    continues: np.ndarray
    sha256: str

    @classmethod
    def of(cls, tokenizer: Any) -> "Vocabulary":
        """Returns the properties of the vocabulary of a `BertTokenizer`."""
        return cls(
            size=tokenizer.vocab_size,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            mask_id=tokenizer.mask_id,
            unk_id=tokenizer.unk_id,
            continues=np.array(
                [token.startswith("##") for token in tokenizer.vocabulary]
            ),
            sha256=tokenizer.vocabulary_sha256,
        )


def row_dtype(max_seq_length: int, vocab_size: int) -> np.dtype:
    """Returns the structured dtype of a row; its field `ids` [S] is padded with 0."""
    token = np.dtype(record_format.ids_dtype(vocab_size))
    return np.dtype(
        [
            # Determines the random draws and the place in the shuffled order.
            ("key", np.uint64),
            ("trimmed", np.int32),  # number of tokens that truncation removed
            ("length_a", np.uint16),  # number of tokens in A
            ("length_b", np.uint16),  # number of tokens in B; 0 if there is no B
            ("random_next", np.uint16),  # next-sentence label: 1 if B does not follow A
            # [CLS] A [SEP] B [SEP], or [CLS] A [SEP].
            ("ids", token, (max_seq_length,)),
        ]
    )


def to_columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Converts B rows to columns: the features of `record_format.unmasked`, arrays [B, ...]."""
    return {
        f"ids_{rows['ids'].dtype}": rows["ids"],
        "lengths": np.stack([rows["length_a"], rows["length_b"]], axis=1),
        "next_sentence_labels": rows["random_next"][:, None],
        "row_key": rows["key"].view(np.int64)[:, None],
    }


def from_columns(columns: Mapping[str, np.ndarray], vocab_size: int) -> np.ndarray:
    """Converts columns of `record_format.unmasked`, of any integer dtype, to B rows."""
    (name,) = (name for name in columns if name.startswith("ids_"))
    ids = columns[name]  # [B, S]
    lengths = columns["lengths"]  # [B, 2]

    rows = np.zeros(len(ids), row_dtype(ids.shape[1], vocab_size))
    rows["ids"] = ids
    rows["length_a"], rows["length_b"] = lengths[:, 0], lengths[:, 1]
    rows["random_next"] = columns["next_sentence_labels"][:, 0]
    rows["key"] = np.ascontiguousarray(columns["row_key"][:, 0]).view(np.uint64)
    return rows


def mask_rows(
    config: MaskingConfig, rows: np.ndarray, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Masks B rows, whose dtype is `row_dtype`.

    Returns:
        The columns of `record_format.PRETRAINING`, with shape [B, S], [B, P] or [B, 1].
    """
    keys = rows["key"]  # [B]
    ids: np.ndarray = rows["ids"].astype(np.int32)  # [B, S]
    num_columns = ids.shape[1]  # S

    # Find the tokens, and those that may be masked: all but [CLS] and [SEP]. int16 can
    # hold every position, and its comparisons are four times as fast as those of int64.
    column = np.arange(num_columns, dtype=np.int16)  # [S]
    first_sep: np.ndarray = (rows["length_a"].astype(np.int16) + 1)[:, None]  # [B, 1]
    length: np.ndarray = rows["length_a"].astype(np.int64) + 2  # [B]
    length += np.where(rows["length_b"], rows["length_b"] + 1, 0)  # B and its [SEP]
    end: np.ndarray = length.astype(np.int16)[:, None]  # [B, 1]
    is_token = column < end  # [B, S]
    maskable = (column < end - 1) & (column != first_sep)  # [B, S]
    maskable[:, 0] = False

    # Choose the positions to predict: P in each row, in ascending order. The entries
    # without a prediction are S.
    budget = prediction_counts(config, length)  # [B]
    if config.max_ngram_size == 1 and not config.do_whole_word_mask:
        words = np.broadcast_to(column, ids.shape)  # [B, S]: each token is a word
        positions = _choose_tokens(config, keys, maskable, budget)
    else:
        words, chosen = _choose_units(
            config,
            keys,
            continues=vocabulary.continues[ids],
            maskable=maskable,
            first_sep=first_sep,
            budget=budget,
        )
        positions = np.where(chosen, column, num_columns)
        positions.sort(axis=1)
    positions = positions[:, : config.max_predictions_per_seq].astype(np.int64)
    # If S < P, `positions` has fewer than P columns.
    padding = config.max_predictions_per_seq - positions.shape[1]
    positions = np.pad(positions, [(0, 0), (0, padding)], constant_values=num_columns)

    # Look up the tokens to predict. An entry without a prediction gets position 0 and
    # label 0.
    is_prediction = positions < num_columns  # [B, P]
    positions = np.where(is_prediction, positions, 0)
    labels = np.where(is_prediction, np.take_along_axis(ids, positions, 1), 0)

    # Replace them in the input. For an entry without a prediction, [CLS] is written to
    # position 0, where [CLS] already is.
    draws = (
        np.take_along_axis(words, positions, 1)
        if config.replace_whole_words
        else positions
    )
    shown = _replace(
        config,
        keys,
        draws=draws,
        positions=positions,
        labels=labels,
        vocabulary=vocabulary,
    )
    np.put_along_axis(ids, positions, np.where(is_prediction, shown, ids[:, :1]), 1)

    return {
        "input_ids": ids,
        "input_mask": is_token,
        "segment_ids": is_token & (column > first_sep),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": is_prediction,
        "next_sentence_labels": rows["random_next"][:, None],
    }


def prediction_counts(config: MaskingConfig, lengths: np.ndarray) -> np.ndarray:
    """Returns the number of tokens to predict in each sequence, int64 [B].

    If whole words or n-grams are masked, this is the largest allowed number. The
    lengths of the sequences, int [B], include special tokens. Unless
    `config.round_half_up` is true, halves are rounded to the even number, as
    google-research/bert does.
    """
    if not config.masked_share:
        return np.zeros(len(lengths), np.int64)
    share = lengths * config.masked_share
    rounded = np.floor(share + 0.5) if config.round_half_up else np.rint(share)
    return np.clip(rounded, 1, config.max_predictions_per_seq).astype(np.int64)


def _choose_tokens(
    config: MaskingConfig, keys: np.ndarray, maskable: np.ndarray, budget: np.ndarray
) -> np.ndarray:
    """Chooses `budget` maskable positions of each row at random.

    Returns:
        int64 [B, min(S, P)]: the chosen positions in ascending order, then S (padding).
    """
    order = _shuffle(keys, Purpose.MASK_ORDER, maskable)  # [B, S]
    order = order[:, : config.max_predictions_per_seq]
    order[np.arange(order.shape[1]) >= budget[:, None]] = maskable.shape[1]
    order.sort(axis=1)
    return order


def _choose_units(
    config: MaskingConfig,
    keys: np.ndarray,
    continues: np.ndarray,
    maskable: np.ndarray,
    first_sep: np.ndarray,
    budget: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses whole words or n-grams of words at random.

    Returns:
        Two arrays. The first, int64 [B, S], has equal numbers for the tokens of the
        same word or chosen n-gram. The second, bool [B, S], is True for chosen tokens.
    """
    words = _number_words(config, continues, maskable, first_sep)
    if config.max_ngram_size == 1:
        chosen_words = _choose_words(keys, words, maskable, budget)
    else:
        words, chosen_words = _choose_ngrams(
            config.max_ngram_size, keys, words=words, maskable=maskable, budget=budget
        )
    return words, maskable & np.take_along_axis(chosen_words, words, 1)


def _shuffle(keys: np.ndarray, purpose: Purpose, valid: np.ndarray) -> np.ndarray:
    """Shuffles the indices of the columns where `valid`, bool [B, S], is True.

    Returns:
        int64 [B, S]: for each row, these indices in random order, then S (padding).
    """
    # Draw 32 bits for each column: each 64-bit key gives the bits of two columns.
    columns = valid.shape[1]
    index = np.arange((columns + 1) // 2)
    draws = random_draws.derive_keys(keys[:, None], purpose, index)  # [B, (S + 1) // 2]
    bits: np.ndarray = draws.view(np.uint32)[:, :columns]  # [B, S]

    # The low bits of each random number are replaced by the index of its column, so
    # sorting the numbers shuffles the indices.
    low_bits = np.uint32((1 << columns.bit_length()) - 1)
    numbered = (bits & ~low_bits) | np.arange(columns, dtype=np.uint32)
    numbered[~valid] = _LARGEST_UINT32
    numbered.sort(axis=1)
    return np.minimum(numbered & low_bits, columns).astype(np.int64)


def _number_words(
    config: MaskingConfig,
    continues: np.ndarray,
    maskable: np.ndarray,
    first_sep: np.ndarray,
) -> np.ndarray:
    """Numbers the words of each row from 0; returns each token's word: int64 [B, S].

    Without `do_whole_word_mask`, each maskable token is a word. With it, a "##" token
    belongs to the same word as the maskable token before the "##" token. If truncation
    cut a word at the start of B, then B starts with a "##" token. As in
    google-research/bert, that token belongs to the last word of A, unless
    `keep_words_apart_at_sep` is true. The numbers of tokens that are not maskable have
    no meaning.
    """
    starts = maskable
    if config.do_whole_word_mask:
        column = np.arange(maskable.shape[1])
        starts = maskable & (~continues | (column == 1))
        if config.keep_words_apart_at_sep:
            starts |= maskable & (column == first_sep + 1)
    return np.maximum(np.cumsum(starts, axis=1) - 1, 0)


def _word_sizes(words: np.ndarray, maskable: np.ndarray) -> np.ndarray:
    """Counts the tokens of each word of a row: int64 [B, S + 1], 0 after the last word."""
    count, columns = words.shape
    # The index of each token's word in a flat array with S + 1 entries for each row.
    cells = (words + np.arange(count)[:, None] * (columns + 1))[maskable]
    sizes = np.bincount(cells, minlength=count * (columns + 1))
    return sizes.reshape(count, columns + 1)


def _choose_words(
    keys: np.ndarray, words: np.ndarray, maskable: np.ndarray, budget: np.ndarray
) -> np.ndarray:
    """Chooses words in random order; skips words that would exceed the token budget.

    In the result, bool [B, S + 1], entry w of a row is True if word number w is chosen.
    """
    sizes = _word_sizes(words, maskable)  # [B, S + 1]
    order = _shuffle(keys, Purpose.MASK_ORDER, sizes[:, :-1] > 0)  # [B, S]
    most_words = int((sizes > 0).sum(axis=1).max(initial=0))

    # In turn i, word `order[row, i]` of each row is chosen or skipped.
    chosen = np.zeros(sizes.shape, bool)
    used: np.ndarray = np.zeros(len(sizes), np.int64)  # tokens chosen so far
    rows = np.arange(len(sizes))
    for word in order.T[:most_words]:  # [B]
        size = sizes[rows, word]
        fits = (size > 0) & (used + size <= budget)
        chosen[rows, word] |= fits
        used += np.where(fits, size, 0)
    return chosen


def _choose_ngrams(
    largest: int,
    keys: np.ndarray,
    words: np.ndarray,
    maskable: np.ndarray,
    budget: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses n-grams of adjacent words, n from 1 to `largest`.

    The n-grams of each size are shuffled. In each turn, a size n is drawn with a
    probability proportional to 1 / n. Then the next n-gram of size n is chosen, unless
    the n-gram exceeds the budget of tokens or overlaps a chosen n-gram.

    Returns:
        Two arrays. The first is int64 [B, S]: for each token, the number of the first
        word of the chosen n-gram that contains the token, else S. The second is bool
        [B, S + 1]: entry w of a row is True if a chosen n-gram starts with word number
        w.

    Source: `_masking_ngrams` of the Model Garden's create_pretraining_data.py.
    """
    columns = words.shape[1]
    # Both [N, B, ...]: the n-grams of each size in random order, and their tokens.
    order, sizes = _shuffle_ngrams(largest, keys, words, maskable)
    # For each word: if a chosen n-gram contains the word, the number of the first word
    # of that n-gram, else -1.
    first_word = np.full((len(keys), columns + largest + 1), -1)
    # For each size and row: the index in `order` of the next n-gram to try; S if none
    # is left.
    next_ngram: np.ndarray = np.zeros((largest, len(keys)), np.int64)
    used: np.ndarray = np.zeros(len(keys), np.int64)  # tokens chosen so far
    weights = np.cumsum(1 / np.arange(1, largest + 1))

    # Each turn tries one n-gram in each of the R rows with a budget left.
    rows = np.flatnonzero(budget > 0)  # [R]
    turn = 0
    while len(rows):
        # Draw a size n for each row.
        turn_keys = random_draws.derive_keys(keys[rows], Purpose.NGRAM_SIZE, turn)
        point = random_draws.uniform(turn_keys, Purpose.NGRAM_SIZE) * weights[-1]
        more = np.searchsorted(weights, point, "right")  # [R]: n - 1

        # Take the next n-gram of size n, given by its first word; S if none is left.
        # If the budget has fewer than n tokens left, all n-grams of size n are skipped.
        next_ngram[more, rows] = np.where(
            used[rows] + more < budget[rows], next_ngram[more, rows], columns
        )
        index = next_ngram[more, rows]
        word = np.where(
            index < columns, order[more, rows, np.minimum(index, columns - 1)], columns
        )
        next_ngram[more, rows] = np.where(word < columns, index + 1, columns)

        # Choose it if it fits into the budget and overlaps no chosen n-gram.
        fits = (word < columns) & (used[rows] + sizes[more, rows, word] <= budget[rows])
        for k in range(largest):
            fits &= (k > more) | (first_word[rows, word + k] < 0)
        for k in range(largest):
            member = fits & (k <= more)
            first_word[rows[member], word[member] + k] = word[member]
        used[rows] += np.where(fits, sizes[more, rows, word], 0)

        # Continue with the rows that have a budget and n-grams left.
        has_ngrams = (next_ngram[:, rows] < columns).any(axis=0)
        rows = rows[(used[rows] < budget[rows]) & has_ngrams]
        turn += 1

    # Mark the first word of each chosen n-gram.
    first_word = first_word[:, : columns + 1]
    numbers = np.where(first_word < 0, columns, first_word)  # [B, S + 1]
    chosen = np.zeros(numbers.shape, bool)
    np.put_along_axis(chosen, numbers, True, 1)
    chosen[:, columns] = False
    return np.take_along_axis(numbers, words, 1), chosen


def _shuffle_ngrams(
    largest: int, keys: np.ndarray, words: np.ndarray, maskable: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lists the n-grams of adjacent words for n from 1 to N = `largest`.

    Returns:
        Two arrays. The first is int64 [N, B, S]: for each n and each row, the n-grams
        in random order, each as the number of its first word, then S (padding). The
        second is int64 [N, B, S + 1]: for each n and each word, the number of tokens in
        the n-gram that starts at the word.
    """
    # Find the words without a special token between them and the next word.
    sizes = _word_sizes(words, maskable)  # [B, S + 1]
    first_column = np.full(sizes.shape, words.shape[1])  # of each word
    row, column = np.nonzero(maskable)
    np.minimum.at(first_column, (row, words[row, column]), column)
    end_column = first_column + sizes
    # [B, S]
    touches_next = (end_column[:, :-1] == first_column[:, 1:]) & (sizes[:, 1:] > 0)

    # `is_ngram` [B, S]: whether an n-gram of the present size starts at a word.
    is_ngram = sizes[:, :-1] > 0
    ngram_sizes = sizes  # [B, S + 1]
    orders = []
    all_sizes = []
    for n in range(1, largest + 1):
        ngram_keys = random_draws.derive_keys(keys, Purpose.NGRAM_ORDER, n)
        orders.append(_shuffle(ngram_keys, Purpose.NGRAM_ORDER, is_ngram))
        all_sizes.append(ngram_sizes)

        # Extend the n-gram that starts at word w by word w + n.
        is_ngram = is_ngram & _shift(touches_next, n - 1)
        ngram_sizes = ngram_sizes + _shift(sizes, n)
    return np.stack(orders), np.stack(all_sizes)


def _shift(array: np.ndarray, count: int) -> np.ndarray:
    """Moves the columns of `array` [B, S] to the left by `count`; fills the end with 0."""
    return np.pad(array[:, count:], [(0, 0), (0, min(count, array.shape[1]))])


def _replace(
    config: MaskingConfig,
    keys: np.ndarray,
    draws: np.ndarray,
    positions: np.ndarray,
    labels: np.ndarray,
    vocabulary: Vocabulary,
) -> np.ndarray:
    """Draws the input tokens that replace the tokens to predict: int64 [B, P].

    Args:
        draws: int64 [B, P], indices of the draws that decide between [MASK], a random
            token and the unchanged token. If predictions of the same row have equal
            indices, one draw decides for all of them.
        positions: int64 [B, P], the positions of the predictions. They are also the
            indices of the draws for the random tokens.
        labels: int64 [B, P], the tokens to predict.
    """
    share = random_draws.uniform(keys[:, None], Purpose.REPLACEMENT, draws)  # [B, P]
    token_keys = random_draws.derive_keys(
        keys[:, None], Purpose.RANDOM_TOKEN, positions
    )
    tokens = random_draws.integers(token_keys, Purpose.RANDOM_TOKEN, vocabulary.size)

    # A number below the share of [MASK] gives [MASK]. If it is higher, but below the
    # sum of both shares, it gives a random token.
    is_random = share < config.mask_token_prob + config.random_token_prob
    random_or_same = np.where(is_random, tokens, labels)
    return np.where(share < config.mask_token_prob, vocabulary.mask_id, random_or_same)
