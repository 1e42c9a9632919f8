"""`Trainer` in a program of a user: it leaves alone everything that is global."""

import functools
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading

import keras
import linear_runs as runs
import pytest
from tiny_bert import small_config

from bert_tf.errors import TrainingInterrupted
from bert_tf.pretraining.pretraining_objective import make_objective
from bert_tf.tasks.classification.sources.glue_tasks import GLUE_TASKS
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.run_folder import RunFolder
from bert_tf.training.trainer import Trainer
from bert_tf.training.training_config import RuntimeConfig

EXAMPLE = textwrap.dedent(inspect.getdoc(Trainer).split("Example:\n")[1])
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

PROGRAM = """
import csv, logging, os, random, signal, sys, threading, warnings
import keras, numpy as np, tensorflow as tf
from keras.src.random.seed_generator import global_seed_generator

def global_state():
    return {
        "random": random.getstate(),
        "numpy": [part.tolist() if hasattr(part, "tolist") else part
                  for part in np.random.get_state()],
        "tensorflow": [float(tf.random.uniform([])) for _ in range(3)],
        # Not drawn: before 3.13, set_random_seed does not reset Keras's generator.
        "keras": global_seed_generator().state.numpy().tolist(),
        "policy": keras.config.dtype_policy().name,
        "floatx": keras.config.floatx(),
        "signals": {number: signal.getsignal(number)
                    for number in signal.valid_signals()
                    if number not in (signal.SIGKILL, signal.SIGSTOP)},
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "handlers": logging.getLogger().handlers[:],
        "levels": {name: logging.getLogger(name).level
                   for name in ("", "bert_tf", "absl")},
        "soft placement": tf.config.get_soft_device_placement(),
        "jit": tf.config.optimizer.get_jit(),
        "threads": (tf.config.threading.get_inter_op_parallelism_threads(),
                    tf.config.threading.get_intra_op_parallelism_threads()),
        "eager": tf.config.functions_run_eagerly(),
        "strategy": tf.distribute.has_strategy(),
        "csv": csv.field_size_limit(),
    }

def run(name):
    folder = f"{sys.argv[2]}/{name}"
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    found = {}
    exec(sys.argv[1], found)
    slopes.append(found["slope"])

keras.config.set_dtype_policy("mixed_bfloat16")
slopes = []
keras.utils.set_random_seed(11)
expected = global_state()
for name in ("main", "thread", "main"):  # the third run finds a complete run
    keras.utils.set_random_seed(11)
    if name == "thread":
        thread = threading.Thread(target=run, args=(name,))
        thread.start()
        thread.join()
    else:
        run(name)
    found = global_state()
    for key, value in expected.items():
        assert found[key] == value, (key, value, found[key])
assert slopes == [slopes[0]] * 3 and abs(slopes[0] - 3) < 0.1, slopes
assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
"""


def in_new_process(program, *arguments):
    """Runs a program that configures no logging.

    Returns its output to stdout and stderr.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, [
        line for line in done.stderr.splitlines() if not is_tensorflows(line)
    ]


def is_tensorflows(line):
    """Returns whether TensorFlow wrote the line before it read the log level."""
    return line.startswith("WARNING: All log messages before absl") or line[:6] in (
        "I0000 ", "W0000 ", "E0000 ",
    )  # fmt: skip


def test_the_example_prints_nothing_and_changes_no_global_state(tmp_path):
    assert in_new_process(PROGRAM, EXAMPLE, tmp_path) == ("", [])


def handlers():
    return [signal.getsignal(number) for number in STOP_SIGNALS]


@pytest.fixture
def own_handlers():
    """Installs handlers as a user's program has, and returns the list of calls."""
    calls = []
    before = handlers()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda number, _: calls.append(number))
    yield calls
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)


def train_with(folder, held_out, stop_on_signals, **changes):
    """Trains 20 steps with a checkpoint every 7, and evaluates every 10."""
    runtime = RuntimeConfig(
        save_checkpoints_steps=7, eval_steps=10, stop_on_signals=stop_on_signals
    )
    trainer = runs.make_trainer(folder, runtime=runtime, **changes)
    runs.train(trainer, held_out=HeldOutData({"eval": held_out}))
    return runs.weights(trainer)


def one_batch():
    return runs.data().take(1)


def send(number):
    os.kill(os.getpid(), number)
    return one_batch()


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_signals_reach_the_handlers_of_the_caller(tmp_path, own_handlers, number):
    before = handlers()
    train_with(tmp_path, functools.partial(send, number), stop_on_signals=False)
    assert own_handlers == [number] * 2  # one for each of the two evaluations
    assert handlers() == before
    assert RunFolder(str(tmp_path)).latest_checkpoint().endswith("step-00000020")


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_requested_handlers_are_removed_again(tmp_path, own_handlers, number):
    before = handlers()
    with pytest.raises(TrainingInterrupted) as stopped:
        train_with(tmp_path, functools.partial(send, number), stop_on_signals=True)
    assert (stopped.value.signal_number, stopped.value.step) == (number, 10)
    assert handlers() == before and own_handlers == []

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_with(tmp_path, fail, stop_on_signals=True)
    assert handlers() == before


def test_a_second_signal_has_its_normal_effect(tmp_path, own_handlers):
    def send_twice():
        send(signal.SIGINT)
        return send(signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        train_with(tmp_path, send_twice, stop_on_signals=True)
    assert own_handlers == [signal.SIGINT]


def test_a_run_that_ctrl_c_ended_resumes_from_its_last_checkpoint(tmp_path):
    """Without handlers of the engine, Python raises KeyboardInterrupt at once."""
    expected = train_with(tmp_path / "whole", one_batch, stop_on_signals=False)
    parts = tmp_path / "parts"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        train_with(parts, functools.partial(send, signal.SIGINT), stop_on_signals=False)
    assert not [
        each for each in threading.enumerate() if "checkpoint_writer" in each.name
    ]
    assert os.listdir(parts / "checkpoints") == ["step-00000007"]
    assert RunFolder(str(parts)).latest_checkpoint().endswith("step-00000007")
    resumed = train_with(parts, one_batch, stop_on_signals=False)
    runs.assert_same(resumed, expected)


CONFIG = small_config(20)
FACTORIES = {
    "pretraining": functools.partial(
        make_objective, CONFIG, "mlm_nsp", RuntimeConfig()
    ),
    "classification": functools.partial(GLUE_TASKS["cola"].make_objective, CONFIG),
}


@pytest.fixture
def float32_policy():
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("kind", FACTORIES)
def test_seed_and_precision_come_from_the_training_config_only(
    tmp_path, kind, float32_policy
):
    def initial(global_seed, policy, **changes):
        keras.utils.set_random_seed(global_seed)
        keras.config.set_dtype_policy(policy)
        trainer = runs.make_trainer(tmp_path, FACTORIES[kind], **changes)
        assert keras.config.dtype_policy().name == policy
        return trainer

    first, same, other = (
        initial(1, "float32", seed=3),
        initial(2, "mixed_float16", seed=3),
        initial(1, "float32", seed=4),
    )
    runs.assert_same(same, first)
    kernel = "bert/encoder/layer_1/output/dense/kernel"
    assert (runs.weights(other)[kernel] != runs.weights(first)[kernel]).any()
    half = initial(1, "float32", precision="bfloat16")
    for trainer, dtype in ((first, "float32"), (same, "float32"), (half, "bfloat16")):
        objective = trainer.objective
        computed = {layer.compute_dtype for layer in objective.model._flatten_layers()}
        assert computed == {dtype}
        assert {variable.dtype for variable in objective.variables.values()} == {
            "float32"
        }
