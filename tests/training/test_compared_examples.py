"""Losses of a global batch do not depend on the numbers of replicas and parts."""

import layout_runs
import linear_runs
import numpy as np
import pytest
from golden_checkpoints import assert_close_arrays

pytestmark = pytest.mark.slow
LAYOUTS = {
    "one": {},
    "parts": {"accumulation": 4},
    "devices": {"kind": "mirrored", "devices": 2},
    "devices_in_parts": {"kind": "mirrored", "devices": 2, "accumulation": 2},
    "compiled": {"accumulation": 2, "runtime": {"jit_compile": True}},
}
LOSSES = ("contrastive", "cosent")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    specs = [
        {**layout, "vectors": loss, "steps": 5, "folder": folder / loss / name}
        for loss in LOSSES
        for name, layout in LAYOUTS.items()
    ]
    assert layout_runs.start(specs) == [[0]] * len(specs)
    return folder


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "one"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_result_does_not_depend_on_how_the_batch_is_split(folder, loss, layout):
    expected = layout_runs.weights(folder / loss / "one")
    found = layout_runs.weights(folder / loss / layout)
    largest = max(abs(array).max() for array in expected.values())
    assert_close_arrays(found, expected, 1e-5 * largest)
    first, second = (
        [
            entry["loss"]
            for entry in linear_runs.log_entries(folder / loss / name, "train")
        ]
        for name in ("one", layout)
    )
    assert first[0] - first[-1] > 0.01  # the model learns
    np.testing.assert_allclose(second, first, 0, 1e-5 * max(first))
