"""Exports of multi-label and regression models, and of heads of Hugging Face."""

import logging
import shutil

import export_models
import numpy as np
import pytest
import tensorflow as tf
from export_models import CONFIG, TOKENIZER, VOCABULARY
from golden_checkpoints import HUGGING_FACE, inputs_of
from json_files import edit_json
from refusals import refused

import bert_tf
from bert_tf.export import api
from bert_tf.export.served import load_served
from bert_tf.export.serving_settings import ServingSettings

pytestmark = pytest.mark.usefixtures("without_export_check")
LABELS = ["toxic", "ž", "insult"]
TEXTS = ["a b", "", "c d e f g h", "h " * 30, "e"]


def classifier(biases):
    model = bert_tf.BertClassifier(CONFIG, num_labels=len(biases), seed=3)
    model.head.output_weights.assign(2 * np.array(model.head.output_weights))
    model.head.output_bias.assign(biases)
    return model


def served_classifier(model, **facts):
    """Returns a served model, by default of several labels."""
    defaults = {"labels": LABELS, "pair": False, "max_seq_length": 12}
    facts = {**defaults, "task_type": "multi_label", **facts}
    return export_models.served(model, TOKENIZER, **facts)


def labels_of(served):
    """Returns the labels that a served model joins for a text."""
    return served.from_texts(["a"])["labels"].numpy()[0].decode()


def selected(probabilities, threshold):
    return [
        [n for n, p in zip(LABELS, row, strict=True) if p >= threshold]
        for row in probabilities
    ]


def test_a_multi_label_model_gives_sigmoids_and_the_labels_above_its_threshold(
    tmp_path,
):
    model = classifier([0.3, -0.2, -0.5])
    folder = bert_tf.export_model(
        model,
        TOKENIZER,
        tmp_path / "served",
        labels=LABELS,
        pair=np.True_,
        max_seq_length=np.int64(12),
        task_type="multi_label",
        threshold=0.4,
    )
    signatures = tf.saved_model.load(folder).signatures
    first, second = tf.constant(TEXTS), tf.constant(TEXTS[::-1])
    found = signatures["serving_default"](text_a=first, text_b=second)
    assert found.keys() == {"probabilities", "labels"}
    inputs = TOKENIZER.encode(TEXTS, TEXTS[::-1], seq_length=12)
    expected = 1 / (1 + np.exp(-np.asarray(model(inputs)["logits"])))
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    names = selected(expected, 0.4)
    assert [text.decode() for text in found["labels"].numpy()] == [
        ",".join(n) for n in names
    ]
    assert len(set(map(len, names))) > 1
    assert names != selected(expected, 0.5)
    # They are not the values of a softmax.
    assert np.abs(expected.sum(axis=1) - 1).max() > 0.1
    by_ids = signatures["ids"](**TOKENIZER.encode(TEXTS, seq_length=12))
    assert by_ids.keys() == {"probabilities", "labels", "logits"}


def test_a_threshold_includes_its_own_value(tmp_path):
    """Zero logits have the probability 0.5."""
    model = classifier([0.0, 0.0, 0.0])
    model.head.output_weights.assign(np.zeros((3, 8)))
    served = served_classifier(model)
    assert labels_of(served) == "toxic,ž,insult"
    higher = served_classifier(model, threshold=0.51)
    assert labels_of(higher) == ""


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["arts", "arts, culture", "culture"], "arts;arts, culture;culture"),
        (["a;b", "c", "d"], "a;b,c,d"),
        (["a,b", "c;d", "e"], "a,b|c;d|e"),
        (["a,b", "c;d", "e|f"], "a,b\tc;d\te|f"),
    ],
)
def test_served_labels_are_joined_by_what_no_label_contains(labels, expected):
    model = classifier([9.0, 9.0, 9.0])
    served = served_classifier(model, labels=labels, threshold=0.01)
    assert labels_of(served) == expected


