"""Random numbers as a function of what they are for.

A draw is a hash of (seed, pass, document, ...), never the next number of a generator. So it does
not matter which process makes it, in which order, or in a batch of what size. The hash is the
output function of SplitMix64; all functions work on whole arrays.

Imports numpy only. Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators"
(OOPSLA 2014), section 5.
"""

import enum

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_M1, _M2, _M4 = (np.uint64(m) for m in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))


class Draw(enum.IntEnum):
    """What a random number is for; two draws of one key never share a number."""

    PASS = 1
    DOCUMENT = 2
    SENTENCE = 3
    SEGMENT = 4
    HELD_OUT = 5
    IS_SHORT = 6
    SHORT_LENGTH = 7
    SPLIT = 8
    NEXT = 9
    OTHER_DOCUMENT = 10
    OTHER_START = 11
    TRIM_A = 12
    TRIM_B = 13
    MASK_ORDER = 14
    REPLACEMENT = 15
    RANDOM_TOKEN = 16
    NGRAM_SIZE = 17
    NGRAM_ORDER = 18


def mix(values: np.ndarray) -> np.ndarray:
    """Scrambles uint64 values, one to one; any shape."""
    with np.errstate(over="ignore"):
        values = values ^ (values >> np.uint64(30))
        values *= _FIRST
        values ^= values >> np.uint64(27)
        values *= _SECOND
        values ^= values >> np.uint64(31)
    return values


def derive(keys: np.ndarray, draw: Draw, index: np.ndarray | int | None = None) -> np.ndarray:
    """New uint64 keys: from keys, what they are for, and which of several; shapes broadcast."""
    derived = _step(keys, draw)
    return derived if index is None else _step(derived, index)


def _step(keys: np.ndarray, counter: np.ndarray | int) -> np.ndarray:
    with np.errstate(over="ignore"):
        steps = (np.asarray(counter).astype(np.uint64) + np.uint64(1)) * _STEP
        return mix(np.asarray(keys + steps))


def seed_key(seed: int) -> np.ndarray:
    """The key that all others derive from; any Python integer."""
    return mix(np.asarray([seed % (1 << 64)], np.uint64))


def uniform(keys: np.ndarray, draw: Draw) -> np.ndarray:
    """float64 in [0, 1), one a key."""
    return (derive(keys, draw) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(keys: np.ndarray, draw: Draw, bound: np.ndarray | int) -> np.ndarray:
    """int64 in [0, bound), one a key; `bound` is at least 1 and below 2**53."""
    return (uniform(keys, draw) * bound).astype(np.int64)


def heads(keys: np.ndarray, draw: Draw, tosses: np.ndarray) -> np.ndarray:
    """int64 number of heads in that many tosses of a fair coin, one a key."""
    counts: np.ndarray = np.zeros(len(keys), np.int64)
    left: np.ndarray = tosses.astype(np.int64)
    word = 0
    rows = np.flatnonzero(left > 0)
    while len(rows):
        bits = derive(keys[rows], draw, word)
        unused = np.uint64(64) - np.minimum(left[rows], 64).astype(np.uint64)
        counts[rows] += _ones(bits >> unused)
        left[rows] -= 64
        rows, word = rows[left[rows] > 0], word + 1
    return counts


def _ones(bits: np.ndarray) -> np.ndarray:
    """Number of one bits in each uint64 (numpy has it from 2.0 only)."""
    bits = bits - ((bits >> np.uint64(1)) & _M1)
    bits = (bits & _M2) + ((bits >> np.uint64(2)) & _M2)
    bits = (bits + (bits >> np.uint64(4))) & _M4
    with np.errstate(over="ignore"):
        return ((bits * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64)
