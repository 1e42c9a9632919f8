"""The reports of a run: the cost of a step before the first, and TensorBoard events."""

import json
import pathlib
import types

import event_files
import linear_runs as runs
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from bert_tf.storage import atomic_files
from bert_tf.training import summaries
from bert_tf.training.step.step_result import StepResult
from bert_tf.training.summaries import Summaries, log_step_cost
from bert_tf.training.training_config import RuntimeConfig


def test_tensorboard_reads_texts_and_hyperparameters(tmp_path):
    writer = Summaries(str(tmp_path), 0)
    values = {
        "learning_rate": 1e-4,
        "init_checkpoint": None,
        "data": {"S": 64},
        "jit": True,
    }
    writer.write_hyperparameters(values)
    writer.write("train", 10, {"loss": 2.5})
    writer.write_text("eval", 10, "samples", "the **cat**")
    writer.flush()
    train = EventAccumulator(str(tmp_path / "train")).Reload()
    eval_ = EventAccumulator(str(tmp_path / "eval")).Reload()
    (event,) = eval_.Tensors("samples")
    assert "samples" in eval_.PluginTagToContent("text")
    assert (event.step, event.tensor_proto.string_val[0]) == (10, b"the **cat**")
    plugin = train.PluginTagToContent("hparams")
    started = plugin_data_pb2.HParamsPluginData.FromString(
        plugin["_hparams_/session_start_info"]
    ).session_start_info.hparams
    assert started["learning_rate"].number_value == 1e-4
    assert started["init_checkpoint"].string_value == ""
    assert started["data.S"].number_value == 64
    assert started["jit"].bool_value is True
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"step": 10, "kind": "train", "loss": 2.5}


def test_the_cost_of_a_step_is_logged(caplog):
    caplog.set_level("INFO", "bert_tf")
    memory = {
        "weights": 440e6,
        "moments": 880e6,
        "gradients": 540e6,
        "activations": 9e9,
    }
    weight = types.SimpleNamespace(shape=(110_106_428, 1))
    objective = types.SimpleNamespace(variables={"w": weight})
    rates = log_step_cost(objective, 4096, 2_700_000_000_000, memory)
    assert rates == {"tokens_per_sec": 4096}
    assert caplog.messages[0].splitlines() == [
        "110,106,428 parameters; 4,096 tokens and 2.7 TFLOP per step",
        "estimated memory on each device: 10.9 GB (weights 440 MB, moments 880 MB, "
        "gradients 540 MB, activations 9.0 GB)",
    ]


def test_a_profile_is_written(tmp_path):
    runs.train(runs.make_trainer(tmp_path, runtime=RuntimeConfig(profile_steps=(3, 5))))
    assert list(tmp_path.rglob("*.xplane.pb"))


def result_of(steps):
    return StepResult(
        steps, {"loss": 2.0 * steps}, {"weight": 1.0 * steps}, {}, 0, np.zeros([0, 2])
    )


def test_the_rates_of_the_steps_do_not_include_tracing_and_evaluation(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(summaries.time, "monotonic", lambda: clock[0])
    objective = runs.Regression(0, "float32")
    accumulator = summaries.MetricAccumulator(objective, {"tokens_per_sec": 64})
    clock[0] += 8.0
    accumulator.add(result_of(1), secs=8.0)  # traces the graph
    assert "tokens_per_sec" not in accumulator.values()
    clock[0] += 2.0
    accumulator.add(result_of(4), secs=2.0)
    values = accumulator.values()
    assert values["loss"] == 2.0
    assert values["tokens_per_sec"] == 4 * 64 / 2
    assert values["tokens_per_sec_wall_clock"] == 5 * 64 / 10
    accumulator.clear()
    clock[0] += 6.0  # an evaluation
    clock[0] += 2.0
    accumulator.add(result_of(4), secs=2.0)
    values = accumulator.values()
    assert values["tokens_per_sec"] == 4 * 64 / 2
    assert values["tokens_per_sec_wall_clock"] == 4 * 64 / 8


def test_later_entries_of_a_killed_run_are_removed(tmp_path):
    killed = Summaries(str(tmp_path), 0)
    killed.write_hyperparameters({"seed": 1})
    for step in (20, 40, 60):
        killed.write("train", step, {"loss": 1.0 / step})
        killed.write("eval", step, {"loss": 2.0 / step})
        killed.write_text("eval", step, "samples", f"text {step}")
    killed.flush()
    (event_file,) = (tmp_path / "eval").glob("events.*")
    with open(event_file, "ab") as file:  # a part of an event
        file.write(b"\x10\0\0")
    left = atomic_files.temporary_path(str(event_file))
    pathlib.Path(left).write_bytes(event_file.read_bytes())
    others = tmp_path / "data/events.out.tfevents.1"
    others.parent.mkdir()
    others.write_bytes(b"a file of another program")
    resumed = Summaries(str(tmp_path), 40)
    resumed.write_hyperparameters({"seed": 1})
    resumed.write("train", 60, {"loss": 0.5})
    resumed.flush()
    hparams = "_hparams_/session_start_info"
    assert event_files.steps_by_tag(tmp_path / "train") == {
        hparams: [0],
        "loss": [20, 40, 60],
    }
    assert event_files.steps_by_tag(tmp_path / "eval") == {
        "loss": [20, 40],
        "samples": [20, 40],
    }
    assert [path.name for path in (tmp_path / "eval").iterdir()] == [event_file.name]
    shown = EventAccumulator(str(tmp_path / "train"), purge_orphaned_data=True).Reload()
    assert [event.step for event in shown.Tensors("loss")] == [20, 40, 60]
    assert [(entry["step"], entry["kind"]) for entry in runs.log_entries(tmp_path)] == [
        (20, "train"), (20, "eval"), (40, "train"), (40, "eval"), (60, "train"),
    ]  # fmt: skip
    assert others.read_bytes() == b"a file of another program"
