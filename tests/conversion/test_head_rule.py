"""`Pretrained.initialize_task`: the head of a model, and the reason in the log."""

import logging
from typing import NamedTuple

import numpy as np
import pytest
from golden_checkpoints import assert_same_arrays
from json_files import edit_json
from refusals import refused
from tiny_bert import small_config

import bert_tf
from bert_tf.modeling import arrays_by_name

CONFIG = small_config(
    7, hidden_size=4, max_position_embeddings=6, initializer_range=0.5
)
MNLI = {
    "task": "mnli",
    "labels": ["contradiction", "entailment", "neutral"],
    "pair": True,
}
LABELS = {"labels": MNLI["labels"]}
REGRESSION = {"task": "sts-b", "task_type": "regression", "labels": []}
NEW = "The head starts with random weights: "
UNKNOWN_ORDER = (
    "The head is that of {}, which does not state its labels. Check that their order "
    "is contradiction, entailment, neutral."
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


def initialized(checkpoint, source, is_kept, facts, caplog, init_head=None, model=None):
    """Initializes a model, compares its weights with those of `source`.

    Returns the log records.

    Args:
        is_kept: Whether the head must be that of `source`; otherwise, it must be
            unchanged.
    """
    model = model or bert_tf.BertClassifier(CONFIG, num_labels=3, seed=2)
    before = arrays_by_name(model)
    caplog.clear()
    with caplog.at_level(logging.INFO, "bert_tf"):
        checkpoint.initialize_task(model, facts, init_head)
    for name, array in arrays_by_name(model).items():
        expected = source if is_kept or name.startswith("bert/") else before
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
        if name.endswith("output_weights"):
            assert not np.array_equal(source.get(name), before[name])
    return [(r.levelname, r.getMessage()) for r in caplog.records]


@pytest.fixture
def saved(tmp_path):
    """Returns a function that saves a model and returns checkpoint and weights."""

    def save(facts, dialect="bert-tf", model=None):
        model = model or model_of()
        path = bert_tf.save_checkpoint(
            model, None, tmp_path / dialect, dialect, **facts
        )
        return bert_tf.load(path), arrays_by_name(model)

    return save


class Row(NamedTuple):
    """A saved model, a task, and whether its model gets the saved head.

    Attributes:
        stated: The facts that are saved with the model.
        facts: The facts of the task.
        reason: The message; {} stands for the path.
    """

    stated: dict
    facts: dict
    reason: str
    is_kept: bool = False
    init_head: bool | None = None
    dialect: str = "bert-tf"
    kind: str = "classifier"
    level: str = "INFO"


EQUAL = "The head is that of {}, because the task and the labels are equal."
GIVEN = "The head is that of {}."
ORDER = ["entailment", "neutral", "contradiction"]
XYZ = ["x", "y", "z"]
ROWS = {
    "same task": Row(
        {**MNLI, "max_seq_length": 6},
        {**MNLI, "labels": tuple(MNLI["labels"]), "task_type": "classification"},
        EQUAL,
        True,
    ),
    # The shapes agree.
    "other task": Row(
        MNLI, {**MNLI, "task": "snli"}, f"{NEW}{{}} is of task 'mnli', not of 'snli'."
    ),
    "other order": Row(
        MNLI,
        {**MNLI, "labels": ORDER},
        f"{NEW}{{}} has the labels contradiction, entailment, neutral, but the task "
        "has entailment, neutral, contradiction in another order.",
    ),
    "other type": Row(
        MNLI,
        {**MNLI, "task_type": "multi_label"},
        f"{NEW}{{}} is a model for classification, not for multi_label.",
    ),
    "single texts": Row(
        MNLI,
        {**MNLI, "pair": False},
        f"{NEW}{{}} is a model for pairs of texts, not for single texts.",
    ),
    "other number of labels": Row(
        {"task": "custom", "labels": ["x", "y"]},
        {"task": "custom", "labels": ["a", "b", "c"]},
        f"{NEW}{{}} has the labels x, y, but the task has a, b, c.",
        kind="two labels",
    ),
    **{
        f"no task in {dialect}": Row(
            MNLI,
            MNLI,
            f"{NEW}{{}} does not state its task (init_head=True uses its head).",
            dialect=dialect,
        )
        for dialect in ("google", "hugging_face")
    },
    "no labels": Row(
        {"task": "mnli"},
        MNLI,
        f"{NEW}{{}} does not state its labels (init_head=True uses its head).",
    ),
    **{
        f"pretraining in {dialect}": Row(
            {},
            MNLI,
            f"{NEW}{{}} has no weights for it.",
            dialect=dialect,
            kind="pretraining",
        )
        for dialect in ("bert-tf", "google", "hugging_face")
    },
    # As from TriviaQA to SQuAD: there are no labels, and the task has the same name.
    "spans": Row(
        {"task": "squad"},
        {"task": "squad"},
        "The head is that of {}, because the task is equal.",
        True,
        kind="span",
    ),
    "other task and init_head": Row(MNLI, {**MNLI, "task": "snli"}, GIVEN, True, True),
    "no init_head": Row(MNLI, MNLI, f"{NEW}init_head=False was given.", False, False),
    # google-research/bert stores no labels; LABEL_0 is a default of transformers.
    "labels of google": Row(
        MNLI, MNLI, UNKNOWN_ORDER, True, True, "google", level="WARNING"
    ),
    "default labels": Row(
        {"labels": ["LABEL_0", "LABEL_1", "LABEL_2"]},
        MNLI,
        UNKNOWN_ORDER,
        True,
        True,
        "hugging_face",
        level="WARNING",
    ),
    # A regression head has no labels to check.
    "regression of google": Row(
        {}, REGRESSION, GIVEN, True, True, "google", "regression"
    ),
    "regression of transformers": Row(
        {"labels": ["score"]},
        REGRESSION,
        GIVEN,
        True,
        True,
        "hugging_face",
        "regression",
    ),
    # A fact that the checkpoint does not state is accepted.
    **{
        f"no type, init_head={init_head}": Row(
            {"task": "mnli", **LABELS},
            {**MNLI, "task_type": "classification"},
            reason,
            True,
            init_head,
        )
        for init_head, reason in ((None, EQUAL), (True, GIVEN))
    },
    "no type in transformers": Row(
        {"labels": XYZ},
        {"task": "custom", "task_type": "multi_label", "labels": XYZ, "pair": False},
        GIVEN,
        True,
        True,
        "hugging_face",
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_head_of_a_checkpoint_is_kept_or_random_with_a_reason(saved, caplog, row):
    checkpoint, source = saved(row.stated, row.dialect, model_of(row.kind))
    kind = row.kind if row.kind in ("span", "regression") else "classifier"
    model = model_of(kind, seed=2)
    log = initialized(
        checkpoint, source, row.is_kept, row.facts, caplog, row.init_head, model
    )
    path = checkpoint.facts["source"]
    # The encoder has 39 weights: 5 of the embeddings, 16 in each of 2 layers, 2 of the
    # pooler.
    assert log == [
        ("INFO", f"{path}: {41 if row.is_kept else 39} weights read."),
        (row.level, row.reason.format(path)),
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
    ({"task": "mnli", **LABELS}, "bert-tf", "classifier",
     {**MNLI, "task_type": "multi_label"},
     "a model for classification, not for multi"),
    ({}, "google", "classifier", TWO,
     r"output_weights has the shape \[3, 4\] in .*, but \[2, 4\] in the model\."),
    ({}, "bert-tf", "pretraining", TWO,
     "The head of .* is needed, but it has no weights for a BertClassifier"),
    # A head of another kind is not used, although its shapes agree.
    ({}, "bert-tf", "span", TWO, "has no weights for a BertClassifier"),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "dialect", "kind", "facts", "message"), REFUSED)
def test_init_head_refuses_another_head(saved, stated, dialect, kind, facts, message):
    checkpoint, _ = saved(stated, dialect, model_of(kind))
    model = model_of("two labels" if facts is TWO else "classifier", seed=2)
    before = arrays_by_name(model)
    with refused(message):
        checkpoint.initialize_task(model, facts, init_head=True)
    assert_same_arrays(arrays_by_name(model), before)


@pytest.mark.parametrize("kind", [bert_tf.BertClassifier, bert_tf.BertTagger])
def test_a_head_of_ambiguous_kind_is_that_of_the_model(saved, caplog, tmp_path, kind):
    """`architectures` does not tell whether the head classifies texts or tokens."""
    source = kind(CONFIG, num_labels=3, seed=1)
    facts = {"task": "any", "labels": ["a", "b", "c"]}
    saved(facts, "hugging_face", source)
    edit_json(tmp_path / "hugging_face/config.json", architectures=["BertModel"])
    checkpoint = bert_tf.load(tmp_path / "hugging_face")
    model = kind(CONFIG, num_labels=3, seed=2)
    initialized(checkpoint, arrays_by_name(source), False, facts, caplog, model=model)
    log = initialized(
        checkpoint,
        arrays_by_name(source),
        True,
        facts,
        caplog,
        init_head=True,
        model=model,
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
