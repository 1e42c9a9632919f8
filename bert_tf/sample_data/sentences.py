"""Splits docstrings into sentences and keeps the sentences that are English prose."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from bert_tf.sample_data.cleaning import GAP, Document, Text

_ABBREVIATION = re.compile(
    r"(?<![\w.])(?:e\.g|i\.e|a\.k\.a|w\.r\.t|al|etc|vs|cf|eg|ie|resp|figs?|eqs?|secs?|approx|incl|dr|"
    r"mr|refs?|viz|pp|vol)\.(?!$)",
    re.I,
)
_INNER_DOT = re.compile(r"[.!?](?=[^\s\"')\]]|[\"')\]]+[^\s\"')\].])|\.(?= [a-z(,])")


def split_into_sentences(documents: Sequence[Document]) -> list[Document]:
    """Splits paragraphs into sentences and keeps the sentences that are prose.

    TensorFlow Text's `StateBasedSentenceBreaker` splits at every full stop. Full stops
    in names, numbers and abbreviations are therefore replaced before the text is split.
    """
    texts = [
        _mask_dots(paragraph.text)
        for document in documents
        for paragraph in document.texts
    ]
    positions = iter(_sentence_positions(texts))
    return [
        dataclasses.replace(document, texts=_sentences(document.texts, positions))
        for document in documents
    ]


def _mask_dots(text: str) -> str:
    """Replaces full stops inside sentences by "_", and characters beyond ASCII by "x".

    Colons and semicolons also become "_". The length of the text does not change.
    """
    text = re.sub(r"[^ -~]", "x", text)
    text = _ABBREVIATION.sub(lambda match: match[0].replace(".", "_"), text)
    return _INNER_DOT.sub("_", text).replace(":", "_").replace(";", "_")


def _sentence_positions(texts: list[str]) -> list[list[tuple[int, int]]]:
    """Returns the [start, end) character positions of the sentences of each text."""
    import tensorflow_text

    if not texts:
        return []
    breaker = tensorflow_text.StateBasedSentenceBreaker()
    _, starts, ends = breaker.break_sentences_with_offsets(texts)
    rows = zip(starts.to_list(), ends.to_list(), strict=True)
    return [list(zip(first, last, strict=True)) for first, last in rows]


def _sentences(
    paragraphs: Sequence[Text], positions: Iterator[list[tuple[int, int]]]
) -> tuple[Text, ...]:
    kept: list[Text] = []
    for paragraph in paragraphs:
        spans = next(positions)
        for start, end in spans:
            sentence = _extract_sentence(paragraph, start, end)
            if is_prose(sentence, is_last=end == spans[-1][1]):
                stop = "" if sentence.text[-1] in ".:!?\"')" else "."
                kept.append(dataclasses.replace(sentence, text=sentence.text + stop))
    return tuple(kept)


def _extract_sentence(paragraph: Text, start: int, end: int) -> Text:
    text = paragraph.text[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()

    # The positions of code are relative to the sentence, and end inside it.
    code = tuple(
        (max(a - start, 0), min(b - start, len(text)))
        for a, b in paragraph.code
        if a - start < len(text) and b > start
    )
    return Text(text, code)


_COMMON_WORD = re.compile(
    r"\b(?:an?|the|of|to|in|is|are|be|for|and|or|if|with|by|as|on|this|that|it|from|not|will|when|"
    r"which|can|must|has|have|at|should|may|you|all|any|no|was|were|been|than|into|each|its|only|"
    r"these|but|one|other|use|used)\b",
    re.I,
)
_LEGAL = re.compile(
    r"copyright|licensed under|all rights reserved|warrant(?:y|ies)|@\w+\.\w", re.I
)
_LEAD_IN = re.compile(r"(?:For )?(?:Examples?|Usage)\b.{0,60}:$", re.I)
_CODE_OR_MARKUP = re.compile(
    rf"[{GAP}`|\\{{}}~^$@]|::|==|>>|<<|</?[a-z]|--+|\w=|\*\w+\*|%\(|\.\.\. |__ |_$"
    r"| #[ .]|(?:^|[.)] )\w+ = [\w.]+\(|\S{50}"
)
_SYMBOL = re.compile(r"[^\w\s.,;:!?'\"()-]")
_START = re.compile(r"[A-Z0-9]|[\"'(]\w")
_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")


def is_prose(sentence: Text, is_last: bool) -> bool:
    """Whether a sentence is English prose, judged by its words and symbols.

    Only the last sentence of a paragraph (`is_last`) may lack final punctuation.
    """
    text = sentence.text
    for start, end in reversed(sentence.code):
        text = f"{text[:start]}Code{text[end:]}"
    if _CODE_OR_MARKUP.search(text) or _LEGAL.search(text) or _LEAD_IN.match(text):
        return False

    words = _WORD.findall(text)
    ended = text.rstrip("\"')")[-1:] in (".", "!", "?", ":")
    complete = ended or (
        is_last and len(words) >= 5 and not _COMMON_WORD.fullmatch(words[-1])
    )
    if not 4 <= len(words) <= 80 or not complete or not _START.match(text):
        return False

    # English has many short function words, few symbols, and pairs of brackets.
    letters = sum(map(len, words))
    return (
        len(_COMMON_WORD.findall(text)) * 9 >= len(words)
        and letters >= 0.6 * len(text)
        and len(_SYMBOL.findall(text)) * 25 <= len(text)
        and text.count("(") == text.count(")")
        and text.count('"') % 2 == 0
    )
