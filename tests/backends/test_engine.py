"""The training engine on JAX, compared with TensorFlow from equal weights."""

import dataclasses
import functools
import json
import signal
import subprocess
import sys

import backend_runs
import keras
import linear_runs
import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import assert_close_arrays
from linear_runs import log_entries
from numpy.testing import assert_allclose
from refusals import refused_with

from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="set KERAS_BACKEND=jax"
)
TAGGING = {"task": "tagging"}
DROPOUT = {
    "model": {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
}
# The pooler of a tagger is unused, the word embeddings are only looked up, and the
# norm of the gradients is above `clip_norm`.
SPARSE = {**TAGGING, "training": {"clip_norm": 0.05, "weight_decay_rate": 0.5}}
# Runs on both backends, and the largest difference relative to the largest weight.
RUNS = {
    "released": ({}, 1e-5),
    "sparse": (SPARSE, 1e-5),
    "adamw": (
        {
            "training": {
                "optimizer": "adamw",
                "adam_beta_1": 0.8,
                "adam_beta_2": 0.99,
                "schedule": "cosine",
                "num_train_steps": 15,
            },
            "runtime": {"stop_at_step": 12, "deterministic": True},
        },
        1e-5,
    ),
    "lamb": (
        {"training": {"optimizer": "lamb", "schedule": "linear", "clip_norm": 0.1}},
        1e-5,
    ),
    "averaged": (
        {
            **TAGGING,
            "training": {
                "layer_decay": 0.7,
                "ema_decay": 0.8,
                "schedule": "constant",
                "num_warmup_steps": 0,
            },
        },
        1e-5,
    ),
    "lora": ({"task": "lora"}, 1e-5),
    "contrastive": (
        {"task": "contrastive", "runtime": {"gradient_accumulation_steps": 4}},
        1e-5,
    ),
    "cosent": ({"task": "cosent", "runtime": {"gradient_accumulation_steps": 2}}, 1e-5),
    "in_parts": (
        {"runtime": {"gradient_accumulation_steps": 4, "recompute": True}},
        1e-5,
    ),
    "bfloat16": ({"training": {"precision": "bfloat16"}}, 2e-2),
    "float16": ({**TAGGING, "training": {"precision": "float16"}}, 2e-2),
    "evaluated": (
        {
            **TAGGING,
            "runtime": {
                "eval_steps": 4,
                "early_stopping_evals": 2,
                "iterations_per_loop": 3,
                "save_checkpoints_steps": 6,
                "keep_checkpoints": 1,
            },
        },
        1e-5,
    ),
}


# What differs on JAX.
ON_JAX = {"cosent": {"devices": 8}}
# Fields that all runs set, that have tests of their own, or that have no effect on JAX:
# jit_compile, because each step is compiled, and the names of a TPU.
NOT_IN_RUNS = {
    *("seed", "global_batch_size", "learning_rate", "data", "log_steps"),
    *("time_budget_secs", "debug_nans", "profile_steps"),
    *("stop_on_signals", "distribution_strategy", "num_gpus"),
    *("coordinator_address", "num_processes", "process_id"),
    *("jit_compile", "tpu_name", "tpu_zone", "gcp_project"),
}
# The runs of `--all`; `--slow` executes the others too.
FAST = ("released", "sparse")
# A run, and the numbers of devices and of accumulation steps of a run with its result.
LAYOUTS = [("1x2", (8, 2)), ("1x2", (2, 2)), ("whole", (8, 1))]
MOVES = [("tensorflow", "jax"), ("jax", "tensorflow")]


def moved(folder, first, steps):
    """The run "released" on a backend, stopped after 6 steps and resumed on the other."""
    return {
        "folder": folder / f"{first}_moved",
        "runtime": {"stop_at_step": steps},
        "weights": str(folder / "pretraining/weights.npz"),
    }


def divided(folder, devices, parts):
    """A run with dropout on several devices, in several accumulation steps."""
    runtime = {"gradient_accumulation_steps": parts}
    name = f"{devices}x{parts}"
    return {**DROPOUT, "folder": folder / name, "devices": devices, "runtime": runtime}


def stopped(folder, name, steps, **settings):
    """A run with dropout, of which the next run of this name resumes the newest checkpoint."""
    runtime = {"stop_at_step": steps, "save_checkpoints_steps": 4}
    return {**DROPOUT, "folder": folder / name, "runtime": runtime, **settings}


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """A folder with the runs of all tests but those of kills, in few processes."""
    folder = tmp_path_factory.mktemp("engine")
    is_slow = request.config.option.tier == "slow"
    names, layouts = (RUNS, LAYOUTS) if is_slow else (FAST, LAYOUTS[:1])

    def specs(backend):
        for name in names:
            spec, _ = RUNS[name]
            weights = folder / spec.get("task", "pretraining") / "weights.npz"
            special = ON_JAX.get(name, {}) if backend == "jax" else {}
            run = {"folder": folder / backend / name, "weights": str(weights)}
            yield {**spec, **special, **run}

    # The initial weights, which all runs with `weights` have.
    tasks = dict.fromkeys(RUNS[name][0].get("task", "pretraining") for name in names)
    first = [{"folder": folder / task, "task": task, "steps": 4} for task in tasks]
    codes = [
        backend_runs.start(
            "tensorflow",
            [
                *first,
                *specs("tensorflow"),
                moved(folder, "tensorflow", 6),
            ],
        ),
        backend_runs.start(
            "jax",
            [
                *specs("jax"),
                moved(folder, "tensorflow", 12),
                moved(folder, "jax", 6),
                stopped(folder, "whole", 12),
                # The numbers of steps in a call differ.
                stopped(folder, "stopped", 5),
                stopped(folder, "stopped", 12),
                divided(folder, 1, 2),
                *(divided(folder, *each) for _, each in layouts),
            ],
        ),
        backend_runs.start("tensorflow", [moved(folder, "jax", 12)]),
    ]
    assert codes == [0, 0, 0]
    return folder


def relative(array_dict):
    """Returns a difference of 1e-5 of the largest weight."""
    return 1e-5 * max(abs(array).max() for array in array_dict.values())


def weights(folder):
    return dict(np.load(folder / "weights.npz"))


def losses(folder, kind="train"):
    return [entry["loss"] for entry in log_entries(folder, kind)]


@pytest.mark.medium
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in FAST else pytest.mark.slow)
        for name in RUNS
    ],
)
def test_twelve_steps_are_those_of_tensorflow(folder, name):
    found, expected = (folder / backend / name for backend in ("jax", "tensorflow"))
    tolerance = RUNS[name][1]
    largest = max(abs(array).max() for array in weights(expected).values())
    assert_close_arrays(weights(found), weights(expected), tolerance * largest)
    highest = max(losses(expected))
    for kind in ("train", "eval"):
        values = losses(expected, kind)
        assert_allclose(losses(found, kind), values, 0, tolerance * highest)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("one", "layout"),
    [
        LAYOUTS[0],
        *(pytest.param(*each, marks=pytest.mark.slow) for each in LAYOUTS[1:]),
    ],
)
def test_dropout_does_not_depend_on_the_number_of_devices(folder, one, layout):
    expected, found = folder / one, folder / "{}x{}".format(*layout)
    assert_close_arrays(weights(found), weights(expected), relative(weights(expected)))
    assert_allclose(losses(found), losses(expected), 1e-5)


