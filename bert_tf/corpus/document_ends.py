"""Finds the ends of documents: blank lines in text files, line ends in other files."""

import re

from bert_tf.corpus.sources import SeekableFile
from bert_tf.corpus.text_formats import read_chunks

# The end of a document: in a text file, the line feed of the last line and the blank
# line after it; in other files, a line feed.
_BLANK_LINE = re.compile(
    rb"\n(?:[ \t\r\f\v\x1c-\x1f]|\xc2[\x85\xa0]|\xe1\x9a\x80"
    rb"|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]"
    rb"|\xe2\x81\x9f|\xe3\x80\x80)*\n"  # all characters that `str.strip` removes
)
_LINE_END = re.compile(rb"\n")
_LONGEST_BLANK_LINE = 256


def document_end(file: SeekableFile, start: int, limit: int) -> int | None:
    """Returns the end of the first document that ends at or after the byte `start`.

    Returns None if that document ends with the file, or more than `limit` bytes later.
    """
    # The search starts at the byte before `start`, because that byte may be the line
    # feed before a blank line. If `start` is 0, there is no such byte, and the search
    # starts with an inserted line feed.
    start -= 1
    window = bytearray(b"" if start >= 0 else b"\n")
    searched = 0
    pattern = document_end_pattern(file)
    for chunk in read_chunks(file.path, max(start, 0), start + limit + 1):
        window += chunk
        if match := pattern.search(window, max(searched - _LONGEST_BLANK_LINE, 0)):
            return start + match.end()
        searched = len(window)
    return None


def document_end_pattern(file: SeekableFile) -> re.Pattern[bytes]:
    """Returns the pattern for the format of the file. Each match ends where a document ends."""
    return _BLANK_LINE if file.format == "text" else _LINE_END
