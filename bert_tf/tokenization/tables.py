"""The character tables, frozen at Unicode 14.0, as `make_tables` wrote them.

Imports numpy.
"""

import functools
import os

import numpy as np

PATH = os.path.join(os.path.dirname(__file__), "unicode_14.npz")

# A class is the canonical combining class (bits 0 to 7) and these flags. CASED means cased and
# not case-ignorable.
REMOVED, CASED, IGNORABLE = 1 << 8, 1 << 9, 1 << 10
CJK = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
# Given a category P* after Unicode 14.0 (up to 18.0). tensorflow_text's ICU knows them and would
# split at them, where the rules at 14.0 see unassigned characters, which are part of a word.
LATER_PUNCTUATION = (
    0x1B4E, 0x1B4F, 0x1B7F, *range(0x2E60, 0x2E64), 0x10D6E, 0x10ED0, 0x113D4, 0x113D5, 0x113D7,
    0x113D8, *range(0x11B00, 0x11B0A), 0x11BE1, *range(0x11F43, 0x11F50), 0x16D6D, 0x16D6E,
    0x16D6F, 0x1E5FF,
)  # fmt: skip
# What stands for them between the normalizer and the WordPiece operation: tag characters, category
# Cf, which the rules remove, so that normalized text holds none of its own.
STAND_INS = range(0xE0020, 0xE0020 + len(LATER_PUNCTUATION))


@functools.cache
def load() -> dict[str, np.ndarray]:
    """The arrays of `unicode_14.npz`.

    Returns:
        `uncased` and `cased`, the model buffers of the normalizer: uint8 [bytes];
        `class_bounds` and `classes`: int32 [ranges], the first code point of each range of equal
        class, and that class; `moving`: int32 [characters], those whose decomposition canonical
        ordering may move without dropping it, with `moving_lengths` int32 [characters] and
        `moving_codes` int32 [all lengths], their decompositions.
    """
    with np.load(PATH) as archive:
        return {name: archive[name] for name in archive.files}
