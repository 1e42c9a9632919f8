"""`Pretrained.initialize_task`: the head of a fine-tuned model, and the reason in the log."""

import logging

import numpy as np
import pytest
from golden_checkpoints import assert_same_arrays, edit_json
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
# A classifier, unless a test saves another model.
LABELS = {"labels": MNLI["labels"]}
REGRESSION = {"task": "sts-b", "task_type": "regression", "labels": []}
DEFAULT_NAMES = {"labels": ["LABEL_0", "LABEL_1", "LABEL_2"]}
NEW_HEAD = "The head starts with random weights: "
UNKNOWN_ORDER = (
    "which does not state its labels. Check that their order is contradiction, "
    "entailment, neutral."
)


def model_of(kind="classifier", seed=1):
    """A model with the head of one kind.

    The bias of a classifier is not 0, unlike that of a new one.
    """
    if kind == "span":
        return bert_tf.BertSpanPredictor(CONFIG, seed=seed)
    if kind == "pretraining":
        return bert_tf.BertPretrainer(CONFIG, seed=seed)
    num_labels = {"classifier": 3, "two labels": 2, "regression": 1}[kind]
    model = bert_tf.BertClassifier(CONFIG, num_labels=num_labels, seed=seed)
    model.head.output_bias.assign(np.arange(seed, num_labels + seed))
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
    """Returns a function that saves a model, and returns the checkpoint and the weights."""

    def save(facts, dialect="bert-tf", model=None):
        model = model or model_of()
        path = bert_tf.save_checkpoint(
            model, None, tmp_path / dialect, dialect, **facts
        )
        return bert_tf.load(path), arrays(model)

    return save


