"""Converts questions and contexts to records, one for each window.

Shape letters: N examples, R records, S sequence length.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_tf.config_fields import documented, option
from bert_tf.errors import check_at_least, store_plain_values
from bert_tf.tasks.squad.squad_examples import SquadExample
from bert_tf.tasks.task import Encoded
from bert_tf.tasks.windows import Pieces, count_windows, tokenize_words

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer

SPECIAL_TOKENS = 3  # [CLS] question [SEP] window [SEP]


@documented
@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """The settings that determine the windows of contexts, and the length of questions.

    Raises:
        InputError: A value is out of range.
    """

    doc_stride: int = option(
        128,
        "Number of tokens between the starts of successive windows of a context that "
        "is too long.",
    )
    max_query_length: int = option(
        64, "Longer questions are truncated to this number of tokens."
    )

    def __post_init__(self) -> None:
        store_plain_values(self)
        check_at_least(1, self, "doc_stride")
        check_at_least(0, self, "max_query_length")


def encode(
    examples: Sequence[SquadExample],
    tokenizer: "BertTokenizer",
    max_seq_length: int,
    settings: WindowSettings,
) -> Encoded:
    """Converts N examples to R records of `record_format.SPAN`, without `unique_ids`.

    `max_seq_length` (S) must be greater than `settings.max_query_length + 3`.
    `Encoded.counts` has the number of truncated questions.

    Source: google-research/bert `run_squad.convert_examples_to_features`.
    """
    questions, is_cut = _tokenize_questions(
        examples, tokenizer, settings.max_query_length
    )
    contexts = _tokenize_contexts(examples, tokenizer)
    answers = _answer_pieces(examples, contexts, tokenizer)

    num_pieces = np.array([len(context.ids) for context in contexts], int)  # [N]
    question_lengths = np.array([len(question) for question in questions], int)
    room = max_seq_length - SPECIAL_TOKENS - question_lengths
    per_example = count_windows(num_pieces, room, settings.doc_stride)

    # One record for each window.
    shape = [int(per_example.sum()), max_seq_length]  # [R, S]
    columns: dict[str, np.ndarray] = {
        "input_ids": np.full(shape, tokenizer.pad_id, np.int32),
        "input_mask": np.zeros(shape, np.uint8),
        "segment_ids": np.zeros(shape, np.uint8),
        "start_positions": np.zeros(shape[0], np.int32),
        "end_positions": np.zeros(shape[0], np.int32),
        "is_impossible": np.repeat(
            [np.uint8(example.is_impossible) for example in examples], per_example
        ),
    }
    row = 0
    sep = [tokenizer.sep_id]
    for number, question in enumerate(questions):
        ids = contexts[number].ids
        stride = int(min(room[number], settings.doc_stride))
        offset = len(question) + 2  # [CLS] question [SEP]
        for start in range(0, per_example[number] * stride, stride):
            window = ids[start : start + room[number]]
            end = offset + len(window) + 1
            columns["input_ids"][row, :end] = np.concatenate(
                [[tokenizer.cls_id], question, sep, window, sep]
            )
            columns["input_mask"][row, :end] = 1
            columns["segment_ids"][row, offset:end] = 1

            # The positions stay 0, those of [CLS], if the answer is not in the window.
            first, last = answers[number] or (-1, -1)
            if start <= first and last < start + len(window):
                columns["start_positions"][row] = first - start + offset
                columns["end_positions"][row] = last - start + offset
            row += 1
    return Encoded(columns, per_example, {"with a truncated question": is_cut})


def _token_ids(texts: list[str], tokenizer: "BertTokenizer") -> list[np.ndarray]:
    """Returns the token ids of each text."""
    if not texts:
        return []
    tokenized = tokenizer.tokenize(texts)
    return np.split(tokenized.values.numpy(), tokenized.row_splits.numpy()[1:-1])


def _tokenize_questions(
    examples: Sequence[SquadExample], tokenizer: "BertTokenizer", max_query_length: int
) -> tuple[list[np.ndarray], int]:
    """Returns the token ids of each question, and the number of truncated questions."""
    rows = _token_ids([example.question for example in examples], tokenizer)
    is_cut = sum(len(row) > max_query_length for row in rows)
    return [row[:max_query_length] for row in rows], is_cut


def _tokenize_contexts(
    examples: Sequence[SquadExample], tokenizer: "BertTokenizer"
) -> list[Pieces]:
    """Returns the pieces of each example's context; examples with the same context share them."""
    contexts = {id(example.words): example.words for example in examples}
    pieces = dict(
        zip(contexts, tokenize_words(contexts.values(), tokenizer), strict=True)
    )
    return [pieces[id(example.words)] for example in examples]


