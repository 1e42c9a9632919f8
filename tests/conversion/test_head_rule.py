"""`Pretrained.initialize_task`: the head of a fine-tuned model, and the reason in the log."""

import json
import logging

import numpy as np
import pytest
from tiny_bert import small_config

import bert_tf
from bert_tf.modeling import variables_by_name

CONFIG = small_config(
    7, hidden_size=4, max_position_embeddings=6, initializer_range=0.5
)
MNLI = {
    "task": "mnli",
    "labels": ["contradiction", "entailment", "neutral"],
    "pair": True,
}
# The encoder has 39 weights: 5 of the embeddings, 16 in each of 2 layers, 2 of the
# pooler. Facts of another task than MNLI with three labels, so that the shapes agree,
# and the reason.
OTHER = {
    "task": ({**MNLI, "task": "snli"}, "is of task 'mnli', not of 'snli'"),
    "order": (
        {**MNLI, "labels": ["entailment", "neutral", "contradiction"]},
        "has the labels contradiction, entailment, neutral, but the task has "
        "entailment, neutral, contradiction in another order",
    ),
    "type": (
        {**MNLI, "task_type": "multi_label"},
        "is a model for classification, not for multi_label",
    ),
    "pair": (
        {**MNLI, "pair": False},
        "is a model for pairs of texts, not for single texts",
    ),
}


def classifier(num_labels=3, seed=1):
    """A classifier whose bias is not 0, unlike that of a new one."""
    model = bert_tf.BertClassifier(CONFIG, num_labels=num_labels, seed=seed)
    model.head.output_bias.assign(np.arange(1, num_labels + 1))
    return model


def arrays(model):
    return {
        name: np.array(variable) for name, variable in variables_by_name(model).items()
    }


def initialized(checkpoint, source, is_kept, facts, caplog, init_head=None, model=None):
    """Initializes a model, compares its weights with those of `source`.

    Returns the log records.

    Args:
        is_kept: Whether the head must be that of `source`; otherwise, it must be
            unchanged.
    """
    model = model or bert_tf.BertClassifier(CONFIG, num_labels=3, seed=2)
    before = arrays(model)
    caplog.clear()
    with caplog.at_level(logging.INFO, "bert_tf"):
        checkpoint.initialize_task(model, facts, init_head)
    for name, array in arrays(model).items():
        expected = source if is_kept or name.startswith("bert/") else before
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
        if name.endswith("output_weights"):
            assert not np.array_equal(source.get(name), before[name])
    return [(r.levelname, r.getMessage()) for r in caplog.records]


@pytest.fixture
def saved(tmp_path):
    """Returns a function that saves a classifier, and returns the checkpoint and the weights."""

    def save(facts, dialect="bert-tf", model=None):
        model = model or classifier()
        path = bert_tf.save_checkpoint(
            model, None, tmp_path / dialect, dialect, **facts
        )
        return bert_tf.load(path), arrays(model)

    return save


def test_the_head_of_the_same_task_is_kept(saved, caplog):
    checkpoint, source = saved({**MNLI, "max_seq_length": 6})
    facts = {**MNLI, "labels": tuple(MNLI["labels"]), "task_type": "classification"}
    log = initialized(checkpoint, source, True, facts, caplog)
    path = checkpoint.facts["source"]
    assert log == [
        ("INFO", f"{path}: 41 weights read."),
        (
            "INFO",
            f"The head is that of {path}, because the task and the labels are equal.",
        ),
    ]


@pytest.mark.parametrize("name", OTHER)
def test_the_head_of_another_task_is_random_although_the_shapes_agree(
    saved, caplog, name
):
    facts, reason = OTHER[name]
    checkpoint, source = saved(MNLI)
    log = initialized(checkpoint, source, False, facts, caplog)
    path = checkpoint.facts["source"]
    assert log == [
        ("INFO", f"{path}: 39 weights read."),
        ("INFO", f"The head starts with random weights: {path} {reason}."),
    ]


def test_another_number_of_labels_of_the_same_task_name_is_no_error(saved, caplog):
    facts = {"task": "custom", "labels": ["a", "b", "c"]}
    checkpoint, source = saved(
        {"task": "custom", "labels": ["x", "y"]}, model=classifier(2)
    )
    log = initialized(checkpoint, source, False, facts, caplog)
    assert "has the labels x, y, but the task has a, b, c." in log[1][1]