# The facts and the kind of the saved model, its dialect, the facts of the task,
# init_head, whether the head is kept, and the reason that is logged. {} stands for the
# path.
ROWS = {
    "the same task": (
        {**MNLI, "max_seq_length": 6}, "classifier", "bert-tf",
        {**MNLI, "labels": tuple(MNLI["labels"]), "task_type": "classification"}, None, True,
        "The head is that of {}, because the task and the labels are equal.",
    ),
    # The shapes agree.
    "another task": (MNLI, "classifier", "bert-tf", {**MNLI, "task": "snli"}, None, False,
                     f"{NEW_HEAD}{{}} is of task 'mnli', not of 'snli'."),
    "another order": (
        MNLI, "classifier", "bert-tf",
        {**MNLI, "labels": ["entailment", "neutral", "contradiction"]}, None, False,
        f"{NEW_HEAD}{{}} has the labels contradiction, entailment, neutral, but the task has "
        "entailment, neutral, contradiction in another order.",
    ),
    "another type": (
        MNLI, "classifier", "bert-tf", {**MNLI, "task_type": "multi_label"}, None, False,
        f"{NEW_HEAD}{{}} is a model for classification, not for multi_label.",
    ),
    "single texts": (
        MNLI, "classifier", "bert-tf", {**MNLI, "pair": False}, None, False,
        f"{NEW_HEAD}{{}} is a model for pairs of texts, not for single texts.",
    ),
    "two of three labels": (
        {"task": "custom", "labels": ["x", "y"]}, "two labels", "bert-tf",
        {"task": "custom", "labels": ["a", "b", "c"]}, None, False,
        f"{NEW_HEAD}{{}} has the labels x, y, but the task has a, b, c.",
    ),
    **{
        f"no task in {dialect}": (
            MNLI, "classifier", dialect, MNLI, None, False,
            f"{NEW_HEAD}{{}} does not state its task (init_head=True uses its head).",
        )
        for dialect in ("google", "hugging_face")
    },
    "no labels": ({"task": "mnli"}, "classifier", "bert-tf", MNLI, None, False,
                  f"{NEW_HEAD}{{}} does not state its labels (init_head=True uses its head)."),
    **{
        f"pretraining in {dialect}": ({}, "pretraining", dialect, MNLI, None, False,
                                      f"{NEW_HEAD}{{}} has no weights for it.")
        for dialect in ("bert-tf", "google", "hugging_face")
    },
    # As from TriviaQA to SQuAD: there are no labels, and the task has the same name.
    "spans": ({"task": "squad"}, "span", "bert-tf", {"task": "squad"}, None, True,
              "The head is that of {}, because the task is equal."),
    "other task, but init_head": (MNLI, "classifier", "bert-tf", {**MNLI, "task": "snli"}, True,
                                  True, "The head is that of {}."),
    "no init_head": (MNLI, "classifier", "bert-tf", MNLI, False, False,
                     f"{NEW_HEAD}init_head=False was given."),
    # google-research/bert stores no labels, and LABEL_0 is a default name of transformers.
    "labels of google": (MNLI, "classifier", "google", MNLI, True, True,
                         f"WARNING The head is that of {{}}, {UNKNOWN_ORDER}"),
    "labels of transformers": (DEFAULT_NAMES, "classifier", "hugging_face", MNLI, True, True,
                               f"WARNING The head is that of {{}}, {UNKNOWN_ORDER}"),
    # A regression head has no labels to check.
    "regression of google": ({}, "regression", "google", REGRESSION, True, True,
                             "The head is that of {}."),
    "regression of transformers": ({"labels": ["score"]}, "regression", "hugging_face", REGRESSION,
                                   True, True, "The head is that of {}."),
    # A fact that the checkpoint does not state is accepted.
    **{
        f"no type, init_head={init_head}": (
            {"task": "mnli", **LABELS}, "classifier", "bert-tf",
            {**MNLI, "task_type": "classification"}, init_head, True, reason,
        )
        for init_head, reason in (
            (None, "The head is that of {}, because the task and the labels are equal."),
            (True, "The head is that of {}."),
        )
    },
    "no type in transformers": (
        {"labels": ["x", "y", "z"]}, "classifier", "hugging_face",
        {"task": "custom", "task_type": "multi_label", "labels": ["x", "y", "z"], "pair": False},
        True, True, "The head is that of {}.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_head_of_a_checkpoint_is_kept_or_random_with_a_reason(saved, caplog, row):
    stated, kind, dialect, facts, init_head, is_kept, reason = row
    checkpoint, source = saved(stated, dialect, model_of(kind))
    new_kind = kind if kind in ("span", "regression") else "classifier"
    model = model_of(new_kind, seed=2)
    log = initialized(checkpoint, source, is_kept, facts, caplog, init_head, model)
    path = checkpoint.facts["source"]
    level, message = ("INFO", reason)
    if reason.startswith("WARNING "):
        level, _, message = reason.partition(" ")
    # The encoder has 39 weights: 5 of the embeddings, 16 in each of 2 layers, 2 of the
    # pooler.
    assert log == [
        ("INFO", f"{path}: {41 if is_kept else 39} weights read."),
        (level, message.format(path)),
    ]


# The facts, the dialect and the kind of the saved model, the facts of the task, and the
# message.
REVERSED = {**MNLI, "labels": MNLI["labels"][::-1]}
OTHER_ORDER = (
    "^The head of .* is needed, but it has the labels contradiction, entailment, "
    "neutral, but the task has neutral, entailment, contradiction in another order. "
    "Give the checkpoint of "
)
TWO = {"task": "rte", "labels": ["entailment", "not_entailment"]}
REFUSED = [
    (MNLI, "bert-tf", "classifier", REVERSED, OTHER_ORDER),
    (MNLI, "hugging_face", "classifier", REVERSED, OTHER_ORDER),
    ({"task": "mnli", **LABELS}, "bert-tf", "classifier", {**MNLI, "task_type": "multi_label"},
     "a model for classification, not for multi"),
    ({}, "google", "classifier", TWO,
     r"output_weights has the shape \[3, 4\] in .*, but \[2, 4\] in the model\. Use the"),
    ({}, "bert-tf", "pretraining", TWO,
     "The head of .* is needed, but it has no weights for a BertClassifier"),
    # A head of another kind is not used, although its shapes agree.
    ({}, "bert-tf", "span", TWO, "has no weights for a BertClassifier"),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "dialect", "kind", "facts", "message"), REFUSED)
def test_init_head_refuses_another_head(saved, stated, dialect, kind, facts, message):
    checkpoint, _ = saved(stated, dialect, model_of(kind))
    model = model_of("two labels" if facts is TWO else "classifier", seed=2)
    before = arrays(model)
    with pytest.raises(bert_tf.InputError, match=message):
        checkpoint.initialize_task(model, facts, init_head=True)
    assert_same_arrays(arrays(model), before)


@pytest.mark.parametrize("kind", [bert_tf.BertClassifier, bert_tf.BertTagger])
def test_a_head_of_ambiguous_kind_is_that_of_the_model(saved, caplog, tmp_path, kind):
    """`architectures` does not tell whether the head classifies texts or tokens."""
    source = kind(CONFIG, num_labels=3, seed=1)
    facts = {"task": "any", "labels": ["a", "b", "c"]}
    saved(facts, "hugging_face", source)
    edit_json(tmp_path / "hugging_face/config.json", architectures=["BertModel"])
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
    bert_tf.load(tmp_path / "hugging_face").initialize_task(model_of(), MNLI)
    message = "left as initialized: bert/pooler/dense/kernel, bert/pooler/dense/bias."
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert record.getMessage().endswith(message)
