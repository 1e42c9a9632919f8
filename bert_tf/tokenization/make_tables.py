"""Makes `unicode_14.npz`, the character tables of the tokenizer, from the released rules.

Run it with a Python whose `unicodedata` is version 14.0 (Python 3.11); any other is refused:

    python -m bert_tf.tokenization.make_tables

The tables are frozen at that version so that the same text gives the same ids under every Python
and every ICU. Imports `double_array`; flatbuffers, which TensorFlow brings along.
"""

import os
import sys
import unicodedata
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np

from bert_tf.tokenization import double_array
from bert_tf.tokenization.tables import (
    CASED,
    IGNORABLE,
    LATER_PUNCTUATION,
    PATH,
    REMOVED,
    STAND_INS,
)

UNICODE = "14.0.0"
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
_ASCII_PUNCTUATION = (
    set(range(33, 48)) | set(range(58, 65)) | set(range(91, 97)) | {*range(123, 127)}
)


def is_removed(code: int) -> bool:
    """Whether the released `_clean_text` drops the character."""
    if chr(code) in "\t\n\r":
        return False
    return code in (0, 0xFFFD) or unicodedata.category(chr(code)) in ("Cc", "Cf")


def normalized(code: int, do_lower_case: bool) -> str:
    """What one character becomes on its way to the words.

    CJK characters and ASCII punctuation stay as they are: the WordPiece operation isolates them
    itself, whatever its ICU. Other punctuation gets spaces around it.

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
    return punctuation and ord(character) not in _ASCII_PUNCTUATION


def normalizer(do_lower_case: bool) -> np.ndarray:
    """The model buffer of the `FastBertNormalize` operation: uint8, a flatbuffer.

    Source: tensorflow_text `fast_bert_normalizer_model.fbs` and `fast_bert_normalizer.h` for the
    layout: a value is a flag, 24 bits of offset into the pool and 6 bits of length.
    """
    stand_ins = dict(zip(LATER_PUNCTUATION, STAND_INS, strict=True))
    pool, values, places = bytearray(), {}, {}
    for code in CODE_POINTS:
        text = chr(stand_ins[code]) if code in stand_ins else normalized(code, do_lower_case)
        if text == chr(code):
            continue
        encoded = text.encode()
        if encoded not in places:
            places[encoded] = len(pool)
            pool += encoded
        values[chr(code).encode()] = 1 << 30 | places[encoded] << 6 | len(encoded)
    zero = values.pop(b"\0")
    return _flatbuffer(double_array.build(values), zero, bytes(pool), do_lower_case)


def _flatbuffer(trie: np.ndarray, zero: int, pool: bytes, do_lower_case: bool) -> np.ndarray:
    builder = flatbuffers.Builder(trie.nbytes + len(pool) + 1024)
    pool_at = builder.CreateByteVector(pool)
    trie_at = builder.CreateNumpyVector(trie)
    builder.StartObject(4)
    builder.PrependBoolSlot(0, do_lower_case, False)
    builder.PrependUOffsetTRelativeSlot(1, trie_at, 0)
    builder.PrependInt32Slot(2, zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_at, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)


def character_class(code: int) -> int:
    """Canonical combining class, and the flags of `tables`, of one character.

    Python keeps the properties Cased and Case_Ignorable to itself; what it makes of a sigma
    behind the character tells them.
    """
    character = chr(code)
    value = unicodedata.combining(character) | (REMOVED if is_removed(code) else 0)
    if f"{character}Σ".lower().endswith("ς"):
        return value | CASED
    return value | (IGNORABLE if f"A{character}Σ".lower().endswith("ς") else 0)


def reordered() -> list[int]:
    """Characters whose decomposition holds one that can move and is not dropped as an accent."""
    return [
        code
        for code in CODE_POINTS
        if any(
            unicodedata.combining(c) and unicodedata.category(c) != "Mn"
            for c in unicodedata.normalize("NFD", chr(code))
        )
    ]


def main() -> None:
    """Writes the tables beside this module."""
    if unicodedata.unidata_version != UNICODE:
        sys.exit(
            f"The tables are of Unicode {UNICODE}; this Python has {unicodedata.unidata_version}."
        )
    classes: Any = np.zeros(0x110000, np.int32)
    classes[CODE_POINTS] = [character_class(code) for code in CODE_POINTS]
    bounds: Any = np.flatnonzero(np.diff(classes, prepend=-1)).astype(np.int32)
    moving = reordered()
    split = [[ord(c) for c in unicodedata.normalize("NFD", chr(code))] for code in moving]
    np.savez_compressed(
        PATH,
        uncased=normalizer(do_lower_case=True),
        cased=normalizer(do_lower_case=False),
        class_bounds=bounds,
        classes=classes[bounds],
        moving=np.array(moving, np.int32),
        moving_lengths=np.array([len(codes) for codes in split], np.int32),
        moving_codes=np.array([code for codes in split for code in codes], np.int32),
    )
    print(f"{PATH}: {os.path.getsize(PATH):,} bytes")


if __name__ == "__main__":
    main()