@pytest.mark.medium
@pytest.mark.parametrize(("first", "second"), MOVES)
def test_a_run_resumes_on_the_other_backend(folder, first, second):
    found, whole = folder / f"{first}_moved", folder / first / "released"
    assert_close_arrays(weights(found), weights(whole), relative(weights(whole)))
    assert_allclose(losses(found), losses(whole), 1e-5)
    path = found / "checkpoints/step-00000012/runtime_config.json"
    settings = json.loads(path.read_text())
    assert settings.get("backend", "tensorflow") == second


def same_checkpoint(found, expected):
    # The saved position of the data also has the batches that tf.data read in advance.
    for name in ("model.safetensors", "optimizer.safetensors"):
        path = f"checkpoints/step-00000012/{name}"
        assert (found / path).read_bytes() == (expected / path).read_bytes()


@pytest.mark.medium
def test_a_resumed_run_has_the_same_bytes(folder):
    same_checkpoint(folder / "stopped", folder / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["step", "checkpoint", "evaluation"])
def test_a_killed_run_resumes_to_the_same_bytes(folder, tmp_path, moment):
    code = backend_runs.start("jax", [stopped(tmp_path, "killed", 12, kill=moment)])
    assert code == -signal.SIGKILL
    assert backend_runs.start("jax", [stopped(tmp_path, "killed", 12)]) == 0
    same_checkpoint(tmp_path / "killed", folder / "whole")


