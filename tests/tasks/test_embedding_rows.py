"""Reading pairs of texts, and their records."""

import json

import numpy as np
import pytest
from refusals import refused, refused_with
from squad_data import tokenizers
from tiny_bert import small_config

from bert_tf.tasks.embedding.embedding_settings import EmbeddingSettings
from bert_tf.tasks.embedding.embedding_task import EmbeddingTask
from bert_tf.tasks.embedding.text_rows import EMPTY, PairColumns, TextRow
from bert_tf.tasks.splits import DataLocation, RowCounts, share_of
from bert_tf.tasks.task import TaskInputs
from bert_tf.training.training_config import RunPhases

COLUMNS = PairColumns("question", "answer")
SCORED = PairColumns("s1", "s2", score="score")
NEGATIVES = PairColumns("question", "answer", ("n1", "n2"))


def read(path, columns, kind="train", **settings):
    """Returns the texts and scores of a file, and the counts of unusual rows."""
    task = EmbeddingTask(columns, EmbeddingSettings(**settings))
    (split,) = task.splits(kind, DataLocation(**{f"{kind}_file": str(path)}))
    counts = RowCounts()
    return [(each.texts, each.score) for each in task.read(split, counts)], counts


def test_pairs_have_the_texts_of_their_columns(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("id\tanswer\tquestion\n1\tin Rome\twhere?\n2\tann\twho?\n")
    rows, counts = read(path, COLUMNS)
    assert rows == [(("where?", "in Rome"), None), (("who?", "ann"), None)]
    assert not counts


def test_an_empty_negative_is_missing(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('question,answer,n1,n2\nwho?,ann,"bob, here",\nwhere?,rome,,oslo\n')
    rows, _ = read(path, NEGATIVES)
    assert [texts for texts, _ in rows] == [
        ("who?", "ann", "bob, here", ""),
        ("where?", "rome", "", "oslo"),
    ]


def test_scores_are_divided_by_the_largest_one(tmp_path):
    path = tmp_path / "train.jsonl"
    lines = [{"s1": "a", "s2": "b", "score": 5}, {"s1": "c", "s2": "a", "score": 1.5}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    rows, _ = read(path, SCORED, max_score=5)
    assert rows == [(("a", "b"), 1.0), (("c", "a"), 0.3)]
    with refused_with(
        "line 1", "the score 5 divided by max_score=4 is 1.25", "max_score"
    ):
        read(path, SCORED, max_score=4)


def test_the_real_file_of_sts_b_is_read_as_it_is(test_data):
    path = test_data / "data/glue/STS-B/train.tsv"
    columns = PairColumns("sentence1", "sentence2", score="score")
    rows, counts = read(path, columns, max_score=5)
    assert len(rows) == 5749 and not counts
    assert rows[1][0][0] == "A man is playing a large flute."
    assert rows[1][1] == 3.8 / 5


def test_rows_with_an_empty_text_are_counted(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("question\tanswer\nwho?\t \nwhere?\trome\n")
    rows, counts = read(path, COLUMNS)
    assert len(rows) == 1 and counts == {EMPTY: 1}


def test_a_test_file_may_lack_scores_and_second_texts(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("s1\ts2\nwho?\tann\n")
    assert read(path, SCORED, "test")[0] == [(("who?", "ann"), None)]
    path.write_text("s1\nwho?\n")
    assert read(path, SCORED, "test")[0] == [(("who?", ""), None)]
    with refused_with("s2", "text_b_column"):
        read(path, SCORED)


def test_each_row_of_a_test_file_is_kept(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("question\tanswer\nwho?\t \nwhere?\trome\n")
    rows, counts = read(path, COLUMNS, "test")
    assert [texts for texts, _ in rows] == [("who?", " "), ("where?", "rome")]
    assert not counts


def test_a_part_of_the_train_file_has_all_rows_of_its_first_texts(tmp_path):
    path = tmp_path / "train.tsv"
    rows = [
        f"text {number % 40}\tanswer {number}\t{number % 5}" for number in range(200)
    ]
    path.write_text("\n".join(["s1\ts2\tscore", *rows]) + "\n")
    task = EmbeddingTask(SCORED, EmbeddingSettings(max_score=5))
    location = DataLocation(train_file=str(path), eval_fraction=0.3)
    parts = {}
    for kind in ("train", "dev"):
        (split,) = task.splits(kind, location)
        parts[kind] = {each.texts[0] for each in task.read(split, RowCounts())}
    assert parts["dev"] == {
        f"text {n}" for n in range(40) if share_of(f"text {n}") < 0.3
    }
    assert not parts["train"] & parts["dev"]
    assert len(parts["train"] | parts["dev"]) == 40


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"loss": "cosent"}, COLUMNS, "loss=cosent needs scores"),
        (
            {"loss": "contrastive"},
            SCORED,
            "loss=contrastive needs pairs without scores",
        ),
    ],
)
def test_a_loss_that_does_not_fit_the_data_is_refused(settings, columns, message):
    with refused(message):
        EmbeddingSettings(**settings).loss_of(columns.score is not None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": 0}, "scale must be above 0"),
        ({"max_score": -1}, "max_score must be above 0"),
        ({"dimensions": (8, 0)}, "dimensions must be sizes of vectors"),
        ({"dimensions": ("8", "x")}, "Received: '8,x'"),
        ({"pooling": "max"}, "pooling"),
        ({"loss": "triplet"}, "loss"),
    ],
)
def test_settings_are_checked(settings, message):
    with refused_with(message):
        EmbeddingSettings(**settings)


def test_columns_must_differ():
    with refused_with("must differ", "a, b, a"):
        PairColumns("a", "b", ("a",))
    with refused_with("score_column and negative_columns"):
        PairColumns("a", "b", ("c",), "d")


def encoded(texts, columns=NEGATIVES, length=8, **settings):
    task = EmbeddingTask(columns, EmbeddingSettings(**settings))
    tokenizer = tokenizers(True)[0]
    found = task.encode([TextRow(each) for each in texts], tokenizer, length)
    return found, tokenizer


def test_each_text_is_a_sequence_after_its_prompt():
    found, tokenizer = encoded(
        [("the cat", "un", "", "a b")], prompt_a="who ", prompt_b="steve "
    )
    ids = found.columns["input_ids"][0]  # [C, S]
    words = ("who the cat", "steve un", None, "steve a b")
    for row, text in zip(ids, words, strict=True):
        expected = (
            tokenizer.encode([text], seq_length=8)["input_ids"][0] if text else [0] * 8
        )
        np.testing.assert_array_equal(row, expected)
    np.testing.assert_array_equal(found.columns["input_mask"][0].sum(1), [5, 4, 0, 5])


def test_keys_are_equal_if_and_only_if_the_tokens_are():
    found, _ = encoded(
        [("The cat", "the CAT", "", "cat the"), ("a", "the cat", "a", "b")]
    )
    keys = [tuple(key) for key in found.columns["text_keys"].reshape(-1, 2).tolist()]
    names = ["cat", "cat", "", "reverse", "a", "cat", "a", "b"]
    assert len(set(zip(keys, names, strict=True))) == len(set(keys)) == len(set(names))
    assert keys[2] == (0, 0) and (0, 0) not in keys[:2]
    assert max(map(max, keys)) < 1 << 31


def test_long_and_empty_texts_are_counted():
    found, _ = encoded(
        [("a " * 7, "b"), ("a " * 6, "b"), ("\u200b", "b")], COLUMNS, length=8
    )
    assert found.counts == {"truncated": 1, "with an empty text": 1}


def test_no_examples_give_no_records():
    found, _ = encoded([])
    assert found.columns["input_ids"].shape == (0, 4, 8)
    assert found.columns["text_keys"].shape == (0, 4, 2)


FACTS = {"pooling": "first", "prompts": {"query": "q: ", "passage": "p: "}}
TRAINED = {
    "embedding": {"pooling": "first", "normalize": True, "dimensions": [4]},
    "loss": ["contrastive", 10.0, True, 64],
}


def prepared(given, **facts):
    inputs = TaskInputs(
        DataLocation(), RunPhases(True, True), None, 8, global_batch_size=16, **facts
    )
    return EmbeddingTask(COLUMNS, EmbeddingSettings(**given)).prepare(inputs)


@pytest.mark.parametrize(
    ("given", "facts", "expected"),
    [
        ({}, {}, ("mean", "", "")),
        ({}, FACTS, ("first", "q: ", "p: ")),
        ({"pooling": "mean", "prompt_a": ""}, FACTS, ("mean", "", "p: ")),
        ({"prompt_b": "x"}, {}, ("mean", "", "x")),
        ({"pooling": "mean"}, {"problem": "has max pooling"}, ("mean", "", "")),
    ],
)
@pytest.mark.parametrize("kind", ["initial", "trained"])
def test_pooling_and_prompts_are_those_of_the_model_unless_given(
    given, facts, expected, kind
):
    settings = prepared(given, **{kind: {"embedding": facts}}).settings
    assert (settings.pooling, settings.prompt_a, settings.prompt_b) == expected


def test_an_unknown_pooling_is_refused():
    with refused_with("has max pooling", "pooling=mean"):
        prepared({}, initial={"embedding": {"problem": "has max pooling"}})


def test_without_training_the_loss_is_that_of_the_training():
    task = prepared({}, trained=TRAINED)
    settings = task.settings
    assert (settings.scale, settings.both_directions, task.batch_size) == (10, True, 64)
    assert settings.dimensions == (4,)
    # The model is trained further, with the settings of the new run.
    task = prepared({}, initial=TRAINED)
    assert (task.settings.scale, task.batch_size) == (20, 16)


def test_a_teacher_keeps_its_pooling_and_must_read_the_same_texts():
    task, config = prepared({}), small_config(9)
    facts = {"embedding": {"pooling": "first"}}
    assert task.of_teacher(facts, config, config).settings.pooling == "first"
    with refused_with("The teacher has the prompts", "'q: '"):
        task.of_teacher({"embedding": FACTS}, config, config)
    with refused_with("The vectors of the teacher have 16 values", "the model 8"):
        task.of_teacher({}, small_config(9, hidden_size=16), config)


def test_cuts_larger_than_the_vectors_are_refused():
    task = EmbeddingTask(COLUMNS, EmbeddingSettings(dimensions=(4, 16)))
    with refused_with("8 values", "16", "at most 8"):
        task._loss(8)
    assert task._loss(32).sizes == (32, 4, 16)


def test_rows_are_written_with_the_names_of_their_columns():
    row = TextRow(("a", "b"), 0.5, SCORED)
    assert row.as_row() == {"s1": "a", "s2": "b", "score": 0.5}


def test_elements_of_lists_are_columns(tmp_path):
    # The form of FlagEmbedding.
    path = tmp_path / "train.jsonl"
    rows = [
        {"query": "who?", "pos": ["ann", "anna"], "neg": ["bob", "tim"]},
        {"query": "where?", "pos": ["rome"], "neg": ["oslo"]},
        {"query": "when?", "pos": [], "neg": ["now"]},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = PairColumns("query", "pos[0]", ("neg[0]", "neg[1]"))
    found, counts = read(path, columns)
    assert found == [
        (("who?", "ann", "bob", "tim"), None),
        (("where?", "rome", "oslo", ""), None),
    ]
    assert counts == {EMPTY: 1}
    with refused_with("line 1", "'pos' has a list", "pos[0]"):
        read(path, PairColumns("query", "pos"))
    with refused_with("line 1", "'query' has no list"):
        read(path, PairColumns("query[0]", "pos[0]"))
