"""The rules of adapt_vocabulary in plain Python, without imports from bert_tf."""

import collections
import re

from reference import tokenizer

LONGEST_WORD = 50


def documents(text):
    """Returns the documents of a text file: lists of lines.

    A blank line ends a document.
    """
    found, current = [], []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            current.append(line)
        elif current:
            found.append(current)
            current = []
    return found


def split(found):
    """Returns (documents to choose words on, held-out ones: the 10th, 20th ...)."""
    held_out = found[9::10]
    return [each for i, each in enumerate(found) if i % 10 != 9], held_out


def counts(found, do_lower_case):
    words = collections.Counter()
    for document in found:
        for line in document:
            words.update(tokenizer.words(line, do_lower_case))
    return {word: number for word, number in words.items() if len(word) <= LONGEST_WORD}


def choose(word_counts, vocabulary, num_words):
    """Returns (word, occurrences, former pieces), from most to fewest saved tokens."""
    scored = []
    for word, number in word_counts.items():
        pieces = tokenizer.pieces(word, set(vocabulary))
        cost = len(pieces)
        if pieces == ["[UNK]"]:
            cost = len(word) if len(word) > 1 else 2
        if cost > 1:
            scored.append((-number * (cost - 1), word, number, pieces))
    return [tuple(rest) for _, *rest in sorted(scored)[:num_words]]


def cost(word_counts, vocabulary):
    """Returns the numbers of words, of tokens and of [UNK]."""
    words = tokens = unknown = 0
    for word, number in word_counts.items():
        pieces = tokenizer.pieces(word, set(vocabulary))
        words += number
        tokens += number * len(pieces)
        unknown += number * (pieces == ["[UNK]"])
    return words, tokens, unknown


def new_vocabulary(vocabulary, words, rows):
    """Returns the entries with the new words.

    `rows` is the size of the table of embeddings.
    """
    result, words = list(vocabulary), list(words)
    for index, token in enumerate(result):
        if re.fullmatch(r"\[unused[0-9]+\]", token) and words:
            result[index] = words.pop(0)
    if words:
        result += words
        number = 0
        while len(result) < rows or len(result) % 8:
            if f"[unused{number}]" not in vocabulary:
                result.append(f"[unused{number}]")
            number += 1
    return result
