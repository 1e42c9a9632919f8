"""The loss of a student, compared with NumPy, and its gradients."""

import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import assert_same_arrays
from ner_data import make_task
from prepared import run_data
from reference import distillation as reference
from refusals import refused
from tiny_bert import random_inputs
from tiny_objectives import gradients, make_objective

from bert_tf.runs import batches
from bert_tf.runs.distillation import DistillationObjective
from bert_tf.runs.fine_tuning_config import DistillationConfig
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import (
    LABEL_WEIGHTS,
    RECORD_WEIGHTS,
    TEACHER_LOGITS,
    DataLocation,
)

NAMES, COUNT, LENGTHS = ("x", "y", "z"), 4, [3, 5, 1, 5]
TAGS = np.array([[0, 1, 3, 0, 0], [0, 2, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 2]])
SCORES = np.array([0.5, 5, 3, 1], np.float32)
ROWS = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], np.float32)
KINDS = {
    "classification": (
        ClassificationTask("a", NAMES, False, None),
        {"label_ids": np.array([0, 2, 1, 1])},
    ),
    "regression": (
        ClassificationTask("a", (), False, None, "regression"),
        {"label_ids": SCORES},
    ),
    "multi_label": (
        ClassificationTask("a", NAMES, False, None, "multi_label"),
        {"label_ids": ROWS},
    ),
    "ner": (make_task(("O", "B-A", "I-A")), {"label_ids": TAGS}),
    "squad": (
        SquadTask(),
        {
            "start_positions": np.array([1, 0, 0, 4]),
            "end_positions": np.array([2, 3, 0, 4]),
        },
    ),
}


def batch_of(kind):
    """Returns four examples of up to five tokens, one of which has one token."""
    return {**random_inputs(LENGTHS, 5, 30), **KINDS[kind][1]}


def student_and_batch(kind):
    """Returns an objective, and a batch with the logits of another one."""
    student, teacher = (make_objective(KINDS[kind][0], 10, seed) for seed in (1, 2))
    batch = batch_of(kind)
    logits = teacher.logits_to_learn(teacher.outputs_of_model(batch))
    return student, {**batch, TEACHER_LOGITS: tf.convert_to_tensor(logits)[:, :, None]}


def distilled(objective, weight, temperature=3.0, **options):
    config = DistillationConfig("teacher", temperature, weight, **options)
    return DistillationObjective(objective, config)


def expected_loss(kind, teacher, student):
    """Returns the teacher's loss of the batch by its definition; logits [B, T, C]."""
    pairs = list(zip(teacher, student, strict=True))
    if kind == "ner":
        losses = [
            reference.of_tags(*pair, 3.0, row > 0)
            for pair, row in zip(pairs, TAGS, strict=True)
        ]
        return sum(losses) / np.count_nonzero(TAGS)
    if kind == "squad":
        return np.mean(
            [
                reference.of_span(*pair, 3.0, n)
                for pair, n in zip(pairs, LENGTHS, strict=True)
            ]
        )
    of_one = {
        "classification": reference.of_classes,
        "regression": reference.of_score,
        "multi_label": reference.of_labels,
    }[kind]
    return np.mean([of_one(given[0], own[0], 3.0) for given, own in pairs])


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_equals_that_of_numpy(kind):
    plain = batch_of(kind)
    student, batch = student_and_batch(kind)
    own = student.logits_to_learn(student.outputs_of_model(plain))
    expected = expected_loss(
        kind, batch[TEACHER_LOGITS][:, :, 0].numpy(), np.array(own)
    )
    labels, metrics, gradient_of_labels = gradients(student, plain)
    loss, found, _ = gradients(distilled(student, 0.25), batch)
    assert expected > 0.01
    assert loss == pytest.approx(0.75 * labels + 0.25 * expected, rel=1e-4)
    assert float(found.pop("teacher_loss")) == pytest.approx(expected, rel=1e-4)
    assert found == metrics

    # With the weight 0, nothing differs from a training without a teacher.
    loss, _, found = gradients(distilled(student, 0), batch)
    assert loss == labels
    assert_same_arrays(found, gradient_of_labels)


def test_cached_logits_at_padding_have_no_effect():
    # The cache has no values at padding positions: they are 0.
    for kind, has_value in (("ner", "label_ids"), ("squad", "input_mask")):
        student, batch = student_and_batch(kind)
        mask = (batch[has_value] > 0)[..., None, None].astype(np.float32)
        cut = {**batch, TEACHER_LOGITS: batch[TEACHER_LOGITS] * mask}
        assert np.any(cut[TEACHER_LOGITS] != batch[TEACHER_LOGITS])
        losses = [gradients(distilled(student, 0.5), each)[0] for each in (batch, cut)]
        assert losses[0] == losses[1]


