"""SQuAD in google-research/bert in plain Python, without imports from bert_tf.

Source: run_squad.py of google-research/bert at its last commit (reading, windows,
predictions), and
the official programs evaluate-v1.1.py and evaluate-v2.0.py (metrics). The order of all
additions is kept, so that all floats are equal, not only close. `f1_korquad` is from
evaluate-korquad_v1.0.py.

`training_example` has one difference: it also compares words that are split at the same
white space as the answer, and so accepts more answers.

`predictions` has two differences, both where the released program fails:

* SQuAD 2.0, an example without any non-null answer: the prediction is "" and the null
  score difference is 0.0.
* An example without windows, because its context has no tokens: the only n-best entry
  is "empty" (SQuAD 1.1, as released) or "" (SQuAD 2.0, where the released program
  fails), its logits are 0.0.
"""

import math
import random
import re
import string
from collections import Counter
from typing import NamedTuple

from reference.tokenizer import pieces, words

FIRST_UNIQUE_ID = 1000000000


class Example(NamedTuple):
    """A question and its context; the last four fields are set only for training.

    `start_position` and `end_position` are indices in `doc_tokens`, both inclusive, or
    -1 if the question has no answer.
    """

    qas_id: str
    question_text: str
    doc_tokens: list
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


class Window(NamedTuple):
    """The input of the model for one part of a context.

    The keys of `token_to_orig_map` and `token_is_max_context` are positions in
    `tokens`; only the tokens of the context are there. `start_position` and
    `end_position` are None for prediction.
    """

    unique_id: int
    example_index: int
    doc_span_index: int
    tokens: list
    token_to_orig_map: dict
    token_is_max_context: dict
    input_ids: list
    input_mask: list
    segment_ids: list
    start_position: int | None
    end_position: int | None
    is_impossible: bool


class Candidate(NamedTuple):
    """A span of one window; `window` is None for the null answer."""

    window: Window | None
    start_index: int
    end_index: int
    start_logit: float
    end_logit: float

    @property
    def score(self):
        return self.start_logit + self.end_logit


class Answer(NamedTuple):
    text: str
    start_logit: float
    end_logit: float


# Reading


def split_context(text):
    """Returns a context's words, and the last word's index at each character."""
    doc_tokens, char_to_word_offset, in_word = [], [], False
    for character in text:
        if character in " \t\r\n\u202f":
            in_word = False
        elif in_word:
            doc_tokens[-1] += character
        else:
            doc_tokens.append(character)
            in_word = True
        char_to_word_offset.append(len(doc_tokens) - 1)
    return doc_tokens, char_to_word_offset


def training_example(qa, doc_tokens, char_to_word_offset, version_2_with_negative):
    """Returns the example, or None if the context's words do not contain the answer."""
    is_impossible = qa["is_impossible"] if version_2_with_negative else False
    if is_impossible:
        return Example(qa["id"], qa["question"], doc_tokens, "", -1, -1, is_impossible)
    if len(qa["answers"]) != 1:
        raise ValueError(
            f"a training question has {len(qa['answers'])} answers; expected 1"
        )
    text, offset = qa["answers"][0]["text"], qa["answers"][0]["answer_start"]
    start = char_to_word_offset[offset]
    end = char_to_word_offset[offset + len(text) - 1]
    # The answer is split at all white space of Python, the context only at five
    # characters; the second comparison is not in the released program.
    answer, found = " ".join(text.split()), " ".join(doc_tokens[start : end + 1])
    if answer not in found and answer not in " ".join(found.split()):
        return None
    return Example(
        qa["id"], qa["question"], doc_tokens, text, start, end, is_impossible
    )


def read_examples(data, is_training, version_2_with_negative):
    """Returns the examples of a parsed SQuAD file, in the order of the file.

    Raises:
        ValueError: A training question has not exactly one answer, and is not
            impossible.
    """
    examples = []
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            doc_tokens, offsets = split_context(paragraph["context"])
            for qa in paragraph["qas"]:
                example = Example(qa["id"], qa["question"], doc_tokens)
                if is_training:
                    example = training_example(
                        qa, doc_tokens, offsets, version_2_with_negative
                    )
                if example is not None:
                    examples.append(example)
    return examples


def shuffled_for_training(examples):
    """Returns the examples in the order in which the training features are made."""
    examples = list(examples)
    random.Random(12345).shuffle(examples)
    return examples


# Windows


