"""Texts in windows: records, weights and averages, compared with plain loops."""

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf
from prepared import run_data
from reference import long_texts as reference
from tiny_bert import SPECIAL
from tiny_objectives import gradients, make_objective

from bert_tf.runs import batches
from bert_tf.runs.class_weights import weights_of_records
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.long_texts import LongTexts
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.text_examples import TextExample
from bert_tf.tasks.splits import Split
from bert_tf.tasks.task import LABEL_WEIGHTS, RECORD_WEIGHTS
from bert_tf.tokenization import BertTokenizer

LETTERS = "abcdefgh"
TOKENIZER = BertTokenizer([*SPECIAL, *LETTERS])
LENGTH = 8
ROOM = LENGTH - 2
LABELS = ("no", "yes", "other")
SIZES = [0, 1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 2 * ROOM + 1, 50, 0]
WINDOWS = LongTexts("windows")


def text_of(size, seed=0):
    return " ".join(random.Random(seed).choices(LETTERS, k=size))


def task_of(long_texts, task_type="classification"):
    labels = () if task_type == "regression" else LABELS
    return ClassificationTask(
        "any", labels, False, None, task_type, long_texts=long_texts
    )


def rows_of(text, long_texts, training):
    """Returns the ids of the windows of a text, padded."""
    tokens = [5 + LETTERS.index(letter) for letter in text.split()]
    stride = long_texts.doc_stride or ROOM // 2
    found = reference.windows(tokens, ROOM, stride)
    if training:
        found = [found[n] for n in reference.spread(len(found), long_texts.max_windows)]
    return [[2, *each, 3] + [0] * (ROOM - len(each)) for each in found]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("stride", [None, 1, 4, ROOM, 100])
def test_records_are_those_of_plain_loops(stride, training):
    for limit in (1, 2, 3, 8):
        settings = LongTexts("windows", stride, limit)
        examples = [TextExample(text_of(n, n), label=LABELS[n % 3]) for n in SIZES]
        task = task_of(settings).for_split(Split("train" if training else "dev", None))
        encoded = task.encode(examples, TOKENIZER, LENGTH)
        expected = [rows_of(each.text_a, settings, training) for each in examples]
        counts = [len(rows) for rows in expected]
        ids = np.concatenate(expected)
        np.testing.assert_array_equal(encoded.columns["input_ids"], ids)
        np.testing.assert_array_equal(encoded.columns["input_mask"], ids != 0)
        np.testing.assert_array_equal(encoded.records_per_example, counts)
        labels = np.repeat([n % 3 for n in SIZES], counts)
        np.testing.assert_array_equal(encoded.columns["label_ids"], labels)
        assert encoded.counts == {
            "with several "
            "windows": sum(n > ROOM for n in SIZES), "with an empty text": 2,
            "windows": len(ids),
        }  # fmt: skip


THREE = [[2.0, -1.0, 0.5], [-3.0, 1.0, 0.0], [0.0, 0.0, 4.0]]
LOGITS = {
    "classification": THREE,
    "multi_label": THREE,
    "regression": [[1.0], [2.5], [-0.5]],
}
LABEL = {"classification": "yes", "multi_label": ("no", "other"), "regression": 1.25}
AS_NUMBERS = {"classification": 1, "multi_label": [1, 0, 1], "regression": 1.25}


def outputs_of(logits, task_type):
    """Returns the outputs of a model for windows with these logits."""
    logits = np.array(logits, np.float32)
    if task_type == "regression":
        return [{"logits": row, "score": row[0]} for row in logits]
    function = reference.softmax if task_type == "classification" else reference.sigmoid
    return [
        {"logits": row, "probabilities": np.array(function(row), np.float32)}
        for row in logits
    ]


@pytest.mark.parametrize("task_type", LOGITS)
def test_predictions_are_means_and_the_loss_is_that_of_the_mean(task_type):
    outputs = outputs_of(LOGITS[task_type], task_type)
    example = TextExample("any", label=LABEL[task_type])
    for count in (1, 2, 3):
        results = task_of(WINDOWS, task_type).make_results(None)
        prediction = results.decode(example, outputs[:count])
        expected = reference.mean_prediction(LOGITS[task_type][:count], task_type)
        found = prediction[results.output]
        np.testing.assert_allclose(np.atleast_1d(found), expected, rtol=1e-6)
        results.score(example, prediction)
        loss = reference.loss(expected, AS_NUMBERS[task_type], task_type)
        assert results.metrics()["loss"] == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("task_type", ["classification", "multi_label"])
