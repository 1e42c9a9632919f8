"""The tokenizer of google-research/bert in plain Python, without imports from bert_tf.

Source: google-research/bert tokenization.py, as described in its README and comments:
decode as
UTF-8 and skip invalid bytes, clean, isolate CJK characters, split at white space,
lower-case and remove accents, split at punctuation, then greedy longest match first.
"""

import functools
import unicodedata

CJK = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
]  # fmt: skip


def to_unicode(text):
    return text.decode("utf-8", "ignore") if isinstance(text, bytes) else text


@functools.cache
def is_whitespace(character):
    return character in " \t\n\r" or unicodedata.category(character) == "Zs"


@functools.cache
def is_control(character):
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf")


@functools.cache
def is_punctuation(character):
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")


def clean(text):
    kept = []
    for character in text:
        if ord(character) in (0, 0xFFFD) or is_control(character):
            continue
        kept.append(" " if is_whitespace(character) else character)
    return "".join(kept)


def space_cjk(text):
    return "".join(
        f" {character} " if any(a <= ord(character) <= b for a, b in CJK) else character
        for character in text
    )


def strip_accents(text):
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def split_punctuation(text):
    return "".join(f" {c} " if is_punctuation(c) else c for c in text)


def words(text, do_lower_case):
    """Returns the words of `text`; `text` is str or bytes."""
    result = []
    for token in space_cjk(clean(to_unicode(text))).split():
        if do_lower_case:
            token = strip_accents(token.lower())
        result += split_punctuation(token).split()
    return result


def is_unchanged(character, do_lower_case):
    """Returns True if no rule changes the character or splits a text at it.

    If a text consists of such characters and spaces, its words are the strings between
    spaces.
    """
    code = ord(character)
    if code in (0, 0xFFFD) or character.isspace() or is_whitespace(character):
        return False
    if is_control(character) or is_punctuation(character):
        return False
    if any(a <= code <= b for a, b in CJK) or 0xD800 <= code < 0xE000:
        return False
    return not do_lower_case or (
        character.lower() == unicodedata.normalize("NFD", character) == character
        and unicodedata.combining(character) == 0
        and unicodedata.category(character) != "Mn"
    )


def pieces(word, vocabulary):
    """Returns the WordPiece tokens of a word."""
    if len(word) > 200:
        return ["[UNK]"]
    found, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        start = end
    return found


class Tokenizer:
    """Converts texts to ids.

    Args:
        tokens: The vocabulary, in the order of the ids.
        do_lower_case: Whether to lower-case and remove accents.
    """

    def __init__(self, tokens, do_lower_case):
        self.ids = {}
        for index, token in enumerate(tokens):
            self.ids[token.strip()] = index
        self.do_lower_case = do_lower_case
        self.known = {}
        self.known_parts = {}

    def tokenize(self, text):
        return self.ids_of(words(text, self.do_lower_case))

    def tokenize_with_cache(self, text):
        """Returns the same ids as `tokenize`, but caches those of parts between spaces.

        No rule depends on characters on both sides of a space, so the parts are
        independent.
        """
        result = []
        for part in to_unicode(text).split(" "):
            if part not in self.known_parts:
                self.known_parts[part] = self.tokenize(part)
            result += self.known_parts[part]
        return result

    def ids_of(self, split):
        """Returns the ids of a text that is split into words."""
        result = []
        for word in split:
            if word not in self.known:
                self.known[word] = [self.ids[piece] for piece in pieces(word, self.ids)]
            result += self.known[word]
        return result


def truncate(ids_a, ids_b, room):
    """Removes the longer list's last token (B's if equal) until both fit in `room`."""
    ids_a, ids_b = list(ids_a), list(ids_b)
    while len(ids_a) + len(ids_b) > room:
        (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()
    return ids_a, ids_b