def tokens_of(tokenizer, text):
    """Returns the WordPiece tokens of `text`.

    `tokenizer` is a `reference.tokenizer.Tokenizer`.
    """
    return [
        piece
        for word in words(text, tokenizer.do_lower_case)
        for piece in pieces(word, tokenizer.ids)
    ]


def doc_spans(length, room, doc_stride):
    """Returns the windows (start, length) over a context of `length` tokens."""
    assert room > 0 and doc_stride > 0
    spans, start = [], 0
    while start < length:
        size = min(length - start, room)
        spans.append((start, size))
        if start + size == length:
            break
        start += min(size, doc_stride)
    return spans


def improve_answer_span(doc_tokens, start, end, answer_tokens):
    """Returns the first part of start to end, longest first, with the answer's text."""
    answer = " ".join(answer_tokens)
    for new_start in range(start, end + 1):
        for new_end in range(end, new_start - 1, -1):
            if " ".join(doc_tokens[new_start : new_end + 1]) == answer:
                return new_start, new_end
    return start, end


def max_context_span(spans, position):
    """Returns the index of the span with most context of the token at `position`."""
    best_score, best_index = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if start <= position <= end:
            score = min(position - start, end - position) + 0.01 * length
            if best_score is None or score > best_score:
                best_score, best_index = score, index
    return best_index


class Context(NamedTuple):
    """A context's tokens, the word of each token, and each word's first token."""

    tokens: list
    word_of_token: list
    first_token: list


def tokenized_context(example, tokenizer):
    tokens, word_of_token, first_token = [], [], []
    for index, word in enumerate(example.doc_tokens):
        first_token.append(len(tokens))
        for token in tokens_of(tokenizer, word):
            tokens.append(token)
            word_of_token.append(index)
    return Context(tokens, word_of_token, first_token)


def answer_in_tokens(example, context, tokenizer):
    """Returns the indices of the answer's first and last token in `context.tokens`."""
    start = context.first_token[example.start_position]
    if example.end_position < len(example.doc_tokens) - 1:
        end = context.first_token[example.end_position + 1] - 1
    else:
        end = len(context.tokens) - 1
    answer_tokens = tokens_of(tokenizer, example.orig_answer_text)
    return improve_answer_span(context.tokens, start, end, answer_tokens)


def positions_in_window(answer, first, length, offset):
    """Returns the answer's positions in a window; (0, 0) if part of it is outside.

    Args:
        answer: The first and last token in the context, or None if there is no answer.
        first: The first token of the window in the context.
        length: The number of tokens of the context in the window.
        offset: The position of the first of them in the window.
    """
    if answer is None or answer[0] < first or answer[1] > first + length - 1:
        return 0, 0
    return answer[0] - first + offset, answer[1] - first + offset


def padded(values, length):
    assert len(values) <= length
    return values + [0] * (length - len(values))


def windows_of(
    example, tokenizer, max_seq_length, doc_stride, max_query_length, is_training
):
    """Yields an example's windows as dicts, without `unique_id` and `example_index`."""
    query_tokens = tokens_of(tokenizer, example.question_text)[:max_query_length]
    before = ["[CLS]", *query_tokens, "[SEP]"]
    context = tokenized_context(example, tokenizer)
    answer = None
    if is_training and not example.is_impossible:
        answer = answer_in_tokens(example, context, tokenizer)
    spans = doc_spans(len(context.tokens), max_seq_length - len(before) - 1, doc_stride)
    for doc_span_index, (first, length) in enumerate(spans):
        tokens = [*before, *context.tokens[first : first + length], "[SEP]"]
        to_orig, is_max_context = {}, {}
        for i in range(length):
            to_orig[len(before) + i] = context.word_of_token[first + i]
            best = max_context_span(spans, first + i)
            is_max_context[len(before) + i] = best == doc_span_index
        start = end = None
        if is_training:
            start, end = positions_in_window(answer, first, length, len(before))
        yield {
            "doc_span_index": doc_span_index,
            "tokens": tokens,
            "token_to_orig_map": to_orig,
            "token_is_max_context": is_max_context,
            "input_ids": padded(
                [tokenizer.ids[token] for token in tokens], max_seq_length
            ),
            "input_mask": padded([1] * len(tokens), max_seq_length),
            "segment_ids": padded(
                [0] * len(before) + [1] * (length + 1), max_seq_length
            ),
            "start_position": start,
            "end_position": end,
            "is_impossible": example.is_impossible,
        }