def test_certain_windows_have_a_finite_loss(task_type):
    outputs = outputs_of([[200, -200, -200]] * 2, task_type)
    results = task_of(WINDOWS, task_type).make_results(None)
    label = {"classification": "yes", "multi_label": ("yes",)}[task_type]
    results.score(TextExample("any", label=label), results.decode(None, outputs))
    # For several labels, 200 for two of three.
    expected = {"classification": 400, "multi_label": 400 / 3}[task_type]
    assert results.metrics()["loss"] == pytest.approx(expected)


def data_of(folder, texts, class_weights=None, **settings):
    """Returns the data of a run with these pairs of a text and a label."""
    rows = "".join(f"{text}\t{label}\n" for text, label in texts)
    (folder / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    task = custom_task(
        TextColumns(), labels=LABELS, long_texts=LongTexts("windows", **settings)
    )
    return run_data(
        task, folder, LENGTH, tokenizer=TOKENIZER, class_weights=class_weights
    )


TEXTS = [
    (text_of(3), "no"),
    (text_of(50, 1), "no"),
    (text_of(10, 2), "yes"),
    ("", "no"),
]


def test_each_text_has_the_same_weight_and_the_mean_is_1(tmp_path):
    data = data_of(tmp_path, TEXTS, max_windows=5)
    records = data.splits["train"][0].records
    counts = records.index.records_per_example.astype(int)
    assert counts.tolist() == [1, 5, 3, 1]
    weights = weights_of_records(data.task, records)
    ends = np.cumsum(counts)
    sums = np.add.reduceat(weights, ends - counts)
    np.testing.assert_allclose(sums, [10 / 4] * 4, rtol=1e-6)
    assert weights.dtype == np.float32 and weights.mean() == pytest.approx(1)
    # An epoch reads each window once.
    assert data.num_steps(2)[0] == int(10 / 2 * 3)
    truncated = dataclasses.replace(data.task, long_texts=LongTexts())
    assert weights_of_records(truncated, records) is None


def test_class_weights_count_texts_and_are_multiplied(tmp_path):
    data = data_of(tmp_path, TEXTS, "balanced", max_windows=5)
    # Of four texts, three are no and one is yes: 4 / (2 * 3) and 4 / (2 * 1).
    np.testing.assert_allclose(data.label_weights, [2 / 3, 2, 0], rtol=1e-6)
    records = data.splits["train"][0].records
    weights = weights_of_records(data.task, records)
    order = batches.TrainingOrder(records.index.num_tokens, 10, 0)

    def parse(serialized):
        return {"label_ids": tf.zeros_like(serialized, tf.int32), LABEL_WEIGHTS: 3.0}

    (batch,) = batches.training_batches(records, order, parse, 0, weights).take(1)
    np.testing.assert_allclose(
        batch[LABEL_WEIGHTS], 3 * weights[order.batch(0)], rtol=1e-6
    )
    (batch,) = batches.training_batches(
        records, order, lambda each: {"label_ids": each}, 0, weights
    ).take(1)
    np.testing.assert_allclose(batch[LABEL_WEIGHTS], weights[order.batch(0)], rtol=1e-6)


@pytest.mark.parametrize("task_type", LOGITS)
def test_the_training_loss_is_the_mean_over_texts_of_the_means_of_their_windows(
    task_type,
):
    task = task_of(WINDOWS, task_type)
    objective = make_objective(task)
    scores = [1.5, -2.0, 0.0]
    labels, numbers = {
        "classification": (["yes", "no", "other"], [1, 0, 2]),
        "regression": (scores, scores),
        "multi_label": ([("no",), (), LABELS], [[1, 0, 0], [0, 0, 0], [1, 1, 1]]),
    }[task_type]
    texts = [
        TextExample(text_of(n, n), label=y)
        for n, y in zip((2, 20, 9), labels, strict=True)
    ]
    encoded = task.encode(texts, TOKENIZER, LENGTH)
    counts = encoded.records_per_example
    assert counts.tolist() == [1, 6, 2]
    logits = objective.model(encoded.columns, training=False)["logits"].numpy()
    losses = [
        reference.loss(reference.mean_prediction([row], task_type), label, task_type)
        for row, label in zip(
            logits.tolist(), np.repeat(numbers, counts, axis=0).tolist(), strict=True
        )
    ]
    of_texts = np.add.reduceat(losses, np.cumsum(counts) - counts) / counts

    weights = np.repeat(counts.sum() / (3 * counts), counts).astype(np.float32)
    dtype = np.int32 if task_type == "classification" else np.float32
    label_ids = encoded.columns["label_ids"].astype(dtype)
    batch = {**encoded.columns, "label_ids": label_ids, RECORD_WEIGHTS: weights}
    loss, _, _ = gradients(objective, batches._with_record_weights(batch, weights > 0))
    assert loss == pytest.approx(of_texts.mean(), rel=1e-5)
