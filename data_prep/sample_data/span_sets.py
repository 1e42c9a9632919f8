"""Labelled sets whose answers are words of the text: questions (SQuAD) and tags (CoNLL).

Pure functions from the documents of one part. Imports `sentences`.
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.sample_data.sentences import Sentence, Text

_CONTEXT_WORDS = 180
_MIN_ANSWER_WORDS, _MAX_ANSWER_WORDS = 2, 24
_QUESTIONS = (
    "What does the argument {argument} of {entry} mean?",
    "What is the argument {argument} of {entry}?",
    "What does {entry} take as {argument}?",
)
_PER_DOCUMENT = 6
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Question:
    """One question on a context.

    Attributes:
        library: Where the documentation is from.
        context: Whole sentences of one document.
        id: 24 hexadecimal digits.
        question: The text.
        answer: The words of the context that answer it; of an unanswerable one, those that seem to.
        start: Where they begin, in characters.
        is_impossible: Whether nothing in the context answers it.
    """

    library: str
    context: str
    id: str
    question: str
    answer: str
    start: int
    is_impossible: bool


def questions(texts: Sequence[Text], limit: int, seed: int) -> list[Question]:
    """Asks what arguments mean; about a third of the questions have no answer.

    An unanswerable question asks for an argument that other entries of the library have and that
    the document does not even mention.

    Args:
        texts: Documents of one part.
        limit: At most this many questions.
        seed: Of the choice and the wording.
    """
    rng = random.Random(f"{seed} questions")
    usual: dict[str, list[str]] = {}
    for text in texts:
        names = dict.fromkeys(s.argument for s in text.sentences if s.argument)
        usual.setdefault(text.library, []).extend(names)
    found: list[Question] = []
    for number in rng.sample(range(len(texts)), len(texts)):
        text = texts[number]
        asked = [*_answerable(text, number, rng)]
        asked = asked[: min(_PER_DOCUMENT, limit - len(found))]
        mentioned = {word for s in text.sentences for word in _TOKEN.findall(s.text)}
        for question in asked:
            found.append(question)
            strange = rng.choice(usual[text.library])
            if rng.random() < 0.5 and strange not in mentioned:
                mentioned.add(strange)
                found.append(_unanswerable(question, text, number, strange, rng))
    return found


def _answerable(text: Text, number: int, rng: random.Random) -> Iterator[Question]:
    for context, starts in _contexts(text.sentences):
        for start, sentence in starts:
            prefix = f"{sentence.argument}: "
            answer = sentence.text.removeprefix(prefix).rstrip(".")
            if not sentence.argument or answer == sentence.text.rstrip("."):
                continue
            if _MIN_ANSWER_WORDS <= len(answer.split()) <= _MAX_ANSWER_WORDS:
                yield Question(
                    text.library,
                    context,
                    _id(text, number, sentence.argument, start),
                    _ask(text, sentence.argument, rng),
                    answer,
                    start + len(prefix),
                    False,
                )


def _contexts(
    sentences: Sequence[Sentence],
) -> Iterator[tuple[str, list[tuple[int, Sentence]]]]:
    """Runs of sentences of up to `_CONTEXT_WORDS` words, each sentence with its start."""
    context = ""
    starts: list[tuple[int, Sentence]] = []
    for sentence in sentences:
        if context and len(context.split()) + len(sentence.text.split()) > _CONTEXT_WORDS:
            yield context, starts
            context, starts = "", []
        context = f"{context} {sentence.text}" if context else sentence.text
        starts.append((len(context) - len(sentence.text), sentence))
    yield context, starts


def _unanswerable(
    question: Question, text: Text, number: int, argument: str, rng: random.Random
) -> Question:
    return Question(
        question.library,
        question.context,
        _id(text, number, argument, -1),
        _ask(text, argument, rng),
        question.answer,
        question.start,
        True,
    )


def _id(text: Text, number: int, argument: str, start: int) -> str:
    key = f"{text.name} {number} {argument} {start}"
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _ask(text: Text, argument: str, rng: random.Random) -> str:
    parts = [part for part in text.name.split(".") if part not in ("__init__", "__call__")]
    # A method goes with its class.
    is_method = len(parts) > 1 and parts[-2][:1].isupper() and parts[-1][:1].islower()
    entry = ".".join(parts[-2:] if is_method else parts[-1:])
    return rng.choice(_QUESTIONS).format(argument=argument, entry=entry)


def squad(asked: Sequence[Question], version: str) -> dict[str, Any]:
    """The questions as the official JSON, an article for each library.

    Args:
        asked: The questions.
        version: "1.1", which leaves the unanswerable ones out, or "v2.0".
    """
    articles: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for question in asked:
        row: dict[str, Any] = {"id": question.id, "question": question.question}
        answer = [{"text": question.answer, "answer_start": question.start}]
        if version == "v2.0":
            row["is_impossible"] = question.is_impossible
        if not question.is_impossible:
            row["answers"] = answer
        elif version == "v2.0":
            row |= {"answers": [], "plausible_answers": answer}
        else:
            continue
        contexts = articles.setdefault(question.library, {})
        contexts.setdefault(question.context, []).append(row)
    data = [
        {
            "title": library,
            "paragraphs": [{"context": each, "qas": rows} for each, rows in contexts.items()],
        }
        for library, contexts in articles.items()
    ]
    return {"version": version, "data": data}


def tagged(texts: Sequence[Text], limit: int, seed: int) -> list[list[list[tuple[str, str]]]]:
    """Which words are code: what was marked as code, with the marks taken away.

    Only documents that mark code throughout are of use: where few words are marked, others were
    forgotten.

    Args:
        texts: Documents of one part.
        limit: Documents are taken until there are this many sentences.
        seed: Of the choice.

    Returns:
        Documents of sentences of (word, tag), where the tags are B-CODE, I-CODE and O.
    """
    rng = random.Random(f"{seed} tagged")
    found: list[list[list[tuple[str, str]]]] = []
    for text in rng.sample(list(texts), len(texts)):
        marked = sum(any(start > 0 for start, _ in s.code) for s in text.sentences)
        if marked * 2 >= len(text.sentences) and sum(map(len, found)) < limit:
            found.append([tags(sentence) for sentence in text.sentences])
    return found


def tags(sentence: Sentence) -> list[tuple[str, str]]:
    """Words and punctuation marks of a sentence, each with its tag."""
    rows = []
    begun: tuple[int, int] | None = None
    for match in _TOKEN.finditer(sentence.text):
        inside = next((each for each in sentence.code if each[0] <= match.start() < each[1]), None)
        tag = "O" if inside is None else "I-CODE" if inside == begun else "B-CODE"
        begun = inside
        rows.append((match[0], tag))
    return rows


def conll(documents: Sequence[Sequence[Sequence[tuple[str, str]]]]) -> str:
    """The columns of CoNLL-2003: word, part of speech, chunk, tag; the middle two unknown, "-"."""
    lines = []
    for document in documents:
        lines.append("-DOCSTART- - - O\n\n")
        for sentence in document:
            lines += [f"{word} - - {tag}\n" for word, tag in sentence]
            lines.append("\n")
    return "".join(lines)


def tag_counts(documents: Sequence[Sequence[Sequence[tuple[str, str]]]]) -> dict[str, int]:
    """How often each tag stands."""
    return dict(Counter(tag for d in documents for sentence in d for _, tag in sentence))
