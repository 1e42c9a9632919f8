"""`final_text`: projects a predicted span of tokens to the original text of the context."""


def final_text(predicted: str, original: str, normalized: str) -> str:
    """Returns the part of the original text that a span of tokens comes from.

    For example, the tokens "steve smith" of the original text "Steve Smith's" give
    "Steve Smith". Characters are aligned without spaces. The whole original text is
    returned if the predicted text is not found, or if the texts differ in their number
    of characters.

    Args:
        predicted: The tokens of the span, joined to words with spaces between them.
        original: The words of the context in which the span lies, joined by spaces.
        normalized: The words of `original` after `BertTokenizer.words`, joined by
            spaces.

    Source: google-research/bert `run_squad.get_final_text`.
    """
    start = normalized.find(predicted)
    if start < 0 or not predicted:
        return original
    spaces = normalized.count(" ")
    if len(original) - original.count(" ") != len(normalized) - spaces:
        return original
    first = start - normalized.count(" ", 0, start)
    last = first + len(predicted) - predicted.count(" ") - 1
    begin, end = _position(original, first), _position(original, last)
    return original[begin : end + 1]


def _position(text: str, number: int) -> int:
    """Returns the position of the character with this number, counted without spaces."""
    start = 0
    for word in text.split(" "):
        if number < len(word):
            return start + number
        number -= len(word)
        start += len(word) + 1
    raise IndexError(f"text has fewer characters than {number + 1}")
