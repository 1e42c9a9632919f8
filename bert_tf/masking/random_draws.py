"""Counter-based random numbers: hashes of a key, the purpose of the draw, and an index.

A key is a hash of the seed and of indices, such as the index of the document and the
index of the sentence. No generator with a state is used. So a random number does not
depend on the process that computes the number, on the order of the draws, or on the
batch size. The hash function is the output function of SplitMix64. All functions work
on arrays.

Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA
2014), section 5.
"""

import enum

import numpy as np

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


class Purpose(enum.IntEnum):
    """The purpose of a draw. Draws with the same key but different purposes are independent."""

    PASS, DOCUMENT, SENTENCE, SEGMENT, HELD_OUT, IS_SHORT, SHORT_LENGTH, SPLIT, NEXT = (
        range(1, 10)
    )
    OTHER_DOCUMENT, OTHER_START, TRIM_A, TRIM_B, MASK_ORDER, REPLACEMENT = range(10, 16)
    RANDOM_TOKEN, NGRAM_SIZE, NGRAM_ORDER, TRAINING = range(16, 20)


def splitmix64(values: np.ndarray) -> np.ndarray:
    """Hashes uint64 values of any shape; different values have different hashes."""
    with np.errstate(over="ignore"):
        values = values ^ (values >> np.uint64(30))
        values *= _MULTIPLIER_1
        values ^= values >> np.uint64(27)
        values *= _MULTIPLIER_2
        values ^= values >> np.uint64(31)
    return values


def seed_key(seed: int) -> np.ndarray:
    """Returns the root key of a seed, uint64 [1], from which all other keys are derived."""
    return splitmix64(np.asarray([seed % (1 << 64)], np.uint64))


def derive_keys(
    keys: np.ndarray, purpose: Purpose, index: np.ndarray | int | None
) -> np.ndarray:
    """Hashes each key, uint64 of any shape, with the purpose and the index.

    The shapes of `index` and `keys` are broadcast. `index` is None if each key is used
    for only one draw of this purpose.
    """
    derived = _hash_with(keys, purpose)
    return derived if index is None else _hash_with(derived, index)


def _hash_with(keys: np.ndarray, counter: np.ndarray | int) -> np.ndarray:
    with np.errstate(over="ignore"):
        increments = (np.asarray(counter).astype(np.uint64) + np.uint64(1)) * _INCREMENT
        return splitmix64(np.asarray(keys + increments))


def uniform(
    keys: np.ndarray, purpose: Purpose, index: np.ndarray | int | None = None
) -> np.ndarray:
    """Draws a float64 in [0, 1) for each key of `derive_keys(keys, purpose, index)`."""
    bits = derive_keys(keys, purpose, index) >> np.uint64(11)  # 53, as in a mantissa
    return bits.astype(np.float64) * 2.0**-53


def integers(keys: np.ndarray, purpose: Purpose, bound: np.ndarray | int) -> np.ndarray:
    """Draws an int64 in [0, bound) for each key; `bound` is from 1 to 2**53 - 1."""
    return (uniform(keys, purpose) * bound).astype(np.int64)


def count_heads(keys: np.ndarray, purpose: Purpose, tosses: np.ndarray) -> np.ndarray:
    """Draws, for each key, the number of heads in `tosses` tosses of a fair coin: int64 [N]."""
    heads: np.ndarray = np.zeros(len(keys), np.int64)
    # Each hash of 64 bits has 64 tosses; the last one of a key may need fewer.
    for word in range((int(tosses.max(initial=0)) + 63) // 64):
        rows = np.flatnonzero(tosses > 64 * word)  # [R]
        unused_bits = np.maximum(64 * (word + 1) - tosses[rows], 0).astype(np.uint64)
        words = derive_keys(keys[rows], purpose, word) >> unused_bits

        # `numpy.bitwise_count` is not used, because it requires NumPy 2.0.
        bits = np.unpackbits(words[:, None].view(np.uint8), axis=1)  # [R, 64]
        heads[rows] += bits.sum(axis=1, dtype=int)
    return heads
