"""From rows to the features of the records: which tokens to predict, and what stands there.

Imports numpy only. Source: google-research/bert `create_masked_lm_predictions`.
"""

import dataclasses

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
    column = np.arange(config.max_seq_length)
    first_sep: np.ndarray = (rows["length_a"].astype(np.int64) + 1)[:, None]
    length = rows["length_a"].astype(np.int64) + rows["length_b"] + config.specials
    real = column < length[:, None]
    candidates = real & (column > 0) & (column != first_sep) & (column != length[:, None] - 1)
    wanted = predictions(config, length)
    if config.do_whole_word_mask or config.max_ngram_size > 1:
        words = _words(config, ids, candidates, first_sep, vocabulary)
        positions = _whole_words(config, rows["key"], words, candidates, wanted)
    else:
        words = np.broadcast_to(column, ids.shape)
        positions = _single_tokens(config, rows["key"], candidates, wanted)
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


def _whole_words(
    config: RecordsConfig,
    keys: np.ndarray,
    words: np.ndarray,
    candidates: np.ndarray,
    wanted: np.ndarray,
) -> np.ndarray:
    """int64 [B, P]: the positions to predict, ascending, then S.

    Words in random order; one that would be too many is left out, not cut.
    """
    count, columns = words.shape
    flat = (words + np.arange(count)[:, None] * (columns + 1))[candidates]
    sizes = np.bincount(flat, minlength=count * (columns + 1)).reshape(count, columns + 1)
    order = _random_order(keys, Draw.MASK_ORDER, sizes[:, :columns] > 0)
    taken = np.zeros((count, columns + 1), bool)
    used, rows = np.zeros(count, np.int64), np.arange(count)
    for word in order.T[: int((sizes > 0).sum(axis=1).max(initial=0))]:
        size = sizes[rows, word]
        fits = (size > 0) & (used + size <= wanted)
        taken[rows, word] |= fits
        used += np.where(fits, size, 0)
    chosen = candidates & np.take_along_axis(taken, words, 1)
    positions = np.where(chosen, np.arange(columns), columns)
    positions.sort(axis=1)
    return positions[:, : config.max_predictions_per_seq]


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