def test_the_step_and_the_objectives_do_not_import_tensorflow():
    modules = [
        "training.jax_step.step_runner",
        "pretraining.pretraining_objective",
        "tasks.classification.objectives",
    ]
    imports = "".join(f"import bert_tf.{name}\n" for name in modules)
    program = f"import sys\nsys.modules['tensorflow'] = None\n{imports}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_runs_set_each_field_that_defines_a_result():
    given = {
        name
        for spec, _ in RUNS.values()
        for settings in ("training", "runtime")
        for name in spec.get(settings, ())
    }
    fields = {
        field.name
        for config in (TrainingConfig, RuntimeConfig)
        for field in dataclasses.fields(config)
    }
    assert fields - given == NOT_IN_RUNS


class InTensorFlow(linear_runs.Regression):
    """An objective that calls TensorFlow."""

    def __init__(self, place, **options):
        super().__init__(**options)
        self.place = place
        self.root = keras.layers.Lambda(tf.sqrt) if place == "layer" else tf.sqrt

    def counts(self, batch):
        add = tf.reduce_sum if self.place == "counts" else keras.ops.sum
        return {"weight": add(batch["w"])}

    def sums(self, batch, training, seed=None):
        return {"loss": self.root(self.layer(batch["x"])).sum()}


@pytest.mark.parametrize("place", ["layer", "sums", "counts"])
def test_an_objective_that_calls_tensorflow_is_named(tmp_path, place):
    make_objective = functools.partial(InTensorFlow, place)
    trainer = linear_runs.make_trainer(tmp_path, make_objective)
    with refused_with("InTensorFlow calls TensorFlow", "Use keras.ops in place of tf"):
        linear_runs.train(trainer)


def test_a_time_budget_ends_for_each_number_of_steps(tmp_path):
    """41 / 41 is less than 1 if XLA multiplies by the inverse."""
    changes = {"num_train_steps": 41, "time_budget_secs": 0.2}
    trainer = linear_runs.make_trainer(tmp_path, **changes)
    assert linear_runs.train(trainer) > 0
    assert log_entries(tmp_path)[-1]["time_budget_used"] == 1.0


class Recomputed(linear_runs.Regression):
    """An objective whose layer is computed again in the backward pass."""

    def sums(self, batch, training, seed=None):
        values = keras.remat(self.layer)(batch["x"])[:, 0] - batch["y"]
        return {"loss": keras.ops.sum(values**2)}


def test_debug_nans_stops_at_the_bad_step(tmp_path):
    """The step runs alone, and layers that JAX traces have no values to check."""
    batches = (
        linear_runs.data()
        .enumerate()
        .map(
            lambda step, batch: {
                **batch,
                "y": tf.where(step == 3, np.float32(np.nan), batch["y"]),
            }
        )
    )
    runtime = RuntimeConfig(debug_nans=True, iterations_per_loop=100)
    trainer = linear_runs.make_trainer(tmp_path, Recomputed, runtime)
    with refused_with("The gradient of step 4 is not finite"):
        linear_runs.train(trainer, batches)


def test_an_error_in_the_data_keeps_the_weights(tmp_path):
    dataset = linear_runs.data().take(3)
    trainer = linear_runs.make_trainer(tmp_path, runtime=RuntimeConfig())
    with pytest.raises(StopIteration):
        linear_runs.train(trainer, dataset)
    assert np.isfinite(linear_runs.weights(trainer)["kernel"]).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"num_processes": 2, "process_id": 0},
        {"distribution_strategy": "multi_worker_mirrored", "num_processes": 2},
        {
            "distribution_strategy": "multi_worker_mirrored",
            "num_processes": 2,
            "process_id": 2,
        },
    ],
)
def test_wrong_numbers_of_processes_are_refused(changes):
    with refused_with("a process_id from 0 to num_processes - 1"):
        RuntimeConfig(**changes)