def _answer_pieces(
    examples: Sequence[SquadExample],
    contexts: Sequence[Pieces],
    tokenizer: "BertTokenizer",
) -> list[tuple[int, int] | None]:
    """Returns the first and last piece of each answer in its context; None without an answer."""
    known = [number for number, example in enumerate(examples) if example.answer_words]
    result: list[tuple[int, int] | None] = [None] * len(examples)
    texts = [(examples[number].answers or ("",))[0] for number in known]
    texts_before = [examples[number].before_answer for number in known]
    answers = _token_ids(texts, tokenizer)
    before = _token_ids(texts_before, tokenizer)

    for number, answer, preceding in zip(known, answers, before, strict=True):
        example, context = examples[number], contexts[number]
        first, last = example.answer_words or (0, 0)
        # The index -1 is the last word, as in google-research/bert.
        start = int(context.first[first % len(example.words)])
        end = int(context.first[last + 1])
        expected_start = start + len(preceding)
        result[number] = _narrowed(
            context.ids, start, end=end, answer=answer, stated=expected_start
        )
        # If the answer starts inside a word, equal pieces may be found at a wrong
        # place.
        if result[number] not in (
            (start, end - 1),
            (expected_start, expected_start + len(answer) - 1),
        ):
            covering = _covering(example, tokenizer, context.ids[start:end])
            if len(covering):
                result[number] = start + int(covering[0]), start + int(covering[-1])
    return result


def _covering(
    example: SquadExample, tokenizer: "BertTokenizer", ids: np.ndarray
) -> np.ndarray:
    """Returns the indices of the pieces in `ids` that have characters of the answer.

    `ids` are the pieces of the words that contain the answer. The result is empty if
    the context has another text at the position that the data set states.
    """
    (answer,) = example.answers or ("",)
    before = example.before_answer
    token_ids, starts, ends = tokenizer.tokenize_with_offsets(
        before + answer + example.after_answer
    )
    if not np.array_equal(token_ids, ids):
        return np.zeros(0, int)
    first = len(before.encode())
    return np.flatnonzero((ends > first) & (starts < first + len(answer.encode())))


def _narrowed(
    ids: np.ndarray, start: int, end: int, answer: np.ndarray, stated: int
) -> tuple[int, int]:
    """Narrows a span of whole words to the first and last piece of the answer in it.

    For example, the answer "1895" is a part of the word "(1895-1943)". The span from
    `start` to `end` (exclusive) stays as it is if it does not contain the pieces
    `answer`. If it contains them several times, the occurrence nearest to the piece
    `stated` is chosen, at which the answer starts according to the data set.
    google-research/bert chooses the first occurrence.

    Source: google-research/bert `run_squad._improve_answer_span`.
    """
    span, answer_ids = ids[start:end].tolist(), answer.tolist()
    places = [
        start + place
        for place in range(len(span) - len(answer_ids) + 1 if answer_ids else 0)
        if span[place : place + len(answer_ids)] == answer_ids
    ]
    if not places:
        return start, end - 1

    nearest = min(places, key=lambda place: abs(place - stated))
    return nearest, nearest + len(answer_ids) - 1
