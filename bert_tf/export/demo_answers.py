"""Converts predictions of a model to bars, marked texts and tables for `cli.demo_page`.

The answer of a model is its prediction. The kind of a model is the name of a value that
only answers of such models have, such as "entities"; it decides what the page shows.
"""

import collections
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.errors import InputError
from bert_tf.export.output_decoding import Prediction, as_columns
from bert_tf.export.predictor import Predictor
from bert_tf.export.word_effects import word_effects
from bert_tf.tasks.ner.schemes import split_tag

# A question about a longer text takes many seconds.
MAX_CHARACTERS = 10_000
MAX_LINES = 50
# The kind of model whose answers to all lines of a box are shown together.
IN_LINES = "embedding"
# The kinds of models whose answers depend on each word by a number.
WITH_EFFECTS = ("labels", "label", "score")
_NO_ANSWER = "(no answer)"
_SHOWN_CHARACTERS = 40  # of a text in a table


class Shown(NamedTuple):
    """An answer on the page.

    Attributes:
        bars: The probability of each label or choice, best first.
        parts: The parts of a text. Each has a label, or None if it is not marked.
        table: The rows of a table; the first row has the names of the columns. Numbers
            are in [-1, 1]; the page shows them with a color.
    """

    headline: str
    bars: Mapping[str, float] | None = None
    parts: Sequence[tuple[str, str | None]] | None = None
    table: Sequence[Sequence[str | float]] | None = None


def kind_of(answer: Prediction) -> str:
    """Returns the kind of the model that gave the answer."""
    return next(kind for kind in _KINDS if kind in answer)


def example_of(kind: str, num_texts: int) -> Sequence[Any]:
    """Returns an example with a text, or a list of texts, for each of `num_texts` inputs."""
    _, *examples = _KINDS[kind]
    return next(example for example in examples if len(example) == num_texts)


def lists_of(predictor: Predictor, kind: str) -> Sequence[str]:
    """Returns the names of the inputs in whose boxes each line is a text of its own."""
    return predictor.names if kind == IN_LINES else predictor.list_names


def show(kind: str, texts: Sequence[Any], answer: Any) -> Shown:
    """Returns the content of the page for an answer; `texts` has the value of each input."""
    return _KINDS[kind][0](answer, *texts)


def ask(
    predictor: Predictor, kind: str, boxes: Sequence[str], effects: bool = False
) -> tuple[Shown, str]:
    """Predicts for the texts in `boxes`; returns the content of the page, and a note.

    With `effects`, the words are marked by their effects; see `word_effects`.

    There is a box for each input of the model; see `lists_of`. The note states the
    time, the largest sequence length, and whether a text was truncated. If the texts
    cannot be predicted, the content is the message, and the note is empty.
    """
    lists = lists_of(predictor, kind)
    texts: list[Any] = [
        text.split("\n") if name in lists else text
        for name, text in zip(predictor.names, boxes, strict=True)
    ]
    if sum(map(len, boxes)) > MAX_CHARACTERS or any(
        isinstance(each, list) and len(each) > MAX_LINES for each in texts
    ):
        limits = f"{MAX_CHARACTERS:,} characters and {MAX_LINES} lines"
        return Shown(f"The page takes at most {limits}. Use predict.py."), ""

    start = time.perf_counter()
    try:
        answer = predictor(*texts)
        millis = 1000 * (time.perf_counter() - start)
        shown = show(kind, texts, answer)
        notes = [
            f"{millis:.0f} ms; sequences of at most {predictor.max_seq_length} tokens"
        ]
        if effects:
            note, parts = _marked_effects(predictor, kind, texts)
            shown = shown._replace(parts=parts or None)
            notes.append(note)
    except InputError as error:
        return Shown(str(error)), ""

    answers = answer if isinstance(answer, list) else [answer]
    if any(each.get("truncated") for each in answers):
        notes.append("the text is longer, and its rest was not read")
    return shown, "; ".join(notes)


def _marked_effects(
    predictor: Predictor, kind: str, texts: Sequence[str]
) -> tuple[str, list[Any]]:
    """Returns a note on the word with the largest effect, and the parts of all texts.

    The label of a word is its effect divided by the largest one, in [-1, 1]. A largest
    change of a probability below 0.1 counts as 0.1, so that small changes look small.
    """
    words = word_effects(predictor, *texts)
    if not words:
        return "there is no word", []
    largest = max(words, key=lambda word: abs(word.effect))
    smallest = 0.0 if kind == "score" else 0.1
    scale = max(abs(largest.effect), smallest) or 1.0
    parts: list[Any] = []
    for name, text in zip(predictor.names, texts, strict=True):
        end = 0
        for word in (each for each in words if each.name == name):
            parts.append((text[end : word.start], None))
            parts.append((word.word, word.effect / scale))
            end = word.end
        parts.append((f"{text[end:]}\n", None))
    value = "score" if kind == "score" else "probability of the best label"
    note = (
        f"without {largest.word!r:.40}, the {value} changes by {-largest.effect:+.4f}"
    )
    return f"{note}; red words support it", parts