def features(
    examples, tokenizer, max_seq_length, doc_stride, max_query_length, is_training
) -> list[Window]:
    """Returns the windows of all examples, in order.

    Args:
        examples: From `read_examples` or `shuffled_for_training`.
        tokenizer: A `reference.tokenizer.Tokenizer`.
        max_seq_length: The number of positions of an input.
        doc_stride: The number of tokens from the start of a window to the start of the
            next one.
        max_query_length: The maximum number of tokens of a question; more are removed.
        is_training: Whether to set the positions of the answers.
    """
    lengths = max_seq_length, doc_stride, max_query_length
    found = []
    for example_index, example in enumerate(examples):
        for fields in windows_of(example, tokenizer, *lengths, is_training):
            found.append(Window(FIRST_UNIQUE_ID + len(found), example_index, **fields))
    return found


# Predictions


def best_indexes(logits, n_best_size):
    """Returns the positions of the largest logits.

    Of equal logits the first one comes first.
    """
    return sorted(range(len(logits)), key=logits.__getitem__, reverse=True)[
        :n_best_size
    ]


def softmax(scores):
    """Returns the probabilities.

    `sum` of Python 3.12 would round the total differently.
    """
    if not scores:
        return []
    largest = max(scores)
    exponentials = [math.exp(score - largest) for score in scores]
    total = 0.0
    for value in exponentials:
        total += value
    return [value / total for value in exponentials]


def places_without_spaces(text):
    return [place for place, character in enumerate(text) if character != " "]


def get_final_text(pred_text, orig_text, do_lower_case):
    """Returns the part of `orig_text` that corresponds to `pred_text`.

    The characters of `orig_text` and of its words after basic tokenization are aligned
    one to one, without the spaces. Where this is not possible, the result is all of
    `orig_text`.
    """
    tok_text = " ".join(words(orig_text, do_lower_case))
    start = tok_text.find(pred_text)
    if start == -1:
        return orig_text
    end = start + len(pred_text) - 1
    places, tok_places = (
        places_without_spaces(orig_text),
        places_without_spaces(tok_text),
    )
    if len(places) != len(tok_places):
        return orig_text
    place_of = dict(zip(tok_places, places, strict=True))
    if start not in place_of or end not in place_of:
        return orig_text
    return orig_text[place_of[start] : place_of[end] + 1]


def text_of(candidate, example, do_lower_case):
    """Returns the text of a candidate in the context; "" for the null answer."""
    if candidate.window is None:
        return ""
    window, start, end = candidate.window, candidate.start_index, candidate.end_index
    tok_text = (
        " ".join(window.tokens[start : end + 1]).replace(" ##", "").replace("##", "")
    )
    first, last = window.token_to_orig_map[start], window.token_to_orig_map[end]
    orig_text = " ".join(example.doc_tokens[first : last + 1])
    return get_final_text(" ".join(tok_text.split()), orig_text, do_lower_case)


def window_candidates(window, start_logits, end_logits, n_best_size, max_answer_length):
    """Returns the valid spans of a window: best starts first, then best ends."""
    starts = best_indexes(start_logits, n_best_size)
    ends = best_indexes(end_logits, n_best_size)
    return [
        Candidate(window, start, end, start_logits[start], end_logits[end])
        for start in starts
        for end in ends
        if start in window.token_to_orig_map
        and end in window.token_to_orig_map
        and window.token_is_max_context[start]
        and start <= end
        and end - start + 1 <= max_answer_length
    ]


def null_candidate(windows, results):
    """Returns the smallest null score of the windows, and its candidate.

    A null score of a million or more is not used: then the score is a million, the
    logits are 0.0.
    """
    score, candidate = 1000000, Candidate(None, 0, 0, 0.0, 0.0)
    for window in windows:
        start_logits, end_logits = results[window.unique_id]
        if start_logits[0] + end_logits[0] < score:
            candidate = Candidate(None, 0, 0, start_logits[0], end_logits[0])
            score = candidate.score
    return score, candidate


def distinct_answers(candidates, example, n_best_size, do_lower_case):
    """Returns the first answers with different texts.

    The null answer is never removed.
    """
    answers, seen = [], set()
    for candidate in candidates:
        if len(answers) >= n_best_size:
            break
        text = text_of(candidate, example, do_lower_case)
        if candidate.window is not None and text in seen:
            continue
        seen.add(text)
        answers.append(Answer(text, candidate.start_logit, candidate.end_logit))
    return answers