@pytest.mark.parametrize("kind", KINDS)
def test_examples_without_labels_have_only_the_teachers_loss(kind):
    student, batch = student_and_batch(kind)
    # The last two examples have no labels; their wrong labels must not count.
    marked = batches._with_record_weights(
        batch, tf.constant([True, True, False, False])
    )
    first = {name: value[:2] for name, value in batch.items()}
    counts = [float(*student.counts(each).values()) for each in (first, batch)]
    labelled = gradients(student, first)[0] * counts[0] / counts[1]
    teachers = gradients(distilled(student, 1), batch)[0]
    loss, metrics, _ = gradients(
        distilled(student, 0.25, unlabelled_file="texts"), marked
    )
    assert loss == pytest.approx(0.75 * labelled + 0.25 * teachers, rel=1e-5)
    assert metrics.keys() == {"teacher_loss"}


def test_examples_without_labels_keep_the_class_weights_of_the_others():
    batch = {
        "label_ids": tf.zeros([2, 3], tf.int32),
        LABEL_WEIGHTS: tf.constant([[1.0, 2, 3]] * 2),
    }
    marked = batches._with_record_weights(batch, tf.constant([True, False]))
    assert marked[LABEL_WEIGHTS].numpy().tolist() == [[1, 2, 3], [0, 0, 0]]


@pytest.mark.parametrize("kind", ["classification", "regression", "multi_label"])
def test_the_windows_of_a_text_share_its_weight_in_both_losses(kind):
    student, batch = student_and_batch(kind)
    weights = [0.5, 2.0, 0.0, 1.5]
    weighted = {**batch, RECORD_WEIGHTS: tf.constant(weights)}
    weighted = batches._with_record_weights(weighted, tf.constant([True] * COUNT))
    losses = [
        gradients(
            distilled(student, 0.25),
            {n: value[row : row + 1] for n, value in batch.items()},
        )
        for row in range(COUNT)
    ]
    expected = np.mean(np.array(weights) * [each[0] for each in losses])
    loss = gradients(distilled(student, 0.25), weighted)[0]
    assert loss == pytest.approx(expected, rel=1e-4)


def data_of(tmp_path, unlabelled_file, **options):
    location = DataLocation(
        data_dir=str(tmp_path), eval_fraction=0.25, test_fraction=0.25
    )
    task = custom_task(TextColumns(), labels=NAMES)
    return run_data(
        task, tmp_path, location=location, unlabelled_file=unlabelled_file, **options
    )


def test_unlabelled_texts_are_the_last_records_of_the_train_split(tmp_path):
    rows = "".join(f"{'a ' * n}\t{'xy'[n % 2]}\n" for n in range(1, 20))
    (tmp_path / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    texts = tmp_path / "texts.tsv"
    texts.write_text("sentence\nb\nb c\nc\n")
    plain = data_of(tmp_path, None)
    data = data_of(tmp_path, str(texts), class_weights="balanced")
    assert data.fingerprint() != plain.fingerprint()
    (before,), (now,) = plain.splits["train"], data.splits["train"]
    assert now.num_examples == before.num_examples + 3
    assert data.num_steps(1)[0] == 3 * now.num_examples
    data.write_all_records()
    records = now.records
    assert (
        records.num_labelled == before.num_examples and len(records) == now.num_examples
    )
    assert records.index.num_tokens[-3:].tolist() == [3, 4, 3]
    assert data.label_weights[2] == 0  # no label is counted for the texts
    assert before.records.num_labelled == before.num_examples
    # A label in the file would not be used, so it may be an unknown one.
    texts.write_text("sentence\tlabel\nb\tw\n")
    assert data_of(tmp_path, str(texts)).splits["train"][0].num_examples > 1
    with refused("There is no file"):
        data_of(tmp_path, str(tmp_path / "none.tsv"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"distillation_temperature": 0.0},
            "distillation_temperature must be from 0.01 to 1000",
        ),
        ({"distillation_temperature": float("nan")}, "distillation_temperature"),
        (
            {"distillation_weight": 1.1},
            "distillation_weight must be from 0 to 1. Received: 1.1",
        ),
        ({"distillation_weight": -0.1}, "distillation_weight"),
        ({"init_layers": ()}, "init_layers must be numbers of blocks"),
        ({"init_layers": ("0", "x")}, "Received: '0,x'"),
        ({"init_layers": (0, -1)}, "Received: '0,-1'"),
    ],
)
def test_values_out_of_range_are_refused(values, message):
    with refused(message):
        DistillationConfig("teacher", **values)