def second_best(
    predictor: Predictor, boxes: Sequence[str], parts: Sequence[Any], index: int
) -> str:
    """Returns an answer without the marked part `index`, or the types of this entity.

    `parts` are those of the page, for the texts in `boxes`.
    """
    texts = [part for part, _ in parts]
    if len(boxes) > 1:
        texts[index] = " "
        other = predictor(boxes[0], "".join(texts))
        return f"without this part, the answer is: {_answer(other, *boxes).headline}"

    answer = predictor("".join(texts))
    tags = predictor.tag_probabilities(answer["words"])
    if tags is None:
        return "the second best type is known only for texts of one sequence"
    start = len("".join(texts[:index]).encode())
    end = start + len(texts[index].encode())
    types: collections.Counter[str] = collections.Counter()
    for tag, column in zip(predictor.facts["labels"], tags.T, strict=True):
        name = split_tag(tag)[1] or "no entity"
        types[name] += column[_words_between(answer, start, end)].mean()
    best = (f"{name} {probability:.2f}" for name, probability in types.most_common(2))
    return f"{texts[index]}: {', '.join(best)}"


def _labels(answer: Prediction, *texts: str) -> Shown:
    name, *probability = as_columns(answer)
    headline = f"{name or '(no label)'}  {' '.join(probability)}"
    return Shown(headline.rstrip(), answer.get("probabilities"))


def _answer(answer: Prediction, question: str, context: str) -> Shown:
    text, probability = as_columns(answer)
    marks = [(answer["start"], answer["end"], probability)] if text else []
    headline = f"{text or _NO_ANSWER}  {probability}"
    return Shown(headline, parts=_parts(context, marks))


def _entities(answer: Prediction, text: str) -> Shown:
    entities = answer["entities"]
    marks = []
    for entity in entities:
        place = entity["start"], entity["end"]
        probabilities = [
            answer["probabilities"][n] for n in _words_between(answer, *place)
        ]
        marks.append((*place, f"{entity['type']} {np.mean(probabilities):.2f}"))
    headline = ", ".join(entity["text"] for entity in entities) or "(no entity)"
    return Shown(headline, parts=_parts(text, marks))


def _words_between(answer: Prediction, start: int, end: int) -> list[int]:
    """Returns the indices of the words that start in a part of the text, in bytes."""
    return [n for n, place in enumerate(answer["start"]) if start <= place < end]


def _choice(answer: Prediction, context: str, choices: Sequence[str]) -> Shown:
    bars = {
        f"{index + 1}. {choices[index]}": answer["probabilities"][index]
        for index in answer["ranking"]
        if choices[index]
    }
    return Shown("  ".join(as_columns(answer)) if bars else _NO_ANSWER, bars)


def _masks(answer: Prediction, text: str) -> Shown:
    columns = [list(mask["probabilities"].items()) for mask in answer["masks"]]
    if not columns:
        lost = "[MASK] is after the part of the text that the model reads."
        return Shown(lost if "[MASK]" in text else "Write [MASK] in place of a word.")
    rows = [
        [f"{token}  {probability:.3f}" for token, probability in row]
        for row in zip(*columns, strict=True)
    ]
    heads = [f"[MASK] {number}" for number in range(1, len(columns) + 1)]
    return Shown(", ".join(as_columns(answer)), table=[heads, *rows])


def _similarities(answers: Sequence[Prediction], texts: Sequence[str]) -> Shown:
    vectors = np.array(
        [answer["embedding"] for answer in answers], np.float64
    )  # [N, H]
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(norms, np.finfo(np.float64).tiny)
    cosines = (unit @ unit.T).round(3).tolist()

    numbers = [str(number) for number in range(1, len(texts) + 1)]
    rows = [
        [f"{number}. {text:.{_SHOWN_CHARACTERS}}", *row]
        for number, text, row in zip(numbers, texts, cosines, strict=True)
    ]
    return Shown("Cosine similarities", table=[["", *numbers], *rows])


# For each kind: the function that returns the content of the page, then examples, which
# differ in the number of inputs.
_KINDS: Mapping[str, Sequence[Any]] = {
    "masks": (_masks, ["The capital of [MASK] is Paris."]),
    "answer": (
        _answer,
        ["Where did Ann live?", "Ann was born in Rome. She lived in Bonn."],
    ),
    "entities": (_entities, ["Ann Smith of Siemens flew from Vienna to New York."]),
    "choice": (_choice, ["It rains.", ["Take an umbrella.", "Water the plants."]]),
    IN_LINES: (_similarities, [["How old are you?", "What is your age?", "It rains."]]),
    **dict.fromkeys(
        WITH_EFFECTS,
        (_labels, ["This is a text."], ["This is a text.", "This is another one."]),
    ),
}


def _parts(
    text: str, marks: Sequence[tuple[int, int, str]]
) -> list[tuple[str, str | None]]:
    """Splits a text into pairs (part, label); the label is None outside of the marks.

    A mark is (start, end, label), in bytes of UTF-8. The marks are sorted.
    """
    content = text.encode("utf-8", "replace")
    position = 0
    parts: list[tuple[bytes, str | None]] = []
    for start, end, label in marks:
        parts += [(content[position:start], None), (content[start:end], label)]
        position = end
    parts.append((content[position:], None))
    return [(part.decode("utf-8", "replace"), label) for part, label in parts if part]
