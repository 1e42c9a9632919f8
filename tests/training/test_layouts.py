"""The result does not depend on the numbers of replicas, workers and parts."""

import pathlib
import signal

import layout_runs
import linear_runs
import numpy as np
import pytest
from golden_checkpoints import assert_close_arrays, assert_same_arrays

pytestmark = pytest.mark.slow

TWO_DEVICES = {"kind": "mirrored", "devices": 2}
TWO_WORKERS = {"kind": "multi_worker_mirrored", "workers": 2}
EXACT = {"dropout": 0.1, "runtime": {"deterministic": True}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns the folder of all runs; all runs start from the same weights."""
    folder = tmp_path_factory.mktemp("layouts")
    specs = {
        "one": {},
        "parts": {"accumulation": 4},
        "devices": TWO_DEVICES,
        "workers": TWO_WORKERS,
        "devices_in_parts": {**TWO_DEVICES, "accumulation": 2},
        "exact_devices": {**TWO_DEVICES, **EXACT},
        "exact_workers": {**TWO_WORKERS, **EXACT},
    }
    codes = layout_runs.start(
        [{**spec, "folder": folder / name} for name, spec in specs.items()]
    )
    assert all(code == 0 for each in codes for code in each), dict(
        zip(specs, codes, strict=True)
    )
    return folder


def losses(folder):
    return [entry["loss"] for entry in linear_runs.log_entries(folder, "train")]


@pytest.mark.parametrize("layout", ["parts", "devices", "workers", "devices_in_parts"])
def test_the_result_does_not_depend_on_how_the_batch_is_split(folder, layout):
    expected = layout_runs.weights(folder / "one")
    start = losses(folder / "one")
    assert len(start) == 20 and start[0] - start[-1] > 0.1  # the model learns
    assert_close_arrays(layout_runs.weights(folder / layout), expected, 2e-5)
    np.testing.assert_allclose(losses(folder / layout), start, rtol=1e-5)


def test_all_workers_have_the_same_final_bits(folder):
    first, second = (
        layout_runs.weights(folder / "exact_workers", worker) for worker in (0, 1)
    )
    assert_same_arrays(first, second)


@pytest.mark.parametrize(
    ("layout", "stop_at"),
    [("exact_devices", 5), ("exact_workers", 3), ("exact_workers", 8)],
)
def test_a_resumed_run_gives_the_same_bits(folder, layout, stop_at):
    spec = {**(TWO_DEVICES if layout == "exact_devices" else TWO_WORKERS), **EXACT}
    parts = folder / f"{layout}-{stop_at}"
    # Only the last worker receives the signal; the others must stop at the same step.
    stopped, done = layout_runs.start(
        [{**spec, "folder": parts, "stop_at": stop_at}, {**spec, "folder": parts}]
    )
    assert stopped == [128 + signal.SIGTERM] * len(stopped)
    assert done == [0] * len(done)
    expected = layout_runs.weights(folder / layout)
    assert_same_arrays(layout_runs.weights(parts), expected)


def test_a_run_resumes_on_other_devices_with_a_warning(folder, capfd):
    parts, logs = folder / "grown", {"runtime": {"log_steps": 4}}
    stopped, *done = layout_runs.start(
        [
            {**logs, "folder": parts, "stop_at": 10},
            {**logs, **TWO_DEVICES, "folder": parts},
            {**logs, "folder": folder / "one_in_fours"},
        ]
    )
    assert stopped == [128 + signal.SIGTERM] and done == [[0], [0]]
    assert (
        "warning: replicas was 1 when the checkpoint was written and is 2 now."
        in capfd.readouterr().err
    )
    expected = layout_runs.weights(folder / "one")
    assert_close_arrays(layout_runs.weights(parts), expected, 2e-5)
    # The third entry is the mean of two steps on one device and two steps on two
    # devices.
    assert len(losses(parts)) == 5
    np.testing.assert_allclose(
        losses(parts), losses(folder / "one_in_fours"), rtol=1e-5
    )


def test_only_the_first_worker_writes_files(folder):
    names = sorted(path.name for path in pathlib.Path(folder / "workers").iterdir())
    assert names == sorted(
        ["bert_config.json", "checkpoints", "metrics.jsonl", "run.lock", "train",
         "training_config.json", "weights-0.npz", "weights-1.npz"]
    )  # fmt: skip
    assert len(losses(folder / "workers")) == 20
