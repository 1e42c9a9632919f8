"""From rows to the features of the records: which tokens to predict, and what stands there.

Imports numpy only. Source: google-research/bert `create_masked_lm_predictions`.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from data_prep.pretraining_data import randomness
from data_prep.pretraining_data.randomness import Draw
from data_prep.pretraining_data.settings import RecordsConfig

_LAST = np.uint32(0xFFFFFFFF)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """What pairing and masking need to know of the vocabulary.

    Attributes:
        size: Number of entries, V.
        cls_id: Id of [CLS].
        sep_id: Id of [SEP].
        mask_id: Id of [MASK].
        continues: bool [V], True where the entry starts with "##".
        sha256: Its hash, as the tokenizer states it.
    """

    size: int
    cls_id: int
    sep_id: int
    mask_id: int
    continues: np.ndarray
    sha256: str


def features(
    config: RecordsConfig, rows: np.ndarray, vocabulary: Vocabulary
) -> dict[str, np.ndarray]:
    """Masks a batch of rows.

    Args:
        config: The procedure.
        rows: B rows of `pairing.row_dtype`.
        vocabulary: Special ids and word pieces.

    Returns:
        The columns of `bert_tf.features.PRETRAINING`: [B, S], [B, P] or [B, 1].
    """
    ids: np.ndarray = rows["ids"].astype(np.int32)
    # 16 bits hold any position, and compare four times as fast as 64.
    column: np.ndarray = np.arange(config.max_seq_length, dtype=np.int16)
    first_sep: np.ndarray = (rows["length_a"].astype(np.int16) + 1)[:, None]
    length = rows["length_a"].astype(np.int64) + rows["length_b"] + config.specials
    end: np.ndarray = length.astype(np.int16)[:, None]
    real = column < end
    candidates = (column < end - 1) & (column != first_sep)
    candidates[:, 0] = False
    wanted = predictions(config, length)
    if config.max_ngram_size > 1:
        words = _words(config, ids, candidates, first_sep, vocabulary)
        words, taken = _ngrams(config, rows["key"], words, candidates, wanted)
        positions = _positions(config, words, taken, candidates)
    elif config.do_whole_word_mask:
        words = _words(config, ids, candidates, first_sep, vocabulary)
        taken = _whole_words(rows["key"], words, candidates, wanted)
        positions = _positions(config, words, taken, candidates)
    else:
        words = np.broadcast_to(column, ids.shape)
        positions = _single_tokens(config, rows["key"], candidates, wanted)
    # A short sequence has fewer places than there is room for predictions.
    room = config.max_predictions_per_seq - positions.shape[1]
    positions = np.pad(positions, [(0, 0), (0, room)], constant_values=config.max_seq_length)
    chosen = positions < config.max_seq_length
    at = np.where(chosen, positions, 0)
    original = np.where(chosen, np.take_along_axis(ids, at, 1), 0)
    name = np.take_along_axis(words, at, 1) if config.replace_whole_words else at
    new = _replacements(config, rows["key"], name, at, original, vocabulary)
    # Unused places write [CLS] where it stands already.
    np.put_along_axis(ids, at, np.where(chosen, new, ids[:, :1]), 1)
    return {
        "input_ids": ids,
        "input_mask": real,
        "segment_ids": real & (column > first_sep),
        "masked_lm_positions": at,
        "masked_lm_ids": original,
        "masked_lm_weights": chosen,
        "next_sentence_labels": rows["random_next"][:, None],
    }


def predictions(config: RecordsConfig, lengths: np.ndarray) -> np.ndarray:
    """int64 [B]: how many tokens to predict in sequences of these lengths, special tokens counted.

    Python 3's rounding to the even number, as released, or half up.
    """
    if config.objective == "causal":
        return np.zeros(len(lengths), np.int64)
    share = lengths * config.masked_lm_prob
    rounded = np.floor(share + 0.5) if config.round_half_up else np.rint(share)
    return np.minimum(np.maximum(rounded, 1), config.max_predictions_per_seq).astype(np.int64)


def _single_tokens(
    config: RecordsConfig, keys: np.ndarray, candidates: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """int64 [B, P]: the positions to predict, ascending, then S."""
    order = _random_order(keys, Draw.MASK_ORDER, candidates)[:, : config.max_predictions_per_seq]
    order[np.arange(order.shape[1]) >= wanted[:, None]] = config.max_seq_length
    order.sort(axis=1)
    return order


def _random_order(keys: np.ndarray, draw: Draw, valid: np.ndarray) -> np.ndarray:
    """Shuffles the valid columns of each row.

    Args:
        keys: uint64 [B].
        draw: What the order is for.
        valid: bool [B, S].

    Returns:
        int64 [B, S]: the valid columns of each row in random order, then S.
    """
    columns = valid.shape[1]
    low = np.uint32((1 << columns.bit_length()) - 1)
    index = np.arange((columns + 1) // 2)
    random: np.ndarray = randomness.derive(keys[:, None], draw, index).view(np.uint32)[:, :columns]
    # The column in the low bits of its random number: sorting the numbers shuffles the columns.
    numbered = (random & ~low) | np.arange(columns, dtype=np.uint32)
    numbered[~valid] = _LAST
    numbered.sort(axis=1)
    return np.minimum(numbered & low, columns).astype(np.int64)


def _words(
    config: RecordsConfig,
    ids: np.ndarray,
    candidates: np.ndarray,
    first_sep: np.ndarray,
    vocabulary: Vocabulary,
) -> np.ndarray:
    """int64 [B, S]: the number of the word each candidate is in, from 0; elsewhere meaningless.

    As released a "##" token joins the candidate before it, over [SEP] too: B starts with one where
    truncation cut it inside a word.
    """
    column = np.arange(ids.shape[1])
    starts = candidates & (~vocabulary.continues[ids] | (column == 1))
    if not config.do_whole_word_mask:
        starts = candidates
    elif config.keep_words_apart_at_sep:
        starts |= candidates & (column == first_sep + 1)
    return np.maximum(np.cumsum(starts, axis=1) - 1, 0)


def _sizes(words: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """int64 [B, S + 1]: how many tokens each word has; 0 behind the last."""
    count, columns = words.shape
    flat = (words + np.arange(count)[:, None] * (columns + 1))[candidates]
    return np.bincount(flat, minlength=count * (columns + 1)).reshape(count, columns + 1)


def _whole_words(
    keys: np.ndarray, words: np.ndarray, candidates: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """Which words to predict, bool [B, S + 1].

    Words in random order; one that would be too many tokens is left out, not cut.
    """
    sizes = _sizes(words, candidates)
    order = _random_order(keys, Draw.MASK_ORDER, sizes[:, :-1] > 0)
    taken = np.zeros(sizes.shape, bool)
    used: np.ndarray = np.zeros(len(sizes), np.int64)
    rows = np.arange(len(sizes))
    for word in order.T[: int((sizes > 0).sum(axis=1).max(initial=0))]:
        size = sizes[rows, word]
        fits = (size > 0) & (used + size <= wanted)
        taken[rows, word] |= fits
        used += np.where(fits, size, 0)
    return taken


def _positions(
    config: RecordsConfig, words: np.ndarray, taken: np.ndarray, candidates: np.ndarray
) -> np.ndarray:
    """int64 [B, P]: the positions of the words taken, ascending, then S."""
    chosen = candidates & np.take_along_axis(taken, words, 1)
    positions = np.where(chosen, np.arange(words.shape[1]), words.shape[1])
    positions.sort(axis=1)
    return positions[:, : config.max_predictions_per_seq]


def _ngrams(
    config: RecordsConfig,
    keys: np.ndarray,
    words: np.ndarray,
    candidates: np.ndarray,
    wanted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Runs of up to `max_ngram_size` words that touch; a run of n words has the weight 1 / n.

    Again and again a size is drawn, and of that size a run not drawn before; it is left out if it
    would be too many tokens or meets a run that was taken.

    Returns:
        `words`, those of a run numbered alike, and which numbers are taken, bool [B, S + 1].

    Source: `_masking_ngrams` of the Model Garden's create_pretraining_data.py.
    """
    largest, columns = config.max_ngram_size, words.shape[1]
    sizes = _sizes(words, candidates)
    valid, orders, tokens = _runs(sizes, words, candidates), [], []
    for n in range(1, largest + 1):
        run_keys = randomness.derive(keys, Draw.NGRAM_ORDER, n)
        orders.append(_random_order(run_keys, Draw.NGRAM_ORDER, valid(n)))
        padded = np.pad(sizes, [(0, 0), (0, n)])
        tokens.append(sum(padded[:, k : k + columns + 1] for k in range(n)))
    order, size = np.stack(orders), np.stack(tokens)
    leader = np.full((len(keys), columns + largest + 1), -1)
    next_run: np.ndarray = np.zeros((largest, len(keys)), np.int64)
    used: np.ndarray = np.zeros(len(keys), np.int64)
    share = np.cumsum(1 / np.arange(1, largest + 1))
    rows, turn = np.flatnonzero(wanted > 0), 0
    while len(rows):
        point = randomness.uniform(
            randomness.derive(keys[rows], Draw.NGRAM_SIZE, turn), Draw.NGRAM_SIZE
        )
        kind = np.searchsorted(share, point * share[-1], "right")
        # A size that no longer fits is spent.
        next_run[kind, rows] = np.where(
            used[rows] + kind < wanted[rows], next_run[kind, rows], columns
        )
        at = next_run[kind, rows]
        word = np.where(at < columns, order[kind, rows, np.minimum(at, columns - 1)], columns)
        next_run[kind, rows] = np.where(word < columns, at + 1, columns)
        fits = (word < columns) & (used[rows] + size[kind, rows, word] <= wanted[rows])
        for k in range(largest):
            fits &= (k > kind) | (leader[rows, word + k] < 0)
        for k in range(largest):
            mine = fits & (k <= kind)
            leader[rows[mine], word[mine] + k] = word[mine]
        used[rows] += np.where(fits, size[kind, rows, word], 0)
        rows = rows[(used[rows] < wanted[rows]) & (next_run[:, rows] < columns).any(axis=0)]
        turn += 1
    leader = leader[:, : columns + 1]
    numbered = np.where(leader < 0, columns, leader)
    taken = np.zeros(leader.shape, bool)
    np.put_along_axis(taken, numbered, True, 1)
    taken[:, columns] = False
    return np.take_along_axis(numbered, words, 1), taken


