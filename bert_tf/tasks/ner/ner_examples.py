"""The example of named-entity recognition."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.tasks.ner import schemes

SKIPPED = "sentences skipped, because a line or a tag is malformed"


class MalformedSentenceError(InputError):
    """A sentence that cannot be used. In a train split, it is skipped and counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class NerExample:
    """A sentence.

    Attributes:
        words: The words.
        tags: The tag of each word, in the scheme of the file and the notation of
            `schemes`; None if they are unknown.
        origin: The part of the file that contains the sentence: a
            `conll.SentenceLines`, or a `json_sentences.JsonSentence`.
        document: The words of the document that contains the sentence.
        first_word: The index of the first word of the sentence in `document`.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    origin: Any
    document: tuple[str, ...]
    first_word: int = 0


def join_documents(sentences: Sequence[NerExample]) -> Iterator[NerExample]:
    """Yields the sentences of a document, which get all its words as `document`."""
    document = tuple(word for sentence in sentences for word in sentence.words)
    first_word = 0
    for sentence in sentences:
        yield dataclasses.replace(sentence, document=document, first_word=first_word)
        first_word += len(sentence.words)


def read_tag(tag: str, notation: schemes.Notation, place: str) -> str:
    """Returns a tag of a file in the notation of `schemes`.

    Args:
        tag: The tag.
        notation: The notation of the file.
        place: The file and the line, for the error message.

    Raises:
        MalformedSentenceError: The tag is malformed.
    """
    found = notation.read(tag.strip())
    if found is None:
        prefixes = (
            "B- or I-" if notation.scheme in ("iob1", "iob2") else "B-, I-, E- or S-"
        )
        raise MalformedSentenceError(
            f"{place}: the tag {tag.strip()[:60]!r} is malformed. Expected: O, or "
            f"{prefixes} and a type, such as B-PER. Correct the tag, or give the "
            "column of the tags as label_column. For a file without tags to predict, "
            "give a label_column that it does not have."
        )
    return found