@pytest.mark.parametrize("dialect", ["google", "hugging_face"])
def test_the_head_of_a_checkpoint_that_names_no_task_is_random(saved, caplog, dialect):
    checkpoint, source = saved(MNLI, dialect)
    log = initialized(checkpoint, source, False, MNLI, caplog)
    assert log[1][0] == "INFO"
    assert log[1][1].endswith("does not state its task (init_head=True uses its head).")


@pytest.mark.parametrize("dialect", ["bert-tf", "google", "hugging_face"])
def test_pretraining_heads_are_left_out_without_a_warning(saved, caplog, dialect):
    checkpoint, source = saved({}, dialect, bert_tf.BertPretrainer(CONFIG, seed=1))
    log = initialized(checkpoint, source, False, MNLI, caplog)
    path = checkpoint.facts["source"]
    assert log == [
        ("INFO", f"{path}: 39 weights read."),
        ("INFO", f"The head starts with random weights: {path} has no weights for it."),
    ]


def test_span_heads_are_kept_for_the_same_task_without_labels(saved, caplog):
    """As from TriviaQA to SQuAD: there are no labels, and the task has the same name."""
    checkpoint, source = saved(
        {"task": "squad"}, model=bert_tf.BertSpanPredictor(CONFIG, seed=1)
    )
    model = bert_tf.BertSpanPredictor(CONFIG, seed=2)
    log = initialized(checkpoint, source, True, {"task": "squad"}, caplog, model=model)
    assert log[1][1].startswith("The head is that of ")


def test_init_head_keeps_the_head_of_another_task_with_the_same_labels(saved, caplog):
    checkpoint, source = saved(MNLI)
    log = initialized(
        checkpoint, source, True, {**MNLI, "task": "snli"}, caplog, init_head=True
    )
    assert log[1] == ("INFO", f"The head is that of {checkpoint.facts['source']}.")


def test_init_head_false_gives_a_random_head(saved, caplog):
    checkpoint, source = saved(MNLI)
    log = initialized(checkpoint, source, False, MNLI, caplog, init_head=False)
    assert log[1] == (
        "INFO",
        "The head starts with random weights: init_head=False was given.",
    )


def test_init_head_with_unknown_labels_warns(saved, caplog):
    """google-research/bert stores no labels, and LABEL_0 is a default name of transformers."""
    default = {"labels": ["LABEL_0", "LABEL_1", "LABEL_2"]}
    for facts, dialect in ((MNLI, "google"), (default, "hugging_face")):
        checkpoint, source = saved(facts, dialect)
        log = initialized(checkpoint, source, True, MNLI, caplog, init_head=True)
        assert [level for level, _ in log] == ["INFO", "WARNING"]
        assert log[1][1].endswith(
            "which does not state its labels. Check that their order is contradiction, "
            "entailment, neutral."
        )


@pytest.mark.parametrize("dialect", ["google", "hugging_face"])
def test_a_regression_head_has_no_labels_to_check(saved, caplog, dialect):
    labels = {"labels": ["score"]} if dialect == "hugging_face" else {}
    checkpoint, source = saved(labels, dialect, classifier(1))
    facts = {"task": "sts-b", "task_type": "regression", "labels": []}
    model = bert_tf.BertClassifier(CONFIG, num_labels=1, seed=2)
    log = initialized(
        checkpoint, source, True, facts, caplog, init_head=True, model=model
    )
    assert [level for level, _ in log] == ["INFO", "INFO"]


@pytest.mark.parametrize("dialect", ["bert-tf", "hugging_face"])
def test_init_head_refuses_other_labels(saved, dialect):
    checkpoint, _ = saved(MNLI, dialect)
    model = bert_tf.BertClassifier(CONFIG, num_labels=3, seed=2)
    before = arrays(model)
    message = (
        "^The head of .* is needed, but it has the labels contradiction, entailment, "
        "neutral, but the task has neutral, entailment, contradiction in another "
        "order. Give the checkpoint of "
    )
    with pytest.raises(bert_tf.InputError, match=message):
        checkpoint.initialize_task(
            model, {**MNLI, "labels": MNLI["labels"][::-1]}, True
        )
    for name, array in arrays(model).items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("init_head", [None, True])
