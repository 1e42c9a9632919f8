"""The tokenizer's rules for each character, as tables that are frozen at Unicode 14.0.

`tools/make_unicode_tables.py` generates them.
"""

import functools
import os

import numpy as np

PATH = os.path.join(os.path.dirname(__file__), "unicode_14.npz")

# The class of a character is a number: its canonical combining class in bits 0 to 7,
# and the flags below. CASED is set only for cased characters that are not
# case-ignorable.
REMOVED = 1 << 8
CASED = 1 << 9
CASE_IGNORABLE = 1 << 10
# First and last code point of each block of CJK characters.
CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
# Characters that became punctuation (a category P*) in Unicode 15 to 18. The ICU
# library in tensorflow_text classifies them as punctuation and would split words at
# them. In Unicode 14.0 they are unassigned, and the rules treat unassigned characters
# as part of a word.
LATER_PUNCTUATION = (
    0x1B4E,
    0x1B4F,
    0x1B7F,
    *range(0x2E60, 0x2E64),
    0x10D6E,
    0x10ED0,
    0x113D4,
    0x113D5,
    0x113D7,
    0x113D8,
    *range(0x11B00, 0x11B0A),
    0x11BE1,
    *range(0x11F43, 0x11F50),
    0x16D6D,
    0x16D6E,
    0x16D6F,
    0x1E5FF,
)
# The normalizer replaces each character of LATER_PUNCTUATION with one of these tag
# characters, so that the WordPiece operation does not split at the replaced character.
# The normalizer removes the tag characters (category Cf) of the original text, so every
# tag character in normalized text is a placeholder.
PLACEHOLDERS = range(0xE0020, 0xE0020 + len(LATER_PUNCTUATION))


@functools.cache
def load() -> dict[str, np.ndarray]:
    """Loads the arrays of `unicode_14.npz`.

    Returns:
        `uncased` and `cased`: uint8 [bytes], the model buffers of the normalizer.
        `class_bounds`: int32 [ranges], the first code point of each range of code
            points with the same class.
        `classes`: int32 [ranges], the class of each range.
        `reorderable`: int32 [characters], sorted, the code points whose decomposition
            holds a combining character that is not removed as an accent.
        `decomposition_lengths`: int32 [characters], the number of code points in the
            decomposition of each code point of `reorderable`.
        `decompositions`: int32 [sum of the lengths], the decompositions, concatenated.
    """
    with np.load(PATH) as archive:
        return dict(archive)
