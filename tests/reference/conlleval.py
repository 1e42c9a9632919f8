"""The counts and scores of conlleval in plain Python, without imports from bert_tf.

conlleval is the evaluation program of the CoNLL-2000 shared task. It goes through the
words of all sentences once, and remembers whether the present correct entity and the
present predicted entity have been equal so far. The tag before the first and after the
last word of a sentence is O. The rules for E and S (IOBES) are those of its later
versions in Python.
"""

import itertools
from collections import Counter
from typing import NamedTuple


class Counts(NamedTuple):
    """Entities by type: correct ones, predicted ones, those in both.

    And numbers of tags.
    """

    correct: Counter
    predicted: Counter
    common: Counter
    words: int
    equal_tags: int


def parse(tag):
    """Returns prefix and type of a tag; the type of O is ""."""
    if "-" not in tag:
        return tag, ""
    prefix, entity_type = tag.split("-", 1)
    return prefix, entity_type


def ends(before, now):
    """Returns whether an entity that contains the word before ends with it."""
    (last, last_type), (prefix, entity_type) = before, now
    if last == "O":
        return False
    if last in ("E", "S") or last_type != entity_type:
        return True
    return prefix in ("B", "S", "O")


def starts(before, now):
    """Returns whether an entity starts with the present word."""
    (last, last_type), (prefix, entity_type) = before, now
    if prefix == "O":
        return False
    if prefix in ("B", "S") or last_type != entity_type:
        return True
    return last in ("E", "S", "O")


def entities(tags):
    """Returns (type, first word, word after the last) of each entity."""
    found, start = [], None
    pairs = [parse(tag) for tag in ["O", *tags, "O"]]
    for place, (before, now) in enumerate(itertools.pairwise(pairs)):
        if ends(before, now):
            found.append((before[1], start, place))
        if starts(before, now):
            start = place
    return found


def count(sentences):
    """Returns the `Counts` of pairs (correct tags, predicted tags) of sentences."""
    found = Counts(Counter(), Counter(), Counter(), 0, 0)
    words = equal_tags = 0
    for correct, predicted in sentences:
        words += len(correct)
        equal_tags += sum(a == b for a, b in zip(correct, predicted, strict=True))
        before = ("O", ""), ("O", "")
        equal_so_far = False
        for pair in zip([*correct, "O"], [*predicted, "O"], strict=True):
            now = parse(pair[0]), parse(pair[1])
            end = [ends(*each) for each in zip(before, now, strict=True)]
            start = [starts(*each) for each in zip(before, now, strict=True)]
            if equal_so_far and all(end):
                found.common[before[0][1]] += 1
            if any(end):
                equal_so_far = False
            for counter, begins, (_, entity_type) in zip(
                found[:2], start, now, strict=True
            ):
                counter[entity_type] += begins
            if all(start) and now[0][1] == now[1][1]:
                equal_so_far = True
            elif any(start):
                equal_so_far = False
            before = now
    return found._replace(words=words, equal_tags=equal_tags)


def scores(common, predicted, correct):
    """Returns precision, recall and FB1 in percent.

    0 if one of them has no definition.
    """
    precision = 100 * common / predicted if predicted else 0
    recall = 100 * common / correct if correct else 0
    return (
        precision,
        recall,
        2 * precision * recall / (precision + recall) if common else 0,
    )


def overall(counts):
    """Returns the scores of all types together."""
    totals = (
        sum(each.values()) for each in (counts.common, counts.predicted, counts.correct)
    )
    return scores(*totals)


def of_file(path, separator):
    """Returns the `Counts` of a file; last columns: correct and predicted tags."""
    sentences = [([], [])]
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file.read().split("\n"):
            if not line.strip():
                sentences.append(([], []))
            elif not line.startswith("-DOCSTART-"):
                *_, correct, predicted = line.split(separator)
                sentences[-1][0].append(correct)
                sentences[-1][1].append(predicted)
    return count(sentences)
