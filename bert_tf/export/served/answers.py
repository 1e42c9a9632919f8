"""Finds the best answers, in the graph, from the logits of windows.

The rules are those of `tasks.squad.best_answers`, and so those of google-research/bert,
with one exception: the text of an answer is always a part of the bytes of the context.

Shape letters: B questions, R windows of all contexts, S sequence length, C candidates,
W words and T tokens of all contexts.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.export.served.windows import Windows, has_max_context
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tokenization import BertTokenizer


class Contexts(NamedTuple):
    """Contexts, split into words at white space, and into tokens.

    Attributes:
        ids: The ids of the tokens, ragged int32 [B, None].
        starts: int32 [T, 4]. The columns are: the first byte of the token in the
            context; the first byte of its word; how many characters normalization adds
            to the words before its word; and the number of [UNK] before the token.
        ends: int32 [T, 4]. The columns are: the byte after the token; the byte after its
            word; and both numbers as in `starts`, but with its word and the token.
    """

    ids: Any
    starts: Any
    ends: Any


def tokenize(texts: Any, tokenizer: BertTokenizer) -> Contexts:
    """Tokenizes contexts, string [B], word by word."""
    # White space becomes blanks with as many bytes, so that the positions of all other
    # bytes do not change.
    blanks = tf.strings.regex_replace(texts, "[\t\r\n]", " ")
    words = tf.strings.split(tf.strings.regex_replace(blanks, "\u202f", "   "), " ")
    num_bytes = words.with_values(tf.strings.length(words.values))
    word_start = tf.cumsum(num_bytes + 1, axis=1, exclusive=True).values

    # How many characters normalization adds to each word, and to the words before it.
    normalized = tf.strings.reduce_join(tokenizer.words(words.values), axis=-1)
    before, after = (
        tf.strings.length(each, "UTF8_CHAR") for each in (words.values, normalized)
    )
    added = after - before
    total = tf.cumsum(added)

    ids, start, end = tokenizer.tokenize_with_offsets(words.values)
    start, end = (tf.cast(each.values, tf.int32) for each in (start, end))
    splits = tf.gather(ids.row_splits, words.row_splits)
    is_unknown = tf.cast(ids.values == tokenizer.unk_id, tf.int32)
    unknown = tf.cumsum(is_unknown)

    of_words = tf.stack(
        [word_start, total - added, word_start + num_bytes.values, total], 1
    )
    first, added_before, last, added_after = tf.unstack(
        tf.gather(of_words, ids.value_rowids()), 4, 1
    )
    return Contexts(
        tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False),
        tf.stack([first + start, first, added_before, unknown - is_unknown], 1),
        tf.stack([first + end, last, added_after, unknown], 1),
    )


class Candidates(NamedTuple):
    """Possible answers, by question and descending score.

    Attributes:
        question: int32 [C], the index of the question.
        start, end: int32 [C], the first and the last token of the answer in the
            context; after `in_bytes`, its first byte and the byte after its last.
        score: float64 [C], the start logit plus the end logit.
    """

    question: Any
    start: Any
    end: Any
    score: Any


def candidates(
    windows: Windows,
    start_logits: Any,
    end_logits: Any,
    input_mask: Any,
    settings: AnswerSettings,
) -> Candidates:
    """Returns the possible answers from the n best starts and ends of each window.

    The logits and the mask have the shape [R, S].
    """
    if not settings.padding_as_released:
        is_token = input_mask > 0
        start_logits = tf.where(is_token, start_logits, -float("inf"))
        end_logits = tf.where(is_token, end_logits, -float("inf"))

    # The n best starts and ends of each window, and all pairs of them.
    count = tf.minimum(settings.n_best_size, tf.shape(start_logits)[1])
    starts, ends = (
        tf.math.top_k(logits, count) for logits in (start_logits, end_logits)
    )
    start = starts.indices[:, :, None]  # [R, n, 1]
    end = ends.indices[:, None, :]  # [R, 1, n]

    # A start must be in the window that gives it most context, and an end after it.
    first, last = windows.offset[:, None], (windows.offset + windows.length)[:, None]
    can_start = (starts.indices >= first) & (starts.indices < last)
    can_start &= has_max_context(windows, starts.indices)
    can_end = (ends.indices >= first) & (ends.indices < last)
    valid = can_start[:, :, None] & can_end[:, None, :]
    valid &= (start <= end) & (end - start < settings.max_answer_length)

    scores = (
        tf.cast(starts.values, tf.float64)[:, :, None]
        + tf.cast(ends.values, tf.float64)[:, None]
    )
    chosen = tf.cast(tf.where(valid), tf.int32)  # [C, 3]: window, start, end
    window = chosen[:, 0]
    shift = tf.gather(windows.first_token - windows.offset, window)

    unsorted = Candidates(
        question=tf.gather(windows.row, window),
        start=shift + tf.gather_nd(starts.indices, chosen[:, :2]),
        end=shift + tf.gather_nd(ends.indices, tf.gather(chosen, [0, 2], axis=1)),
        score=tf.gather_nd(scores, chosen),
    )
    return _sorted(unsorted)


def _sorted(found: Candidates) -> Candidates:
    """Sorts candidates by question and descending score; equal scores keep their order."""
    order = tf.argsort(found.score, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(found.question, order), stable=True))
    return _take(found, order)


def _take(found: Candidates, indices: Any) -> Candidates:
    """Returns the candidates at some indices, int32 [C]."""
    return Candidates(*(tf.gather(values, indices) for values in found))


def in_bytes(found: Candidates, contexts: Contexts) -> Candidates:
    """Converts the start and the end of candidates from tokens to bytes of the contexts.

    As in `final_text`, a candidate becomes all words of its span if the span has an
    unknown token, or if normalization changes the number of characters of these words.
    Otherwise, it becomes the bytes of its tokens.
    """
    row = tf.gather(tf.cast(contexts.ids.row_splits, tf.int32), found.question)
    first = tf.gather(contexts.starts, row + found.start)
    last = tf.gather(contexts.ends, row + found.end)
    is_aligned = tf.reduce_all(first[:, 2:] == last[:, 2:], axis=1)
    start, end = (
        tf.where(is_aligned, offsets[:, 0], offsets[:, 1]) for offsets in (first, last)
    )
    return found._replace(start=start, end=end)


def distinct(found: Candidates, *values: Any) -> Candidates:
    """Keeps, of the candidates of a question with equal `values` ([C] each), only the best."""
    # In TensorFlow 2.12, `as_string` refuses strings.
    texts = [
        value if value.dtype == tf.string else tf.as_string(value)
        for value in (found.question, *values)
    ]
    keys = tf.strings.join(texts, ":")
    unique = tf.unique(keys)
    count = tf.size(keys)
    first = tf.math.unsorted_segment_min(tf.range(count), unique.idx, tf.size(unique.y))
    return _take(found, first)


def null_scores(
    windows: Windows, start_logits: Any, end_logits: Any, num_questions: Any
) -> Any:
    """Returns the score of the empty answer to each question: float64 [B]; 0 without windows."""
    scores = tf.cast(start_logits[:, 0], tf.float64) + tf.cast(
        end_logits[:, 0], tf.float64
    )
    smallest = tf.math.unsorted_segment_min(scores, windows.row, num_questions)
    return tf.where(windows.count > 0, smallest, 0.0)


class Best(NamedTuple):
    """The answer to each question.

    Attributes:
        index: int32 [B], the index of the best candidate; C if there is none.
        is_null: bool [B], whether the answer is "".
        score: float64 [B], the score of the answer; 0 if no answer is possible.
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

    The candidates of a question have different texts, sorted by descending score.
    `null` has the score of the empty answer to each question, float64 [B].
    """
    questions = tf.range(tf.size(null))
    first = tf.searchsorted(found.question, questions)
    count = tf.searchsorted(found.question, questions, side="right") - first
    rank = tf.range(tf.size(found.question)) - tf.gather(first, found.question)

    # "" is one of the n best answers, or is added to n better ones.
    limit = tf.fill(tf.shape(null), settings.n_best_size)
    if settings.version_2_with_negative:
        better = tf.cast(found.score >= tf.gather(null, found.question), tf.int32)
        num_better = tf.math.unsorted_segment_sum(better, found.question, tf.size(null))
        limit = tf.where(num_better < limit, limit - 1, limit)

    has_answer = tf.minimum(count, limit) > 0
    index = tf.where(has_answer, first, tf.size(found.score))
    score = tf.gather(tf.concat([found.score, [0.0]], 0), index)

    # The softmax of the scores of the n best answers.
    largest = tf.where(has_answer, score, null)
    if settings.version_2_with_negative:
        largest = tf.maximum(largest, null)
    weights = tf.exp(found.score - tf.gather(largest, found.question))
    weights = tf.where(rank < tf.gather(limit, found.question), weights, 0.0)
    total = tf.math.unsorted_segment_sum(weights, found.question, tf.size(null))

    if settings.version_2_with_negative:
        difference = tf.where(has_answer, null - score, 0.0)
        is_null = (difference > settings.null_score_diff_threshold) | ~has_answer
        score = tf.where(is_null, null, score)
        probability = tf.exp(score - largest) / (total + tf.exp(null - largest))
    else:
        probability = tf.where(has_answer, 1 / tf.where(has_answer, total, 1.0), 0.0)
        is_null = ~has_answer
        difference = tf.zeros_like(null)
    return Best(
        index,
        is_null,
        score=score,
        probability=probability,
        null_score_diff=difference,
    )