def test_models_that_do_not_suit_the_type_are_refused(tmp_path):
    one, three = classifier([0.0]), classifier([0.0, 0.0, 0.0])
    cases = {
        "task_type .* must be one of .* Received: 'ranking'": (
            three, {"task_type": "ranking", "labels": LABELS},
        ),
        "labels must be .* for a BertClassifier with num_labels=3": (
            three, {"task_type": "regression"},
        ),
        "labels must be .* Received: .'score'": (
            one, {"task_type": "regression", "labels": ["score"]},
        ),
        "at least 2 labels": (one, {"labels": ["a"]}),
        "it lacks labels. Give labels": (three, {}),
        "threshold must be above 0 and below 1. Received: 1": (
            three, {"task_type": "multi_label", "labels": LABELS, "threshold": 1},
        ),
        "par=True has no effect for the task classification": (
            three, {"labels": LABELS, "par": True},
        ),
        "max_seq_length must be from 3 to "
        "16": (three, {"labels": LABELS, "max_seq_length": 17}),
    }  # fmt: skip
    for message, (model, arguments) in cases.items():
        arguments = {"max_seq_length": 12, **arguments}
        with refused(message):
            bert_tf.export_model(model, TOKENIZER, tmp_path / "out", **arguments)
        assert not (tmp_path / "out").exists()


# The labels that the config states, the facts that it does not, and the assumed facts,
# by model.
HEADS = {
    "sequence_classification": (
        ["bad", "fair", "good"],
        {"pair": True},
        {"max_seq_length": 128},
    ),
    "token_classification": (["O", "B-X", "I-X", "B-Y", "I-Y"], {}, {"scheme": "iob2"}),
    "question_answering": (
        [],
        {"max_query_length": 8, "doc_stride": 4},
        {"n_best_size": 20, "max_seq_length": 384},
    ),
    "multiple_choice": ([], {}, {}),
}


@pytest.mark.parametrize(
    "name",
    [
        "sequence_classification",
        pytest.param("token_classification", marks=pytest.mark.medium),
        "question_answering",
        "multiple_choice",
    ],
)
def test_a_fine_tuned_folder_of_hugging_face_is_served_for_its_head(
    tmp_path, caplog, name
):
    labels, given, assumed = HEADS[name]
    folder = shutil.copytree(HUGGING_FACE / name, tmp_path / "model")
    if labels:
        edit_json(folder / "config.json", id2label=dict(enumerate(labels)))
    words = [*VOCABULARY, *(f"w{number}" for number in range(150 - len(VOCABULARY)))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    with caplog.at_level(logging.INFO, "bert_tf"):
        job = api._job(str(folder), ServingSettings(), None, "1", given)
    facts = job.checkpoint.facts
    assert facts.get("labels", []) == labels
    assert {key: facts[key] for key in {**given, **assumed}} == {**given, **assumed}
    for key, value in assumed.items():
        assert f"{key}={value}" in caplog.text
    # The values that transformers computed.
    expected = np.load(HUGGING_FACE / name / "expected.npz")
    inputs = {
        name: tf.reshape(value, [-1, value.shape[-1]])
        for name, value in inputs_of(expected).items()
    }
    signatures = load_served(job.checkpoint, job.settings).signatures("ids")
    if name == "token_classification":  # one of them is also written and read
        saved = api.export(str(folder), str(tmp_path / "out"), facts=given)
        signatures = tf.saved_model.load(saved).signatures
    outputs = signatures["ids"](**inputs)
    for key in outputs.keys() & {"logits", "score", "start_logits", "end_logits"}:
        wanted = expected["logits" if key == "score" else key]
        found = outputs[key].numpy().reshape(wanted.shape)
        is_token = (
            expected["input_mask"] == 1
            if found.ndim > 1 and found.shape[1] == 20
            else ...
        )
        np.testing.assert_allclose(found[is_token], wanted[is_token], atol=1e-5)
