"""Recognizes text that is not prose, such as subtitles, and hard-wrapped lines."""

import re

_SAMPLE_BYTES = 1 << 16
_LEAST_LINES = 5
_TIME_CODE = re.compile(r"\d:\d\d[:.,]\d\d")  # as in 00:01:02,345 and [01:02.34]
_WRAPPED = range(55, 81)  # characters of a line
_SENTENCE_ENDS = ".!?:;…。！？।۔"
_CLOSING = "\"'”’»)]*_ "


def hint_about(path: str, start: bytes) -> str:
    """Returns a line about text that is not prose or is hard-wrapped, or "".

    A text is not prose if more than a quarter of its lines have no letter or have a
    time code. Its lines are wrapped if most of them have 55 to 80 characters and end
    inside of a sentence.

    Args:
        path: The file, for the message.
        start: The start of its text, UTF-8. The first 64 KiB are examined.
    """
    text = start[:_SAMPLE_BYTES].decode(errors="ignore")
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) < _LEAST_LINES:
        return ""

    other = sum(
        not re.search(r"[^\W\d_]", each) or bool(_TIME_CODE.search(each))
        for each in lines
    )
    if other > len(lines) / 4:
        return (
            f"hint: {other:,} of the first {len(lines):,} lines of {path} have no "
            "letter or have a time code. If they are subtitles or tables, keep only "
            "the sentences."
        )

    wrapped = sum(
        len(each) in _WRAPPED and each.rstrip(_CLOSING)[-1:] not in _SENTENCE_ENDS
        for each in lines
    )
    if wrapped > len(lines) / 2:
        return (
            f"hint: {wrapped:,} of the first {len(lines):,} lines of {path} end inside "
            "of a sentence, but each line is read as a sentence. Join the lines of "
            "each paragraph, and create the records with --split_sentences "
            "(docs/pretraining_data.md)."
        )
    return ""
