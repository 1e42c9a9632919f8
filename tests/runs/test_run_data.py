"""The data of a run: unknown tokens, skipped rows, numbers of steps, and baselines."""

import json
import logging

import pytest
from prepared import TRAIN, prepared, run_data
from refusals import refused, refused_with
from squad_data import answers_of, data_of, paragraph_of, tokenizers

from bert_tf.tasks.classification.sources.glue_tasks import glue_task
from bert_tf.tasks.ner.ner_task import NerTask
from bert_tf.tasks.results import TaskResults, with_baselines
from bert_tf.tasks.squad.squad_encoding import WindowSettings
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import DataLocation
from bert_tf.training.training_config import RunPhases


@pytest.mark.parametrize(
    ("text", "share", "warns"),
    [("zebra a zebra the", "50.00% of 8", True), ("a b c the", "0.00% of 8", False)],
)
def test_the_share_of_unknown_tokens_is_reported(tmp_path, caplog, text, share, warns):
    (tmp_path / "train.tsv").write_text(f"sentence\tlabel\n{text}\t0\n{text}\t1\n")
    for reuses in (False, True):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            run_data(glue_task("sst-2"), tmp_path).write_all_records()
        warnings = [
            each.message for each in caplog.records if each.levelname == "WARNING"
        ]
        assert (f"{share} tokens are [UNK]" in caplog.text) == (not reuses)
        assert len(warnings) == warns
        assert not warns or "4 of 8 tokens of train" in warnings[0]


@pytest.mark.parametrize(
    ("length", "steps"), [(16, 2), (3, 3)]
)  # 3: a window for each word
def test_epochs_of_named_entities_count_windows(tmp_path, length, steps):
    (tmp_path / "train.conll").write_text("a\tS-b-c\n\nb\tB-A\nc\tE-A\n\nd\tX-Y\n")
    location = DataLocation(data_dir=str(tmp_path))
    task = prepared(NerTask(), location, TRAIN, tokenizers(True)[0], length)
    data = run_data(task, tmp_path, length, num_train_epochs=1)
    assert data.num_steps(1)[0] == steps  # the last sentence is skipped
    assert data.num_steps(steps)[0] == 1


def conll(number, bad):
    return "".join(f"a B{'^' if n < bad else '-'}PER\n\n" for n in range(number))


def json_sentences(number, bad):
    rows = [
        {"tokens": ["a"], "tags": ["B^PER" if n < bad else "B-PER"]}
        for n in range(number)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def squad(number, bad):
    starts = [9 if n < bad else 0 for n in range(number)]
    questions = [
        (str(n), "b", answers_of("a", start=start)) for n, start in enumerate(starts)
    ]
    return json.dumps(data_of(paragraph_of("a b", *questions)))


def qqp(number, bad):
    rows = ["a\tb" if n < bad else "a\tb\t1" for n in range(number)]
    return "\n".join(["question1\tquestion2\tis_duplicate", *rows]) + "\n"


# For each reader that skips: the task, the name of the file, its content, and how a
# message names the first row that is skipped.
SKIPPING = {
    "columns": (NerTask(), "train.conll", conll, ("train.conll, line 1", "'B^PER'")),
    "sentences": (
        NerTask(),
        "train.jsonl",
        json_sentences,
        ("train.jsonl, line 1", "'B^PER'"),
    ),
    "questions": (
        SquadTask(windows=WindowSettings(max_query_length=8)),
        "train-v1.1.json",
        squad,
        ("train-v1.1.json: data[0].paragraphs[0].qas[0]", "('a', 9)"),
    ),
    "pairs": (
        glue_task("qqp"),
        "train.tsv",
        qqp,
        ("train.tsv, line 2", "'is_duplicate'"),
    ),
}


@pytest.mark.parametrize("name", SKIPPING)
def test_the_share_of_skipped_rows_decides(tmp_path, caplog, name):
    """10 % and less are reported, more give a warning, over a half stop the run."""
    task, file, content, first = SKIPPING[name]

    def read(number, bad, **options):
        (tmp_path / file).write_text(content(number, bad))
        location = DataLocation(data_dir=str(tmp_path), **options)
        done = prepared(task, location, TRAIN, tokenizers(True)[0], 16)
        data = run_data(done, tmp_path, 16, location=location)
        data.write_all_records()
        return data.notes["train_data"].get("warnings", [])

    with caplog.at_level(logging.INFO):
        assert read(10, 1) == []
    assert all(part in caplog.text for part in first)
    assert "warning" not in caplog.text

    for _ in range(2):  # the second time, the records exist
        (warning,) = read(10, 5)
        assert "50.0% of the rows of train" in warning
        assert all(part in warning for part in first)

    with refused_with("60.0% of the rows", "allow_skipped=True", *first):
        read(10, 6)
    assert len(read(10, 6, allow_skipped=True)) == 1


def test_a_file_without_questions_is_refused(tmp_path):
    task, file, content, _ = SKIPPING["questions"]
    (tmp_path / file).write_text(content(0, 0))
    task = prepared(task, None, TRAIN, tokenizers(True)[0], 16)
    with refused(r"The train split in \S*train-v1\.1\.json has no examples\. Give"):
        run_data(task, tmp_path, 16)


def test_nothing_is_written_before_all_splits_are_read(tmp_path):
    (tmp_path / "train.tsv").write_text("sentence\tlabel\na\t0\nb\t1\n")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\na\t0\nb\t2\n")
    with refused(r"dev.tsv, line 3"):
        run_data(glue_task("sst-2"), tmp_path, phases=RunPhases(True, True))
    assert not (tmp_path / "out").exists()


def test_metrics_are_next_to_their_baselines():
    class Results(TaskResults):
        def metrics(self):
            return {"accuracy": 0.75, "matthews_correlation": 0.5, "loss": 1.0}

        def baseline(self):
            return {"accuracy": 0.5, "matthews_correlation": 0.0, "f1": 0.3}

    assert with_baselines(Results()) == {
        "accuracy": 0.75,
        "matthews_correlation": 0.5,
        "loss": 1.0,
        "accuracy_baseline": 0.5,
    }
