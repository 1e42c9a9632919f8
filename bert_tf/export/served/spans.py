"""From the logits of windows to the best answers, in the graph.

The rules are those of `tasks.squad.best_answers`, and so those of google-research/bert, with one
exception: the text of an answer is a part of the bytes of the context.

Shape letters: B questions, R windows of all contexts, S sequence length, C candidates.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.export.served.windows import Windows, has_max_context
from bert_tf.tasks.squad.best_answers import AnswerSettings


class Candidates(NamedTuple):
    """Possible answers, in the order of the questions and, for each of them, by descending score.

    Attributes:
        question: int32 [C], the question.
        first_token, last_token: int32 [C], indices of tokens in the context.
        score: float64 [C], the sum of both logits.
    """

    question: Any
    first_token: Any
    last_token: Any
    score: Any


def candidates(
    windows: Windows, start_logits: Any, end_logits: Any, input_mask: Any, settings: AnswerSettings
) -> Candidates:
    """Returns all possible answers.

    Args:
        windows: The windows.
        start_logits: float32 [R, S].
        end_logits: float32 [R, S].
        input_mask: int32 [R, S].
        settings: The settings of the answers.
    """
    if not settings.padding_as_released:
        is_token = input_mask > 0
        start_logits = tf.where(is_token, start_logits, -float("inf"))
        end_logits = tf.where(is_token, end_logits, -float("inf"))
    count = tf.minimum(settings.n_best_size, tf.shape(start_logits)[1])
    starts, ends = (tf.math.top_k(each, count) for each in (start_logits, end_logits))
    start, end = starts.indices[:, :, None], ends.indices[:, None, :]
    first, last = windows.offset[:, None], (windows.offset + windows.length)[:, None]
    can_start = (starts.indices >= first) & (starts.indices < last)
    can_start &= has_max_context(windows, starts.indices)
    can_end = (ends.indices >= first) & (ends.indices < last)
    valid = can_start[:, :, None] & can_end[:, None, :]
    valid &= (start <= end) & (end - start < settings.max_answer_length)
    scores = (
        tf.cast(starts.values, tf.float64)[:, :, None] + tf.cast(ends.values, tf.float64)[:, None]
    )
    chosen = tf.cast(tf.where(valid), tf.int32)
    window = chosen[:, 0]
    shift = tf.gather(windows.first_token - windows.offset, window)
    found = Candidates(
        question=tf.gather(windows.row, window),
        first_token=shift + tf.gather_nd(starts.indices, chosen[:, :2]),
        last_token=shift + tf.gather_nd(ends.indices, tf.gather(chosen, [0, 2], axis=1)),
        score=tf.gather_nd(scores, chosen),
    )
    return _sorted(found)


def _sorted(found: Candidates) -> Candidates:
    """Sorts candidates by question and descending score; equal scores keep their order."""
    order = tf.argsort(found.score, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(found.question, order), stable=True))
    return take(found, order)


def take(found: Candidates, indices: Any) -> Candidates:
    """Returns the candidates at some indices, int32 [C]."""
    return Candidates(*(tf.gather(each, indices) for each in found))


def with_different_texts(found: Candidates, texts: Any) -> tuple[Candidates, Any]:
    """Keeps, of the candidates of a question with the same text, the best one.

    Args:
        found: The candidates, as `candidates` returns them.
        texts: string [C], the texts of the candidates.

    Returns:
        The candidates that are kept, and their texts.
    """
    keys = tf.strings.join([tf.strings.as_string(found.question), texts], ":")
    unique = tf.unique(keys)
    count = tf.size(keys)
    first = tf.math.unsorted_segment_min(tf.range(count), unique.idx, tf.size(unique.y))
    return take(found, first), tf.gather(texts, first)


def null_scores(windows: Windows, start_logits: Any, end_logits: Any, num_questions: Any) -> Any:
    """Returns the score of no answer of each question: float64 [B]; 0 without windows.

    Args:
        windows: The windows.
        start_logits: float32 [R, S].
        end_logits: float32 [R, S].
        num_questions: B.
    """
    scores = tf.cast(start_logits[:, 0], tf.float64) + tf.cast(end_logits[:, 0], tf.float64)
    smallest = tf.math.unsorted_segment_min(scores, windows.row, num_questions)
    return tf.where(windows.count > 0, smallest, 0.0)


class Best(NamedTuple):
    """The answer to each question.

    Attributes:
        index: int32 [B], the best candidate; C if there is none.
        is_null: bool [B], whether the answer is "".
        score: float64 [B], the score of the answer; 0 for a question without an answer.
        probability: float64 [B], the probability of the answer among the n best ones.
        null_score_diff: float64 [B], the score of "" minus that of the best candidate.
    """

    index: Any
    is_null: Any
    score: Any
    probability: Any
    null_score_diff: Any


def best(found: Candidates, null: Any, settings: AnswerSettings) -> Best:
    """Returns the answer to each question.

    Args:
        found: Candidates with different texts, by question and descending score.
        null: float64 [B], the score of no answer.
        settings: The settings of the answers.
    """
    questions = tf.range(tf.size(null))
    first = tf.searchsorted(found.question, questions)
    count = tf.searchsorted(found.question, questions, side="right") - first
    rank = tf.range(tf.size(found.question)) - tf.gather(first, found.question)
    # "" takes one place in the n-best list, or is added to a list of better answers.
    limit = tf.fill(tf.shape(null), settings.n_best_size)
    if settings.version_2_with_negative:
        better = tf.cast(found.score >= tf.gather(null, found.question), tf.int32)
        num_better = tf.math.unsorted_segment_sum(better, found.question, tf.size(null))
        limit = tf.where(num_better < limit, limit - 1, limit)
    has_answer = tf.minimum(count, limit) > 0
    index = tf.where(has_answer, first, tf.size(found.score))
    score = tf.gather(tf.concat([found.score, [0.0]], 0), index)
    largest = tf.where(has_answer, score, null)
    if settings.version_2_with_negative:
        largest = tf.maximum(largest, null)
    weights = tf.exp(found.score - tf.gather(largest, found.question))
    weights = tf.where(rank < tf.gather(limit, found.question), weights, 0.0)
    total = tf.math.unsorted_segment_sum(weights, found.question, tf.size(null))
    if not settings.version_2_with_negative:
        probability = tf.where(has_answer, 1 / tf.where(has_answer, total, 1.0), 0.0)
        return Best(index, ~has_answer, score, probability, tf.zeros_like(null))
    difference = tf.where(has_answer, null - score, 0.0)
    is_null = (difference > settings.null_score_diff_threshold) | ~has_answer
    answer_score = tf.where(is_null, null, score)
    probability = tf.exp(answer_score - largest) / (total + tf.exp(null - largest))
    return Best(index, is_null, answer_score, probability, difference)
