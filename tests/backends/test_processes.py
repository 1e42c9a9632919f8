"""Two processes on JAX: the result of one, also after a stop signal and a kill."""

import signal

import backend_runs
import keras
import layout_runs
import numpy as np
import pytest
import tiny_corpus
from golden_checkpoints import assert_close_arrays
from linear_runs import log_entries
from numpy.testing import assert_allclose

from bert_tf import record_format

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="set KERAS_BACKEND=jax"
    ),
]
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A file with the examples of `layout_runs`."""
    path = tmp_path_factory.mktemp("records") / "records.tfrecord"
    examples = record_format.encode(layout_runs.columns(), record_format.PRETRAINING)
    return tiny_corpus.write_records(path, examples)


@pytest.fixture(scope="module")
def whole(records, tmp_path_factory):
    """The run of one process with eight devices."""
    folder = tmp_path_factory.mktemp("whole")
    spec = {"folder": folder, "records": records, "model": DROPOUT, "devices": 8}
    assert backend_runs.start("jax", [spec]) == 0
    return folder


def run_two(folder, records, kills=("", ""), steps=12):
    """Executes a run in two processes with four devices each; returns their exit codes."""
    (port,) = layout_runs.free_ports(1)
    processes = [
        backend_runs.begin(
            "jax",
            [
                {
                    "folder": folder,
                    "records": records,
                    "model": DROPOUT,
                    "kill": kills[number],
                    "runtime": {
                        "distribution_strategy": "multi_worker_mirrored",
                        "coordinator_address": f"localhost:{port}",
                        "num_processes": 2,
                        "process_id": number,
                        "save_checkpoints_steps": 4,
                        "eval_steps": 6,
                        "iterations_per_loop": 1,
                        "stop_at_step": steps,
                        "stop_on_signals": True,
                    },
                }
            ],
            devices=4,
        )
        for number in range(2)
    ]
    return [process.wait() for process in processes]


def assert_same_result(folder, whole):
    found, expected = (dict(np.load(each / "weights.npz")) for each in (folder, whole))
    largest = max(abs(array).max() for array in expected.values())
    assert_close_arrays(found, expected, 1e-5 * largest)
    losses = [
        [entry["loss"] for entry in log_entries(each, "train")]
        for each in (folder, whole)
    ]
    assert_allclose(*losses, 1e-5)


def test_two_processes_have_the_result_of_one(tmp_path, records, whole):
    assert run_two(tmp_path, records) == [0, 0]
    assert_same_result(tmp_path, whole)


def test_a_signal_in_one_process_stops_both(tmp_path, records, whole):
    codes = run_two(tmp_path, records, ("", "signal"))
    assert codes == [128 + signal.SIGTERM] * 2
    assert run_two(tmp_path, records) == [0, 0]
    assert_same_result(tmp_path, whole)


def test_a_run_resumes_after_one_process_was_killed(tmp_path, records, whole):
    codes = run_two(tmp_path, records, ("", "step"))
    assert codes[1] == -signal.SIGKILL
    assert codes[0] != 0
    assert run_two(tmp_path, records) == [0, 0]
    assert_same_result(tmp_path, whole)
