"""Labeled sets whose labels are spans of the text: questions (SQuAD) and tagged words (CoNLL).

The functions are pure; their input is the documents of one part (train, dev or test).
Imports `sentences`.
"""

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bert_tf.data_prep.sample_data.cleaning import Document, Text

_CONTEXT_WORDS = 180
_MIN_ANSWER_WORDS, _MAX_ANSWER_WORDS = 2, 24
_QUESTIONS = (
    "What does the argument {argument} of {entry} mean?",
    "What is the argument {argument} of {entry}?",
    "What does {entry} take as {argument}?",
)
_QUESTIONS_PER_DOCUMENT = 6
_TOKEN = re.compile(r"\w+|[^\w\s]")

TaggedSentence = list[tuple[str, str]]  # (word, tag) pairs
Question = dict[str, Any]  # in the format of SQuAD 2.0


class Asked(NamedTuple):
    """One question about a context.

    Attributes:
        library: The library of the document.
        context: Consecutive sentences of one document.
        question: The question. Its id has 24 hexadecimal digits.
    """

    library: str
    context: str
    question: Question


def make_questions(documents: Sequence[Document], limit: int, seed: int) -> list[Asked]:
    """Makes questions about the meaning of arguments. About a third have no answer.

    An unanswerable question is about an argument that another document of the same
    library describes. The document from which the context is taken does not mention
    this argument. The plausible answer describes another argument.

    Args:
        documents: The documents of one part.
        limit: Documents are added until there are at least this many questions.
        seed: Seed of the random selection of documents and of the wording.
    """
    rng = random.Random(f"{seed} questions")
    library_arguments: dict[str, list[str]] = {}
    for document in documents:
        names = dict.fromkeys(s.argument for s in document.texts if s.argument)
        library_arguments.setdefault(document.library, []).extend(names)
    asked: list[Asked] = []
    for number in rng.sample(range(len(documents)), len(documents)):
        if len(asked) >= limit:
            break
        document = documents[number]
        answerable = [*_answerable_questions(document, number, rng)]
        mentioned = {word for s in document.texts for word in _TOKEN.findall(s.text)}
        for each in answerable[:_QUESTIONS_PER_DOCUMENT]:
            asked.append(each)
            argument = rng.choice(library_arguments[document.library])
            if rng.random() < 0.5 and argument not in mentioned:
                mentioned.add(argument)
                question = _wording(document, number, argument, -1, rng) | {
                    "is_impossible": True,
                    "answers": [],
                    "plausible_answers": each.question["answers"],
                }
                asked.append(each._replace(question=question))
    return asked


def _answerable_questions(
    document: Document, number: int, rng: random.Random
) -> Iterator[Asked]:
    for context, starts in _contexts(document.texts):
        for start, sentence in starts:
            prefix = f"{sentence.argument}: "
            answer = sentence.text.removeprefix(prefix).rstrip(".")
            is_description = sentence.argument and sentence.text.startswith(prefix)
            if (
                is_description
                and _MIN_ANSWER_WORDS <= len(answer.split()) <= _MAX_ANSWER_WORDS
            ):
                question = _wording(document, number, sentence.argument, start, rng)
                answers = [{"text": answer, "answer_start": start + len(prefix)}]
                question |= {"is_impossible": False, "answers": answers}
                yield Asked(document.library, context, question)


def _contexts(
    sentences: Sequence[Text],
) -> Iterator[tuple[str, list[tuple[int, Text]]]]:
    """Yields each context, and the list of (start in the context, sentence) pairs of the context.

    A context has at most `_CONTEXT_WORDS` words, unless a single sentence has more.
    """
    context = ""
    starts: list[tuple[int, Text]] = []
    for sentence in sentences:
        if (
            context
            and len(context.split()) + len(sentence.text.split()) > _CONTEXT_WORDS
        ):
            yield context, starts
            context, starts = "", []
        context = f"{context} {sentence.text}" if context else sentence.text
        starts.append((len(context) - len(sentence.text), sentence))
    yield context, starts


def _wording(
    document: Document, number: int, argument: str, start: int, rng: random.Random
) -> Question:
    key = f"{document.name} {number} {argument} {start}"
    parts = [
        part
        for part in document.name.split(".")
        if part not in ("__init__", "__call__")
    ]
    # A question names a method together with its class, as in `Class.method`.
    is_method = len(parts) > 1 and parts[-2][:1].isupper() and parts[-1][:1].islower()
    entry = ".".join(parts[-2:] if is_method else parts[-1:])
    return {
        "id": hashlib.sha256(key.encode()).hexdigest()[:24],
        "question": rng.choice(_QUESTIONS).format(argument=argument, entry=entry),
    }


def squad_json(asked: Sequence[Asked], version: str) -> dict[str, Any]:
    """Returns the questions in SQuAD's official format, with one article per library.

    Args:
        asked: The questions.
        version: "1.1", which excludes the unanswerable questions, or "v2.0".
    """
    articles: dict[str, dict[str, list[Question]]] = {}
    for library, context, question in asked:
        if version == "v2.0" or not question["is_impossible"]:
            left_out = () if version == "v2.0" else ("is_impossible",)
            row = {
                name: value for name, value in question.items() if name not in left_out
            }
            articles.setdefault(library, {}).setdefault(context, []).append(row)
    data = [
        {
            "title": library,
            "paragraphs": [
                {"context": text, "qas": rows} for text, rows in contexts.items()
            ],
        }
        for library, contexts in articles.items()
    ]
    return {"version": version, "data": data}


def tag_documents(
    documents: Sequence[Document], limit: int, seed: int
) -> list[list[TaggedSentence]]:
    """Tags each word as code or not, according to the code markup in the docstring.

    Uses only documents in which at least half of the sentences contain code markup
    after the start of the sentence. In other documents, words without markup are often
    code too.

    Args:
        documents: The documents of one part.
        limit: Documents are added until the result has at least this many sentences.
        seed: Seed of the random selection of documents.

    Returns:
        For each document, the list of its tagged sentences. A tagged sentence is a list
        of (word, tag) pairs. The tags are B-CODE, I-CODE and O.
    """
    rng = random.Random(f"{seed} tagged")
    tagged: list[list[TaggedSentence]] = []
    for document in rng.sample(list(documents), len(documents)):
        marked = sum(any(start > 0 for start, _ in s.code) for s in document.texts)
        if marked * 2 >= len(document.texts) and sum(map(len, tagged)) < limit:
            tagged.append([_tag_words(sentence) for sentence in document.texts])
    return tagged


def _tag_words(sentence: Text) -> TaggedSentence:
    """Tags the words and punctuation marks of a sentence."""
    tagged = []
    previous: tuple[int, int] | None = None
    for match in _TOKEN.finditer(sentence.text):
        span = next((s for s in sentence.code if s[0] <= match.start() < s[1]), None)
        tag = "O" if span is None else "I-CODE" if span == previous else "B-CODE"
        previous = span
        tagged.append((match[0], tag))
    return tagged


def conll_text(documents: Sequence[Sequence[TaggedSentence]]) -> str:
    """Returns text with the columns of CoNLL-2003: word, part of speech, chunk and tag.

    Part of speech and chunk are "-", because they are not known.
    """
    lines = []
    for document in documents:
        lines.append("-DOCSTART- - - O\n\n")
        for sentence in document:
            lines += [f"{word} - - {tag}\n" for word, tag in sentence]
            lines.append("\n")
    return "".join(lines)
