"""Class weights: values as in scikit-learn, and a loss as in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import assert_close_arrays
from ner_data import make_task
from prepared import TRAIN, prepared, run_data
from reference import class_weights as reference
from refusals import refused
from sklearn.utils.class_weight import compute_class_weight
from squad_data import tokenizers
from tiny_objectives import gradients, make_objective

from bert_tf.runs.class_weights import check_labels, with_label_weights
from bert_tf.runs.fine_tuning_config import FineTuningConfig, parse_class_weights
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.classification.classification_task import ClassificationTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.ner.ner_task import NerTask
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import DataLocation
from bert_tf.training.training_config import RunPhases

NAMES = ("x", "y", "z")


def weights_of(tmp_path, labels, class_weights, names=NAMES, phases=TRAIN):
    """Returns the weights for a train file with these labels."""
    rows = "".join(f"a\t{label}\n" for label in labels)
    (tmp_path / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    task = custom_task(TextColumns(), labels=names)
    data = run_data(task, tmp_path, phases=phases, class_weights=class_weights)
    return data.label_weights


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("balanced", [2 / 3, 0, 2]),  # 8 / (2 * 6) and 8 / (2 * 2); y has no examples
        ("x=1,z=3", [2 / 3, 0, 2]),  # the mean is (6 * 1 + 2 * 3) / 8 = 1.5
        (" z = 3", [2 / 3, 0, 2]),
        ({"z": 3, "y": 100}, [2 / 3, 0, 2]),
        ("x=0", [0, 0, 4]),
        ("x=1e-6,z=1e6", [4e-12, 0, 4]),
        ({}, [1, 0, 1]),
    ],
)
def test_weights_have_the_mean_1(tmp_path, value, expected):
    found = weights_of(tmp_path, "xxxxxxzz", value)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_balanced_weights_equal_those_of_scikit_learn(tmp_path):
    labels = np.random.default_rng(0).choice(list(NAMES), 5000, p=[0.7, 0.25, 0.05])
    expected = compute_class_weight("balanced", classes=np.array(NAMES), y=labels)
    np.testing.assert_allclose(
        weights_of(tmp_path, labels, "balanced"), expected, rtol=1e-6
    )
    ids = [NAMES.index(label) for label in labels]
    expected = reference.normalized([2, 1, 0.5], ids)
    np.testing.assert_allclose(
        weights_of(tmp_path, labels, "x=2,z=.5"), expected, rtol=1e-6
    )


def test_there_are_no_weights_without_class_weights_or_training(tmp_path):
    assert weights_of(tmp_path, "xyz", None) is None
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na\tx\n")
    assert (
        weights_of(tmp_path, "xyz", "balanced", phases=RunPhases(False, True)) is None
    )


@pytest.mark.parametrize(
    "max_seq_length", [16, 4]
)  # 4: several windows for each sentence
def test_weights_of_tags_count_each_word_once(tmp_path, max_seq_length):
    words = ["a B-A", "b I-A", "c O", "d O", "a O", "b O", "c B-A", "d O"]
    (tmp_path / "train.conll").write_text(
        "\n".join([*words[:5], "", *words[5:]]) + "\n"
    )
    location = DataLocation(data_dir=str(tmp_path))
    task = prepared(NerTask(), location, TRAIN, tokenizers(True)[0], max_seq_length)
    assert task.labels == ("O", "B-A", "I-A")

    def weights(value):
        data = run_data(task, tmp_path, max_seq_length, class_weights=value)
        return data.label_weights

    tags = np.array([word.split()[1] for word in words])
    expected = compute_class_weight("balanced", classes=np.array(task.labels), y=tags)
    np.testing.assert_allclose(weights("balanced"), [0, *expected], rtol=1e-6)
    # The mean of 5 * 0.2, 2 and 1 is 0.5.
    np.testing.assert_allclose(weights("O=0.2"), [0, 0.4, 2, 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "Received: ''"),
        ("even", "Received: 'even'"),
        ("x=1,", "Received: ''"),
        ("x=", "Received: 'x='"),
        ("=1", "Received: '=1'"),
        ("x:1", "Received: 'x:1'"),
        ("y=1,x=-1", "Received: 'x=-1'"),
        ("x=nan", "x=nan"),
        ("x=inf", "x=inf"),
        ({"x": float("nan")}, "x=nan"),
        ({"x": 1e7}, "from 0 to 1,000,000. Received: 'x=10000000"),
        ("x=1, x=2", "the label 'x' twice"),
    ],
)
def test_malformed_weights_are_refused(value, message):
    with refused("^class_weights ") as error:
        FineTuningConfig(class_weights=value)
    assert message in str(error.value)


def test_labels_may_have_commas_and_equals_signs():
    assert parse_class_weights("a=b=2") == {"a=b": 2}
    assert parse_class_weights({"a,b=c": 2}) == {"a,b=c": 2}
    assert parse_class_weights("balanced=2") == {"balanced": 2}


def test_weights_that_do_not_fit_the_task_are_refused(tmp_path):
    with refused(r"the label 'w', which .* of x, y, z"):
        weights_of(tmp_path, "xyz", "x=1,w=2")
    with refused("the weight 0 to all labels of the train split"):
        weights_of(tmp_path, "xxy", "x=0,y=0")
    columns = TextColumns()
    for task in (
        custom_task(columns, "regression"),
        custom_task(columns, "multi_label", labels=["x"]),
        SquadTask(),
        ChoiceTask(),
    ):
        for value in ("balanced", "x=2"):
            with refused(r"one label to each text .* Leave out class_w"):
                check_labels(task, value)


def classification():
    """Returns an objective, a batch with labels, and the labels as (place, index)."""
    task = ClassificationTask("any", NAMES, False, None)
    labels = np.array([0, 2, 2, 1, 0, 0])
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 30, [len(labels), 7])
    batch = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "label_ids": labels,
        "is_real_example": np.ones_like(labels),
    }
    return task, batch, np.arange(len(labels)), labels


def tagging():
    task = make_task(("O", "B-A", "I-A"))
    labels = np.array([[0, 1, 0, 3, 0], [0, 2, 1, 1, 0]])
    ids = np.random.default_rng(0).integers(5, 30, labels.shape)
    batch = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "label_ids": labels,
    }
    places = np.nonzero(labels)
    return task, batch, places, labels[places] - 1


def with_weights(task, batch, weights):
    """Returns the batch as tensors, with the weights [C] of its labels, if given."""

    def tensors(values):
        return {name: tf.constant(value, tf.int32) for name, value in values.items()}

    if weights is None:
        return tensors(batch)
    table = np.array([*[0] * task.first_label_id, *weights], np.float32)
    return with_label_weights(tensors, table)(batch)


@pytest.mark.parametrize("make", [classification, tagging])
def test_the_loss_equals_that_of_numpy_and_metrics_have_no_weights(make):
    task, batch, places, labels = make()
    objective = make_objective(task)
    weights = reference.normalized([0.5, 3, 2], labels)
    plain, weighted = (with_weights(task, batch, each) for each in (None, weights))
    logits = objective.model(plain, training=False)["logits"].numpy()[places]
    loss, metrics, _ = gradients(objective, weighted)
    assert loss == pytest.approx(reference.loss(logits, labels, weights), rel=1e-5)
    before, without, _ = gradients(objective, plain)
    assert before == pytest.approx(reference.loss(logits, labels, np.ones(3)), rel=1e-5)
    assert abs(loss - before) > 0.01 and float(metrics["accuracy"]) == float(
        without["accuracy"]
    )
    counts = objective.counts(weighted)
    assert [float(each) for each in counts.values()] == [len(labels)]


def repeated(batch, weights):
    """Returns the batch with each example as often as the weight of its label."""
    numbers = np.repeat(
        np.arange(len(batch["label_ids"])), np.take(weights, batch["label_ids"])
    )
    return {name: values[numbers] for name, values in batch.items()}


def test_an_integer_weight_has_the_gradient_of_repeated_examples():
    task, batch, _, labels = classification()
    objective, given = make_objective(task), [1, 4, 2]
    weighted = with_weights(task, batch, reference.normalized(given, labels))
    loss, _, found = gradients(objective, weighted)
    expected_loss, _, expected = gradients(
        objective, with_weights(task, repeated(batch, given), None)
    )
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    largest = max(np.abs(each).max() for each in expected.values())
    assert_close_arrays(found, expected, 1e-5 * largest)
    plain = gradients(objective, with_weights(task, batch, None))[2]
    assert (
        max(np.abs(plain[name] - expected[name]).max() for name in plain)
        > 0.01 * largest
    )
