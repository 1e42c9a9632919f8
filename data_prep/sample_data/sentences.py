"""Documents as sentences, and which sentences are worth keeping.

Imports `documentation`; TensorFlow Text inside the function that splits.
"""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.sample_data import cleaning, documentation


@dataclass(frozen=True)
class Sentence:
    """One sentence of a document.

    Attributes:
        text: One line.
        code: Where words of `text` are code, as [start, end) in characters.
        paragraph: The number of its paragraph in the document as it was harvested.
        argument: The name of the argument that its paragraph describes, else "".
        follows: Whether the sentence before it in the document comes directly before it there.
    """

    text: str
    code: tuple[tuple[int, int], ...]
    paragraph: int
    argument: str
    follows: bool


@dataclass(frozen=True)
class Text:
    """A document as sentences.

    Attributes:
        library: The distribution it comes from, or "python".
        name: The dotted name of what it documents.
        sentences: Those worth keeping, in order.
    """

    library: str
    name: str
    sentences: tuple[Sentence, ...]


_ABBREVIATION = re.compile(
    r"(?<![\w.])(?:e\.g|i\.e|a\.k\.a|w\.r\.t|al|etc|vs|cf|eg|ie|resp|figs?|eqs?|secs?|approx|incl|dr|"
    r"mr|refs?|viz|pp|vol)\.(?!$)",
    re.I,
)
_INNER_DOT = re.compile(r"[.!?](?=[^\s\"')\]]|[\"')\]]+[^\s\"')\].])|\.(?= [a-z(,])")


def split(documents: Sequence[documentation.Document]) -> list[Text]:
    """Cuts paragraphs into sentences and keeps the good ones.

    The cutting is TensorFlow Text's `StateBasedSentenceBreaker`. It takes any full stop for an
    end, so the stops in names, numbers and abbreviations are hidden from it.
    """
    paragraphs = [paragraph for document in documents for paragraph in document.paragraphs]
    bounds = iter(_boundaries([_masked(paragraph.text) for paragraph in paragraphs]))
    return [_text(document, bounds) for document in documents]


def _masked(text: str) -> str:
    """The same length in ASCII, where only what ends a sentence looks like it."""
    text = re.sub(r"[^ -~]", "x", text)
    text = _ABBREVIATION.sub(lambda match: match[0].replace(".", "_"), text)
    return _INNER_DOT.sub("_", text).replace(":", "_").replace(";", "_")


def _boundaries(texts: list[str]) -> list[list[tuple[int, int]]]:
    import tensorflow_text

    if not texts:
        return []
    _, starts, ends = tensorflow_text.StateBasedSentenceBreaker().break_sentences_with_offsets(
        texts
    )
    columns = (starts.flat_values, ends.flat_values, starts.row_splits)
    first, last, rows = (column.numpy().tolist() for column in columns)
    pairs = list(zip(first, last, strict=True))
    return [pairs[a:b] for a, b in itertools.pairwise(rows)]


def _text(document: documentation.Document, bounds: Any) -> Text:
    kept: list[Sentence] = []
    unbroken = False
    for number, paragraph in enumerate(document.paragraphs):
        pieces = next(bounds)
        for start, end in pieces:
            sentence = _cut(paragraph, number, start, end, unbroken)
            unbroken = is_prose(sentence, is_last=end == pieces[-1][1])
            if unbroken:
                stop = "" if sentence.text[-1] in ".:!?\"')" else "."
                kept.append(dataclasses.replace(sentence, text=sentence.text + stop))
    return Text(document.library, document.name, tuple(kept))


def _cut(
    paragraph: cleaning.Paragraph, number: int, start: int, end: int, follows: bool
) -> Sentence:
    text = paragraph.text[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    code = tuple(
        (max(a - start, 0), min(b - start, len(text)))
        for a, b in paragraph.code
        if a - start < len(text) and b > start
    )
    return Sentence(text, code, number, paragraph.argument, follows)


_COMMON = re.compile(
    r"\b(?:an?|the|of|to|in|is|are|be|for|and|or|if|with|by|as|on|this|that|it|from|not|will|when|"
    r"which|can|must|has|have|at|should|may|you|all|any|no|was|were|been|than|into|each|its|only|"
    r"these|but|one|other|use|used)\b",
    re.I,
)
_LEGAL = re.compile(r"copyright|licensed under|all rights reserved|warrant(?:y|ies)|@\w+\.\w", re.I)
_LEAD_IN = re.compile(r"(?:For )?(?:Examples?|Usage)\b.{0,60}:$", re.I)
_REMNANT = re.compile(
    rf"[{cleaning.GAP}`|\\{{}}~^$@]|::|==|>>|<<|--+|\w=|\*\w+\*|%\(|\.\.\. |__ |_$|\S{{50}}"
)
_SYMBOL = re.compile(r"[^\w\s.,;:!?'\"()-]")
_START = re.compile(r"[A-Z0-9]|[\"'(]\w")
_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")


def is_prose(sentence: Sentence, is_last: bool) -> bool:
    """Whether a sentence reads as English.

    Args:
        sentence: What the splitter cut.
        is_last: Whether its paragraph ends with it; only then it may lack a full stop.
    """
    text = sentence.text
    for start, end in reversed(sentence.code):
        text = f"{text[:start]}Code{text[end:]}"
    if _REMNANT.search(text) or _LEGAL.search(text) or _LEAD_IN.match(text):
        return False
    words = _WORD.findall(text)
    ended = text.rstrip("\"')")[-1:] in (".", "!", "?", ":")
    complete = ended or (is_last and len(words) >= 5 and not _COMMON.fullmatch(words[-1]))
    if not 4 <= len(words) <= 80 or not complete or not _START.match(text):
        return False
    letters = sum(map(len, words))
    return (
        len(_COMMON.findall(text)) * 9 >= len(words)
        and letters >= 0.6 * len(text)
        and len(_SYMBOL.findall(text)) * 25 <= len(text)
        and text.count("(") == text.count(")")
        and text.count('"') % 2 == 0
    )
