"""Training replaces no file that no run has written, with and without overwrite."""

import json
import shutil

import linear_runs as runs
import pytest
import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.pretraining.pretraining_config import PretrainingRecords
from bert_tf.run_scripts import quickstart
from bert_tf.run_scripts.sweeps.plan import make_plan
from bert_tf.tasks import record_files
from bert_tf.tasks.squad import ensemble
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.training.config import TrainingConfig, to_json_dict
from bert_tf.training.lifecycle.run_folder import RunFolder

REPLACED = "would be replaced, but .* contains no run of bert-tf"
MIXED = "which is not of a run in this folder"
# A row: the file of another program, its content, the message.
FOREIGN = [
    ("train/events.out.tfevents.1.host", "events", MIXED),
    ("eval/events.out.tfevents.1.host", "events", MIXED),
    ("training_config.json", '{"mine": 1}', REPLACED),
    ("training_config.json", '["mine"]', REPLACED),
    ("training_config.json", "no JSON", REPLACED),
    ("training_config.json", '{"learning_rate": 1}', REPLACED),
    ("checkpoints/step-00000007/model.bin", "weights", REPLACED),
    ("metrics.jsonl", "{}", REPLACED),
    ("best/model.bin", "weights", REPLACED),
    ("bert_config.json", '{"mine": 1}', REPLACED),
    ("weights.json", "{}", MIXED),
    ("model.safetensors", "weights", MIXED),
    ("bert_model.ckpt.index", "weights", MIXED),
    ("model.ckpt-20.index", "weights", MIXED),
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


@pytest.mark.parametrize("path", ["", "http://host/run", "file:///run"])
def test_impossible_folders_are_refused(path):
    with pytest.raises(InputError) as error:
        RunFolder(path)
    assert "\n" not in str(error.value)


def test_settings_of_another_type_are_refused(tmp_path):
    with pytest.raises(InputError, match="overwrite must be True or False"):
        RunFolder(str(tmp_path), overwrite="false")
    with pytest.raises(InputError, match="must be JSON values, such as text"):
        to_json_dict(TrainingConfig(num_train_steps=1, num_warmup_steps=0, data={"file": tmp_path}))
    assert not list(tmp_path.iterdir())


def test_the_shuffle_buffer_is_bounded():
    """TensorFlow ends the process if it cannot allocate the buffer."""
    PretrainingRecords(["a"], [], 8, 2, shuffle_buffer_size=1 << 24)
    with pytest.raises(InputError, match="shuffle_buffer_size must be from 1 to 16777216"):
        PretrainingRecords(["a"], [], 8, 2, shuffle_buffer_size=(1 << 24) + 1)


@pytest.mark.parametrize("index", [None, b"", b"mine", b"0" * 64 + b"mine"])
def test_record_files_of_other_programs_are_not_replaced(tmp_path, index):
    path = tmp_path / "train.tf_record"
    path.write_bytes(b"mine")
    if index is not None:
        (tmp_path / "train.tf_record.index").write_bytes(index)
    before = contents(tmp_path)
    records = record_files.RecordFile("none", None)
    with pytest.raises(InputError, match="would be replaced, but no run has written it"):
        record_files.move(records, str(path))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["stages/act1.txt", "stages/vocabulary.json/mine", "speed/mine"])
def test_the_quickstart_replaces_no_files_of_others(tmp_path, name):
    for path in (tmp_path / name, tmp_path / "vocab.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    with pytest.raises(InputError, match=r"would be replaced, but .* contains no quickstart"):
        quickstart.check_output_dir(str(tmp_path))


@pytest.mark.parametrize("name", ["data_dir", "dev_file", "tfds_name", "labels", "task_name"])
def test_a_sweep_compares_runs_of_one_dev_split(tmp_path, name):
    with pytest.raises(InputError, match="compares runs of one task on one dev split"):
        make_plan([f"{name}=a,b"], 1, str(tmp_path), ["run_classifier"])


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


def test_the_settings_of_another_program_are_no_run(tmp_path):
    (tmp_path / "training_config.json").write_text('{"lr": 1}')
    runs.run(tmp_path / "checkpoints/mine")
    assert (tmp_path / "checkpoints/mine/training_config.json").exists()


def test_a_worker_accepts_settings_that_the_chief_writes_meanwhile(tmp_path, monkeypatch):
    worker, chief = (runs.run_folder(tmp_path) for _ in range(2))
    contains_run = RunFolder._contains_run

    def contains_no_run_yet(folder):
        monkeypatch.setattr(RunFolder, "_contains_run", contains_run)
        chief.start_run(runs.training_config())
        return False

    monkeypatch.setattr(RunFolder, "_contains_run", contains_no_run_yet)
    worker.check_same_run(runs.training_config())