def _runs(
    sizes: np.ndarray, words: np.ndarray, candidates: np.ndarray
) -> Callable[[int], np.ndarray]:
    """A function from n to bool [B, S]: whether n words that touch start at a word."""
    count, columns = words.shape
    begin = np.full(sizes.shape, columns)
    row, column = np.nonzero(candidates)
    np.minimum.at(begin, (row, words[row, column]), column)
    touches = np.zeros((count, columns), bool)
    touches[:] = (begin[:, :-1] + sizes[:, :-1] == begin[:, 1:]) & (sizes[:, 1:] > 0)

    def valid(n: int) -> np.ndarray:
        found = sizes[:, :-1] > 0
        for k in range(n - 1):
            found[:, : columns - k] &= touches[:, k:]
            found[:, columns - k :] = False
        return found

    return valid


def _replacements(
    config: RecordsConfig,
    keys: np.ndarray,
    name: np.ndarray,
    positions: np.ndarray,
    original: np.ndarray,
    vocabulary: Vocabulary,
) -> np.ndarray:
    """int64 [B, P]: what to put at the positions.

    Args:
        config: Shares of [MASK] and of random tokens.
        keys: uint64 [B].
        name: int64 [B, P], places with the same number share the draw of what to do.
        positions: int64 [B, P], number of the draw of a random token, from the whole vocabulary.
        original: int64 [B, P], what stands there.
        vocabulary: Its size and [MASK].
    """
    kind = randomness.derive(keys[:, None], Draw.REPLACEMENT, name)
    share = (kind >> np.uint64(11)).astype(np.float64) * 2.0**-53
    token = randomness.integers(
        randomness.derive(keys[:, None], Draw.RANDOM_TOKEN, positions),
        Draw.RANDOM_TOKEN,
        vocabulary.size,
    )
    kept_or_random = np.where(
        share < config.mask_token_prob + config.random_token_prob, token, original
    )
    return np.where(share < config.mask_token_prob, vocabulary.mask_id, kept_or_random)
