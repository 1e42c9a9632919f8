"""Training replaces no file that no run has written, with and without overwrite."""

import json
import shutil

import linear_runs as runs
import pytest
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.tasks import record_files
from bert_tf.tasks.squad import ensemble
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.training.lifecycle.run_folder import RunFolder

REPLACED = "would be replaced, but .* contains no run of bert-tf"
# A row: the file of another program, its content, the message.
FOREIGN = [
    ("eval/events.out.tfevents.1.host", "events", REPLACED),
    ("training_config.json", '{"mine": 1}', REPLACED),
    ("checkpoints/step-00000007/model.bin", "weights", REPLACED),
    ("metrics.jsonl", "{}", REPLACED),
    ("bert_config.json", '{"mine": 1}', REPLACED),
    ("model.safetensors", "weights", REPLACED),
    ("bert_model.ckpt.index", "weights", REPLACED),
]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("name", "content", "message"), FOREIGN, ids=lambda value: value[:30])
def test_files_of_other_programs_are_not_replaced(tmp_path, name, content, message, overwrite):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=message):
        runs.run(tmp_path, overwrite=overwrite)
    path = tmp_path / "run.lock"
    assert {key: value for key, value in contents(tmp_path).items() if key != path} == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_no_run_starts_in_a_checkpoint_of_another_run(tmp_path, overwrite):
    runs.run(tmp_path / "first")
    checkpoint = tmp_path / "first/checkpoints/step-00000020"
    before = contents(checkpoint)
    with pytest.raises(InputError, match="belongs to the run in"):
        runs.run(checkpoint, overwrite=overwrite)
    shutil.copytree(checkpoint, tmp_path / "copy")  # such as a checkpoint that a user published
    with pytest.raises(InputError, match="would be replaced"):
        runs.run(tmp_path / "copy", overwrite=overwrite)
    assert before.items() <= contents(checkpoint).items()


def test_hidden_files_of_the_user_are_kept(tmp_path):
    names = (".notes.20240101.tmp", ".predictions.jsonl.backup.tmp")
    for name in names:
        (tmp_path / name).write_text("mine")
    runs.run(tmp_path)
    runs.run(tmp_path, overwrite=True)
    assert [(tmp_path / name).read_text() for name in names] == ["mine", "mine"]


def test_a_run_without_its_settings_file_is_resumed_only_with_equal_settings(tmp_path):
    runs.run(tmp_path)
    (tmp_path / "training_config.json").unlink()
    with pytest.raises(InputError, match=r"contains a run with learning_rate=0\.1, but this run"):
        runs.run(tmp_path, learning_rate=0.2)
    runs.run(tmp_path)
    assert json.loads((tmp_path / "training_config.json").read_text())["learning_rate"] == 0.1


def test_record_files_of_other_programs_are_not_replaced(tmp_path):
    path = tmp_path / "train.tf_record"
    path.write_bytes(b"mine")
    before = contents(tmp_path)
    records = record_files.RecordFile("none", None)
    with pytest.raises(InputError, match="would be replaced, but no run has written it"):
        record_files.move(records, str(path))
    assert contents(tmp_path) == before


def test_an_average_removes_the_files_of_an_earlier_average(tmp_path):
    (tmp_path / "nbest.json").write_text('{"1": [{"text": "a", "probability": 0.5}]}')
    data = {"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "1", "question": "q"}]}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(data))
    for name in ensemble.OUTPUTS:
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text("old")
    ensemble.average(
        [str(tmp_path / "nbest.json")], str(tmp_path / "out"), AnswerSettings(),
        str(tmp_path / "dev.json"),
    )  # fmt: skip
    found = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert "predictions.json" in found and "old" not in found.values()


def test_event_files_in_other_folders_do_not_matter(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train/data.tsv").write_text("mine")
    (tmp_path / "events.out.tfevents.1.host").write_text("mine")
    runs.run(tmp_path)
    runs.run(tmp_path, overwrite=True)
    assert (tmp_path / "train/data.tsv").read_text() == "mine"
    assert len(tf.io.gfile.glob(f"{tmp_path}/events*")) == 1


def test_a_worker_accepts_settings_that_the_chief_writes_meanwhile(tmp_path, monkeypatch):
    worker, chief = (runs.run_folder(tmp_path) for _ in range(2))
    contains_run = RunFolder._contains_run

    def contains_no_run_yet(folder):
        monkeypatch.setattr(RunFolder, "_contains_run", contains_run)
        chief.start_run(runs.training_config())
        return False

    monkeypatch.setattr(RunFolder, "_contains_run", contains_no_run_yet)
    worker.check_same_run(runs.training_config())