def n_best_entries(answers):
    """Returns the entries of nbest_predictions.json."""
    probabilities = softmax(
        [answer.start_logit + answer.end_logit for answer in answers]
    )
    return [
        {
            "text": answer.text,
            "probability": probability,
            "start_logit": answer.start_logit,
            "end_logit": answer.end_logit,
        }
        for answer, probability in zip(answers, probabilities, strict=True)
    ]


def predicted(answers, null_score, null_score_diff_threshold):
    """Returns the prediction and the null score difference of SQuAD 2.0."""
    best = next((answer for answer in answers if answer.text), None)
    if best is None:  # The released program fails here.
        return "", 0.0
    difference = null_score - best.start_logit - best.end_logit
    return "" if difference > null_score_diff_threshold else best.text, difference


def predictions(
    examples,
    features,
    results,
    n_best_size,
    max_answer_length,
    do_lower_case,
    version_2_with_negative,
    null_score_diff_threshold,
) -> tuple[dict, dict, dict]:
    """Returns (predictions, nbest, null_odds), the three files by question id.

    Args:
        examples: From `read_examples`.
        features: The windows of the examples.
        results: A dict from `unique_id` to (start_logits, end_logits), two lists of
            Python floats.
        n_best_size: The number of start positions, of end positions, and of answers.
        max_answer_length: The maximum number of tokens of an answer.
        do_lower_case: Whether the tokenizer converts to lower case.
        version_2_with_negative: Whether questions may have no answer; if not, null_odds
            is empty.
        null_score_diff_threshold: Above this difference, the prediction is "".
    """
    windows_by_example = [[] for _ in examples]
    for window in features:
        windows_by_example[window.example_index].append(window)
    chosen, nbest, null_odds = {}, {}, {}
    for example, windows in zip(examples, windows_by_example, strict=True):
        candidates = []
        for window in windows:
            logits = results[window.unique_id]
            candidates += window_candidates(
                window, *logits, n_best_size, max_answer_length
            )
        null_score, null = null_candidate(windows, results)
        if version_2_with_negative:
            candidates.append(null)
        candidates.sort(
            key=lambda candidate: candidate.score, reverse=True
        )  # keeps ties in order
        answers = distinct_answers(candidates, example, n_best_size, do_lower_case)
        # Then there are n_best_size + 1 answers.
        if version_2_with_negative and all(answer.text for answer in answers):
            answers.append(Answer("", null.start_logit, null.end_logit))
        if not answers:
            answers.append(Answer("empty", 0.0, 0.0))
        chosen[example.qas_id] = answers[0].text
        if version_2_with_negative:
            chosen[example.qas_id], null_odds[example.qas_id] = predicted(
                answers, null_score, null_score_diff_threshold
            )
        nbest[example.qas_id] = n_best_entries(answers)
    return chosen, nbest, null_odds


# Metrics


