"""What a run reports: events as TensorBoard reads them, the block before the first step."""

import json
import os
import time

import linear_runs as runs
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from bert_tf.training import peak
from bert_tf.training.config import RuntimeConfig
from bert_tf.training.preflight import Cost, preflight
from bert_tf.training.summaries import Summaries

MEMORY = {"weights": 440e6, "moments": 880e6, "gradients": 540e6, "activations": 9e9}
COST = Cost(parameters=110_106_428, tokens=4096, flops=2_700_000_000_000, memory=MEMORY)
FIRST = "110,106,428 parameters; 4,096 tokens and 2.7 TFLOP a step"
SECOND = (
    "memory on each device, estimated: 10.9 GB (weights 440 MB, moments 880 MB, gradients 540 MB, "
    "activations 9.0 GB)"
)


def test_texts_and_hyperparameters_are_where_tensorboard_looks(tmp_path):
    summaries = Summaries(str(tmp_path), 0)
    values = {"learning_rate": 1e-4, "init_checkpoint": None, "data": {"S": 64}, "jit": True}
    summaries.write_hyperparameters(values)
    summaries.write("train", 10, {"loss": 2.5})
    summaries.write_text("eval", 10, "samples", "the **cat**")
    summaries.flush()
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


def test_what_fits_is_said_in_three_lines():
    assert preflight(COST, "CPU", 24_000_000_000, 8e11, precision="bfloat16").splitlines() == [
        FIRST,
        SECOND,
        "CPU: 24.0 GB available; matrix products at 800 GFLOP/s in bfloat16: a step takes 3.4 s at "
        "least",
    ]


def test_replicas_share_a_step():
    text = preflight(COST, "NVIDIA H200", None, 6.75e14, replicas=4, precision="bfloat16")
    assert text.splitlines()[2:] == [
        "4 x NVIDIA H200: matrix products at 675 TFLOP/s in bfloat16: a step takes 1 ms at least"
    ]
    assert preflight(COST, "CPU", None).splitlines()[2] == "CPU"


@pytest.mark.parametrize(
    ("available", "given", "last"),
    [
        (12e9, {}, "What helps: --gradient_accumulation_steps=2 or more, --recompute, a smaller "
         "--train_batch_size, --precision=bfloat16."),
        (12e9, {"precision": "bfloat16", "recompute": True},
         "What helps: --gradient_accumulation_steps=2 or more, a smaller --train_batch_size."),
        (2e9, {}, "weights, moments and gradients alone take 1.9 GB. Take a smaller model or a "
         "device with more memory."),
    ],
)  # fmt: skip
def test_what_would_not_fit_is_said_with_what_helps(available, given, last):
    lines = preflight(COST, "CPU", int(available), **given).splitlines()
    assert len(lines) == 4
    assert lines[3].startswith("This will probably not fit") and lines[3].endswith(last)


def test_the_peak_is_that_of_products():
    matrix = np.ones((2048, 2048), np.float32)
    start = time.perf_counter()
    matrix @ matrix
    plain = 2 * 2048**3 / (time.perf_counter() - start)
    # The machine may be busy with other things meanwhile.
    assert plain / 10 < peak.matmul_flops_per_sec("float32") < plain * 100


def test_memory_is_that_of_the_machine():
    name, available = peak.device_memory()
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert name == "CPU" or tf.config.list_physical_devices("GPU")
    assert 0 < available <= total


def test_memory_of_gpus_is_what_their_tool_says(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '143771\\n81559\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert peak._gpu_bytes() == 81559 * 2**20


def test_a_profile_is_written(tmp_path):
    runs.trainer(tmp_path, runtime=RuntimeConfig(profile_steps=(3, 5))).train(runs.data())
    assert list(tmp_path.rglob("*.xplane.pb"))