def test_a_fact_that_the_checkpoint_does_not_state_is_accepted(
    saved, caplog, init_head
):
    """A checkpoint of a classifier of which only the task and the labels were stored."""
    stored = {"task": "mnli", "labels": MNLI["labels"]}
    checkpoint, source = saved(stored)
    facts = {**MNLI, "task_type": "classification"}
    initialized(checkpoint, source, True, facts, caplog, init_head)
    if init_head:
        facts = {**MNLI, "task_type": "multi_label"}
        with pytest.raises(
            bert_tf.InputError, match="a model for classification, not for multi"
        ):
            initialized(checkpoint, source, True, facts, caplog, init_head)


def test_the_head_of_a_checkpoint_without_labels_is_random(saved, caplog):
    checkpoint, source = saved({"task": "mnli"})
    log = initialized(checkpoint, source, False, MNLI, caplog)
    assert log[1][1].endswith(
        "does not state its labels (init_head=True uses its head)."
    )


def test_a_hugging_face_folder_does_not_state_the_task_type(saved, caplog):
    labels = ["x", "y", "z"]
    checkpoint, source = saved({"labels": labels}, "hugging_face")
    facts = {
        "task": "custom",
        "task_type": "multi_label",
        "labels": labels,
        "pair": False,
    }
    initialized(checkpoint, source, True, facts, caplog, init_head=True)


def test_init_head_refuses_other_shapes_and_missing_heads(saved):
    facts = {"task": "rte", "labels": ["entailment", "not_entailment"]}
    model = bert_tf.BertClassifier(CONFIG, num_labels=2, seed=2)
    checkpoint, _ = saved({}, "google")
    message = r"output_weights has the shape \[3, 4\] in .*, but \[2, 4\] in the model\. Use the"
    with pytest.raises(bert_tf.InputError, match=message):
        checkpoint.initialize_task(model, facts, init_head=True)
    checkpoint, _ = saved({}, model=bert_tf.BertPretrainer(CONFIG))
    message = "The head of .* is needed, but it has no weights for a BertClassifier"
    with pytest.raises(bert_tf.InputError, match=message):
        checkpoint.initialize_task(model, facts, init_head=True)
    # A head of another kind is not used, although its shapes agree.
    checkpoint, _ = saved({}, model=bert_tf.BertSpanPredictor(CONFIG))
    with pytest.raises(bert_tf.InputError, match="has no weights for a BertClassifier"):
        checkpoint.initialize_task(model, facts, init_head=True)


@pytest.mark.parametrize("kind", [bert_tf.BertClassifier, bert_tf.BertTagger])
def test_a_head_of_ambiguous_kind_is_that_of_the_model(saved, caplog, tmp_path, kind):
    """`architectures` does not tell whether the head classifies texts or tokens."""
    source = kind(CONFIG, num_labels=3, seed=1)
    facts = {"task": "any", "labels": ["a", "b", "c"]}
    saved(facts, "hugging_face", source)
    config = json.loads((tmp_path / "hugging_face/config.json").read_text())
    config["architectures"] = ["BertModel"]
    (tmp_path / "hugging_face/config.json").write_text(json.dumps(config))
    checkpoint = bert_tf.load(tmp_path / "hugging_face")
    model = kind(CONFIG, num_labels=3, seed=2)
    initialized(checkpoint, arrays(source), False, facts, caplog, model=model)
    log = initialized(
        checkpoint, arrays(source), True, facts, caplog, init_head=True, model=model
    )
    assert [level for level, _ in log] == ["INFO", "INFO"]


def test_missing_weights_of_the_encoder_are_reported(saved, caplog, tmp_path):
    """A Hugging Face folder without a pooler."""
    import safetensors.numpy

    saved(MNLI, "hugging_face")
    file = tmp_path / "hugging_face/model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    kept = {name: array for name, array in tensors.items() if "pooler" not in name}
    safetensors.numpy.save_file(kept, file)
    bert_tf.load(tmp_path / "hugging_face").initialize_task(classifier(), MNLI)
    message = "left as initialized: bert/pooler/dense/kernel, bert/pooler/dense/bias."
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert record.getMessage().endswith(message)