def questions(data):
    """Returns all questions of a parsed SQuAD file."""
    return [
        qa
        for article in data["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def normalize_answer(text):
    """Returns the text lowercased, single-spaced, without punctuation and articles."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact(prediction, answer):
    return int(normalize_answer(prediction) == normalize_answer(answer))


def f1_of_tokens(prediction_tokens, answer_tokens):
    """Returns the F1 score.

    0 if the lists have no token in common, also if both are empty.
    """
    same = sum((Counter(prediction_tokens) & Counter(answer_tokens)).values())
    if same == 0:
        return 0
    precision = 1.0 * same / len(prediction_tokens)
    recall = 1.0 * same / len(answer_tokens)
    return (2 * precision * recall) / (precision + recall)


def f1_v1(prediction, answer):
    """Returns the F1 score of evaluate-v1.1: two texts without tokens give 0."""
    return f1_of_tokens(
        normalize_answer(prediction).split(), normalize_answer(answer).split()
    )


def f1_v2(prediction, answer):
    """Returns the F1 score of evaluate-v2.0: two texts without tokens give 1."""
    prediction_tokens = normalize_answer(prediction).split()
    answer_tokens = normalize_answer(answer).split()
    if not prediction_tokens or not answer_tokens:
        return int(prediction_tokens == answer_tokens)
    return f1_of_tokens(prediction_tokens, answer_tokens)


def f1_korquad(prediction, answer):
    """Returns the F1 of the official script of KorQuAD 1.0, by characters."""
    characters = []
    for text in (prediction, answer):
        for mark in "'\"《》<>〈〉()‘’":
            text = text.replace(mark, " ")
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        characters.append([c for token in text.split() for c in token])
    return f1_of_tokens(*characters)


def metrics_v1(data, predictions):
    """Returns exact_match and f1 in percent.

    A question without a prediction counts as wrong.
    """
    total = exact_match = f1 = 0
    for qa in questions(data):
        total += 1
        if qa["id"] in predictions:
            prediction = predictions[qa["id"]]
            exact_match += max(
                exact(prediction, answer["text"]) for answer in qa["answers"]
            )
            f1 += max(f1_v1(prediction, answer["text"]) for answer in qa["answers"])
    return {"exact_match": 100.0 * exact_match / total, "f1": 100.0 * f1 / total}


def raw_scores_v2(data, predictions):
    """Returns two dicts, exact and f1, by question id.

    Only questions with a prediction.
    """
    exact_scores, f1_scores = {}, {}
    for qa in questions(data):
        answers = [
            answer["text"]
            for answer in qa["answers"]
            if normalize_answer(answer["text"])
        ]
        if qa["id"] in predictions:
            prediction = predictions[qa["id"]]
            exact_scores[qa["id"]] = max(
                exact(prediction, answer) for answer in answers or [""]
            )
            f1_scores[qa["id"]] = max(
                f1_v2(prediction, answer) for answer in answers or [""]
            )
    return exact_scores, f1_scores


def find_best_thresh(predictions, scores, na_probs, has_answer):
    """Returns the best score in percent and the threshold that gives it.

    The start is the score if all questions get "", with the threshold 0.0. In the order
    of `na_probs`, question after question then gets its prediction. Equal values of
    `na_probs` are not taken together, so the score may be one that no threshold gives.

    Args:
        predictions: Texts by question id.
        scores: From `raw_scores_v2`, one of the two.
        na_probs: By question id, larger if "" is more probable.
        has_answer: By question id, whether the file has any answer.
    """
    score = best_score = sum(1 for answerable in has_answer.values() if not answerable)
    best_thresh = 0.0
    for qas_id in sorted(na_probs, key=na_probs.get):
        if qas_id not in scores:
            continue
        if has_answer[qas_id]:
            score += scores[qas_id]
        elif predictions[qas_id]:
            score -= 1
        if score > best_score:
            best_score, best_thresh = score, na_probs[qas_id]
    return 100.0 * best_score / len(scores), best_thresh


def means(exact_scores, f1_scores, prefix, ids):
    """Returns the mean scores of `ids` in percent, and their number."""
    return {
        prefix + "exact": 100.0
        * sum(exact_scores[qas_id] for qas_id in ids)
        / len(ids),
        prefix + "f1": 100.0 * sum(f1_scores[qas_id] for qas_id in ids) / len(ids),
        prefix + "total": len(ids),
    }


def with_nulls(scores, na_probs, has_answer, na_prob_thresh):
    """Returns the scores if the prediction is "" for `na_probs` above the threshold."""
    return {
        qas_id: float(not has_answer[qas_id])
        if na_probs[qas_id] > na_prob_thresh
        else score
        for qas_id, score in scores.items()
    }


def metrics_v2(data, predictions, na_probs=None, na_prob_thresh=1.0):
    """Returns evaluate-v2.0's results in its order, without precision-recall values.

    exact, f1, total, and for the questions with and without answers HasAns_* and
    NoAns_*; with `na_probs` (the file that --na-prob-file names) also best_exact,
    best_exact_thresh, best_f1 and best_f1_thresh.

    With `na_probs`, predictions above `na_prob_thresh` count as "" in all but the
    best_* values. The default of the official program is 1.0, which is meant for
    probabilities: with the score differences of null_odds.json, exact and f1 are then
    not those of the predictions.
    """
    has_answer = {qa["id"]: bool(qa["answers"]) for qa in questions(data)}
    raw = raw_scores_v2(data, predictions)
    probs = dict.fromkeys(predictions, 0.0) if na_probs is None else na_probs
    scores = [with_nulls(part, probs, has_answer, na_prob_thresh) for part in raw]
    found = means(*scores, "", list(raw[0]))
    for prefix, wanted in ("HasAns_", True), ("NoAns_", False):
        ids = [qas_id for qas_id, value in has_answer.items() if value == wanted]
        if ids:
            found |= means(*scores, prefix, ids)
    if na_probs is not None:
        for name, part in zip(("exact", "f1"), raw, strict=True):
            best, thresh = find_best_thresh(predictions, part, na_probs, has_answer)
            found |= {f"best_{name}": best, f"best_{name}_thresh": thresh}
    return found
