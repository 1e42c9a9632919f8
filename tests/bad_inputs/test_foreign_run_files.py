"""Training replaces no file that no run has written, with and without overwrite."""

import linear_runs as runs
import pytest
from json_files import read_json, write_json
from refusals import refused
from squad_data import data_of, paragraph_of

from bert_tf.runs import record_files
from bert_tf.tasks.squad import ensemble
from bert_tf.tasks.squad.best_answers import AnswerSettings

# Files of another program.
FOREIGN = [
    "eval/events.out.tfevents.1.host",
    "training_config.json",
    "checkpoints/step-00000007/model.bin",
    "metrics.jsonl",
    "bert_config.json",
    "model.safetensors",
    "bert_model.ckpt.index",
]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_programs_are_not_replaced(tmp_path, name, overwrite):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"mine": 1}')
    before = contents(tmp_path)
    with refused("would be replaced, but .* contains no run of bert-tf"):
        runs.run(tmp_path, overwrite=overwrite)
    (tmp_path / "run.lock").unlink(missing_ok=True)
    assert contents(tmp_path) == before


def test_files_that_no_run_writes_are_kept(tmp_path):
    names = (".notes.20240101.tmp", ".predictions.jsonl.backup.tmp", "train/data.tsv",
             "events.out.tfevents.1.host")  # fmt: skip
    (tmp_path / "train").mkdir()
    for name in names:
        (tmp_path / name).write_text("mine")
    runs.run(tmp_path)
    runs.run(tmp_path, overwrite=True)
    assert {(tmp_path / name).read_text() for name in names} == {"mine"}


def test_a_run_without_its_settings_file_is_resumed_only_with_equal_settings(tmp_path):
    runs.run(tmp_path)
    (tmp_path / "training_config.json").unlink()
    with refused(r"contains a run with learning_rate=0\.1, but this run"):
        runs.run(tmp_path, learning_rate=0.2)
    runs.run(tmp_path)
    assert read_json(tmp_path / "training_config.json")["learning_rate"] == 0.1


def test_record_files_of_other_programs_are_not_replaced(tmp_path):
    path = tmp_path / "train.tf_record"
    path.write_bytes(b"mine")
    before = contents(tmp_path)
    records = record_files.RecordFile("none", None)
    with refused("would be replaced, but no run has written it"):
        record_files.move(records, str(path))
    assert contents(tmp_path) == before


def test_an_average_removes_the_files_of_an_earlier_average(tmp_path):
    (tmp_path / "nbest.json").write_text('{"1": [{"text": "a", "probability": 0.5}]}')
    write_json(tmp_path / "dev.json", data_of(paragraph_of("a b", ("1", "q"))))
    for name in ensemble.OUTPUTS:
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text("old")
    ensemble.average(
        [str(tmp_path / "nbest.json")], str(tmp_path / "out"), AnswerSettings(),
        str(tmp_path / "dev.json"),
    )  # fmt: skip
    found = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert "predictions.json" in found and "old" not in found.values()
