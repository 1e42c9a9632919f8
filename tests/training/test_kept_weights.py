"""Which weights a run keeps and hands on: the best ones, the averaged ones."""

import math

import linear_runs as runs
import numpy as np
import pytest

from bert_tf import conversion
from bert_tf.training import state
from bert_tf.training.config import RuntimeConfig
from bert_tf.training.window import Best


def test_the_best_weights_are_kept_and_handed_on(tmp_path, capsys):
    """The held-out targets fit after some steps, and ever less after that."""
    runtime = RuntimeConfig(eval_steps=2, early_stopping_evals=3, log_steps=100)
    run = runs.trainer(tmp_path, runtime=runtime, num_train_steps=60)

    def held_out():
        return runs.data().take(2).map(lambda batch: {**batch, "y": 0.3 * batch["y"]})

    step = run.train(runs.data(), {"eval": held_out})
    evals = {e["step"]: e["loss"] for e in runs.entries(tmp_path) if e["kind"] == "eval"}
    best = min(evals, key=evals.get)
    assert step == best and max(evals) == best + 2 * 3 < 60
    assert [e["step"] for e in runs.entries(tmp_path) if e["kind"] == "train"] == [max(evals)]
    assert f"The best weights are those of step {best}." in capsys.readouterr().err
    np.testing.assert_allclose(run.evaluate(held_out())["loss"], evals[best], rtol=1e-6)
    kept = runs.trainer(tmp_path / "other", num_train_steps=60)
    assert state.restore_weights(str(tmp_path / "best"), kept.objective.variables) == best
    # The same command again has nothing left to do.
    again = runs.trainer(tmp_path, runtime=runtime, num_train_steps=60)
    assert again.train(runs.data(), {"eval": held_out}) == step
    # Nor is anything but the best handed on, to whoever asks later.
    later = runs.trainer(tmp_path, num_train_steps=60)
    assert later.load_result() == best
    for name, variable in later.objective.variables.items():
        np.testing.assert_array_equal(variable.numpy(), run.objective.variables[name].numpy())
    for path, slots, source in (("", False, "best"), ("", True, f"step-{max(evals):08d}")):
        assert conversion.read_weights(f"{tmp_path}{path}", slots).source.endswith(source)


@pytest.mark.parametrize(
    ("values", "sign", "expected"),
    [
        ([2.0, 3.0, 1.0], -1, [True, False, True]),
        ([2.0, 3.0, 3.0], 1, [True, True, False]),
        ([math.nan, 1.0, math.nan, 2.0], 1, [True, True, False, True]),
        ([math.nan, math.nan, 1.0], -1, [True, False, True]),
    ],
)
def test_the_best_is_the_best_number(values, sign, expected):
    best = Best()
    found = [best.update(step, value, sign) for step, value in enumerate(values)]
    assert found == expected


def test_a_run_with_an_average_goes_on_to_the_bit(tmp_path):
    expected = runs.run(tmp_path / "whole", ema_decay=0.9, optimizer="adamw", schedule="cosine")
    with pytest.raises(SystemExit):
        runs.run(tmp_path / "parts", stop_at=9, ema_decay=0.9, optimizer="adamw", schedule="cosine")
    found = runs.run(tmp_path / "parts", ema_decay=0.9, optimizer="adamw", schedule="cosine")
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    newest = runs.trainer(tmp_path / "parts", ema_decay=0.9, optimizer="adamw", schedule="cosine")
    newest.load_result()
    for name, value in expected.items():
        np.testing.assert_array_equal(newest.objective.variables[name].numpy(), value)
