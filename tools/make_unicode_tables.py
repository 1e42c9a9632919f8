"""Generates `bert_tf/tokenization/unicode_14.npz`, the tokenizer's character tables.

The tables hold the result of the released tokenizer's rules for each Unicode character.
The file is stored in the repository, so that the same text gives the same ids under
every version of Python and of the ICU library. Run this program only after a change to
the rules or to the format of the tables:

    python -m tools.make_unicode_tables

Run it in the root of the repository, with a Python whose `unicodedata` has version 14.0
(Python 3.11); the program exits with an error under every other version.
`tests/tools/test_make_unicode_tables.py` compares the stored tables with newly
generated tables.
"""

import os
import string
import sys
import unicodedata
from typing import Any

import flatbuffers
import numpy as np

from bert_tf.tokenization.unicode_tables import (
    CASE_IGNORABLE,
    CASED,
    LATER_PUNCTUATION,
    PATH,
    PLACEHOLDERS,
    REMOVED,
)
from tools import double_array_trie

UNICODE_VERSION = "14.0.0"
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def is_removed(code: int) -> bool:
    """Whether the released `_clean_text` removes the character."""
    if chr(code) in "\t\n\r":
        return False
    return code in (0, 0xFFFD) or unicodedata.category(chr(code)) in ("Cc", "Cf")


def normalized(code: int, do_lower_case: bool) -> str:
    """Returns the normalized form of one character.

    CJK characters and ASCII punctuation stay unchanged, since the WordPiece operation
    splits at them under every version of ICU. Other punctuation gets a space on each
    side.

    Source: google-research/bert `BasicTokenizer`.
    """
    if is_removed(code):
        return ""
    text = chr(code)
    if text.isspace():
        return " "
    if do_lower_case:
        decomposed = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if _needs_spaces(c) else c for c in text)


def _needs_spaces(character: str) -> bool:
    punctuation = unicodedata.category(character).startswith("P")
    return punctuation and character not in string.punctuation


def normalizer_model(do_lower_case: bool) -> np.ndarray:
    """Returns the model of the `FastBertNormalize` operation: uint8, a flatbuffer.

    All normalized forms are concatenated in one array of bytes. The value of a
    character in the trie consists of a flag, 24 bits for the offset of its normalized
    form in that array, and 6 bits for the length of the form.

    Source: tensorflow_text `fast_bert_normalizer_model.fbs` and
    `fast_bert_normalizer.h`.
    """
    placeholders = dict(zip(LATER_PUNCTUATION, PLACEHOLDERS, strict=True))
    pool, values, offsets = bytearray(), {}, {}
    for code in CODE_POINTS:
        text = (
            chr(placeholders[code])
            if code in placeholders
            else normalized(code, do_lower_case)
        )
        if text == chr(code):
            continue
        encoded = text.encode()
        if encoded not in offsets:
            offsets[encoded] = len(pool)
            pool += encoded
        values[chr(code).encode()] = 1 << 30 | offsets[encoded] << 6 | len(encoded)
    zero = values.pop(b"\0")
    return _flatbuffer(
        double_array_trie.build(values), zero, bytes(pool), do_lower_case
    )


def _flatbuffer(
    trie: np.ndarray, zero: int, pool: bytes, do_lower_case: bool
) -> np.ndarray:
    builder = flatbuffers.Builder(trie.nbytes + len(pool) + 1024)
    pool_position = builder.CreateByteVector(pool)
    trie_position = builder.CreateNumpyVector(trie)
    builder.StartObject(4)
    builder.PrependBoolSlot(0, do_lower_case, False)
    builder.PrependUOffsetTRelativeSlot(1, trie_position, 0)
    builder.PrependInt32Slot(2, zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_position, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def character_class(code: int) -> int:
    """Returns the class of one character, as `unicode_tables` defines it.

    Python does not expose the properties Cased and Case_Ignorable. This function
    derives the properties from the form of sigma (final or not) that `str.lower`
    returns for a capital sigma after the character.
    """
    character = chr(code)
    value = unicodedata.combining(character) | (REMOVED if is_removed(code) else 0)
    if f"{character}Σ".lower().endswith("ς"):
        return value | CASED
    return value | (CASE_IGNORABLE if f"A{character}Σ".lower().endswith("ς") else 0)


def reorderable() -> list[int]:
    """Returns the code points that canonical ordering may affect once accents are gone.

    The decomposition of each of these code points contains a combining character with a
    category other than Mn. Such a character is not removed as an accent.
    """
    return [
        code
        for code in CODE_POINTS
        if any(
            unicodedata.combining(c) and unicodedata.category(c) != "Mn"
            for c in unicodedata.normalize("NFD", chr(code))
        )
    ]


def make_tables() -> dict[str, np.ndarray]:
    """Generates the arrays that `unicode_tables.load` describes."""
    classes: Any = np.zeros(0x110000, np.int32)
    classes[CODE_POINTS] = [character_class(code) for code in CODE_POINTS]
    bounds: Any = np.flatnonzero(np.diff(classes, prepend=-1)).astype(np.int32)
    codes = reorderable()
    decompositions = [unicodedata.normalize("NFD", chr(code)) for code in codes]
    return {
        "uncased": normalizer_model(do_lower_case=True),
        "cased": normalizer_model(do_lower_case=False),
        "class_bounds": bounds,
        "classes": classes[bounds],
        "reorderable": np.array(codes, np.int32),
        "decomposition_lengths": np.array(
            [len(text) for text in decompositions], np.int32
        ),
        "decompositions": np.array([ord(c) for c in "".join(decompositions)], np.int32),
    }


def main() -> None:
    """Writes the tables to `bert_tf/tokenization/`."""
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(
            f"The tables need Unicode {UNICODE_VERSION}, but this Python has Unicode "
            f"{unicodedata.unidata_version}. Use Python 3.11."
        )
    np.savez_compressed(PATH, **make_tables())  # type: ignore[arg-type]
    print(f"{PATH}: {os.path.getsize(PATH):,} bytes")


if __name__ == "__main__":
    main()
