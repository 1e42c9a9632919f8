"""A second run in the folder of a run is refused; SIGHUP ends a run as SIGTERM does."""

import os
import pathlib
import signal

import linear_runs as runs
import pytest
from json_files import write_json
from refusals import refused

from bert_tf.errors import TrainingInterrupted
from bert_tf.storage import locks
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.stop_signals import record_stop_signals
from bert_tf.training.trainer import TrainingData
from bert_tf.training.training_config import RuntimeConfig


def test_a_second_run_is_refused_until_the_first_one_ends(tmp_path):
    first, second = RunFolder(str(tmp_path)), runs.make_trainer(tmp_path)
    with first.locked(), first.locked():
        before = sorted(os.listdir(tmp_path))
        with refused(r"Another run is training or .*another output_dir"):
            runs.train(second)
        assert sorted(os.listdir(tmp_path)) == before == ["run.lock"]
    runs.train(runs.make_trainer(tmp_path))
    assert RunFolder(str(tmp_path)).latest_checkpoint()


def test_a_run_that_started_before_the_end_of_another_one_is_refused(tmp_path):
    early = runs.make_trainer(tmp_path)
    runs.train(runs.make_trainer(tmp_path))
    with refused(r"Checkpoints were written in .* after this run started"):
        runs.train(early)


def test_a_folder_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, caplog):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    runs.train(runs.make_trainer(tmp_path))
    assert "cannot be locked. Do not start a second program" in caplog.text
    with (
        RunFolder(f"ram://{tmp_path}").locked(),
        RunFolder(f"ram://{tmp_path}").locked(),
    ):
        pass


def test_an_evaluation_does_not_replace_files_of_others(tmp_path):
    (tmp_path / "predictions.jsonl").write_text("mine")
    (tmp_path / "bert_config.json").write_text("not replaced")
    folder = RunFolder(str(tmp_path), outputs=["predictions.jsonl"])
    with refused(r"predictions.jsonl would be replaced"):
        folder.check_same_run()
    (tmp_path / "run.lock").touch()  # as after an evaluation
    folder.check_same_run()


@pytest.mark.parametrize("name", ["best", "checkpoints", "checkpoints/step-00000020"])
def test_a_run_in_a_folder_of_another_run_is_refused(tmp_path, name, monkeypatch):
    runs.run(tmp_path)
    (tmp_path / "best").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / name)
    for path in (tmp_path / name, pathlib.Path(".")):
        with refused(f"belongs to the run in {tmp_path}. Give another"):
            runs.run(path)


def test_a_lock_file_that_another_run_removes_is_created_again(tmp_path, monkeypatch):
    real, path = locks.try_lock, tmp_path / "run/run.lock"

    def remove_first(file):
        monkeypatch.setattr(locks, "try_lock", real)
        path.unlink()
        path.parent.rmdir()
        return real(file)

    monkeypatch.setattr(locks, "try_lock", remove_first)
    with RunFolder(str(tmp_path / "run")).locked():
        assert path.exists()
        with (
            refused("Another run"),
            RunFolder(str(path.parent)).locked(),
        ):
            pass


@pytest.mark.parametrize("place", ["checkpoints/mine", "checkpoints/step-00000001"])
def test_overwrite_keeps_files_of_others(tmp_path, place):
    runs.run(tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.txt").write_text("mine")
    (tmp_path / "run" / place).symlink_to("../../mine")
    (tmp_path / "run/checkpoints/notes.txt").write_text("mine")
    runs.run(tmp_path / "run", overwrite=True)
    assert (tmp_path / "mine/a.txt").read_text() == "mine"
    assert (tmp_path / "run/checkpoints/notes.txt").read_text() == "mine"


def test_an_equal_config_is_accepted(tmp_path):
    write_json(tmp_path / "bert_config.json", runs.CONFIG)
    runs.run(tmp_path)


@pytest.fixture
def set_sighup():
    """Sets the handling of SIGHUP for a test."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


def test_sighup_saves_a_checkpoint_and_ends_the_run(tmp_path, set_sighup):
    set_sighup(signal.SIG_DFL)
    trainer = runs.make_trainer(
        tmp_path,
        runtime=RuntimeConfig(stop_on_signals=True, save_checkpoints_steps=1000),
    )

    def remaining(step):
        os.kill(os.getpid(), signal.SIGHUP)
        return runs.data()

    with pytest.raises(
        TrainingInterrupted, match="SIGHUP stopped training at step"
    ) as stopped:
        trainer.train(TrainingData(remaining))
    assert stopped.value.signal_number == signal.SIGHUP
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    assert len(RunFolder(str(tmp_path)).checkpoints()) == (stopped.value.step > 0)


def test_sighup_stays_ignored_under_nohup(set_sighup):
    set_sighup(signal.SIG_IGN)
    with record_stop_signals(True) as received:
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGHUP)
    assert received == []
    set_sighup(signal.SIG_DFL)
    with record_stop_signals(True) as received:
        os.kill(os.getpid(), signal.SIGHUP)
    assert received == [signal.SIGHUP]
