"""The weights that a run keeps as its result: the best or the averaged weights."""

import math

import linear_runs as runs
import numpy as np
import pytest

from bert_tf import conversion
from bert_tf.config import BertConfig
from bert_tf.errors import TrainingInterrupted
from bert_tf.training.callbacks import HeldOutData
from bert_tf.training.lifecycle.best_evaluation import BestEvaluation
from bert_tf.training.lifecycle.checkpoint import restore_weights
from bert_tf.training.training_config import RuntimeConfig


def test_the_best_weights_are_kept_and_used_as_the_result(tmp_path, caplog):
    """The loss on the held-out targets falls for some steps and then rises."""
    caplog.set_level("INFO", "bert_tf")
    runtime = RuntimeConfig(eval_steps=2, early_stopping_evals=3, log_steps=100)
    options = {"config": BertConfig.named("tiny", 9).to_dict(), "num_train_steps": 60}
    run = runs.make_trainer(tmp_path, runtime=runtime, **options)

    def held_out():
        return runs.data().take(2).map(lambda batch: {**batch, "y": 0.3 * batch["y"]})

    step = runs.train(run, held_out=HeldOutData({"eval": held_out}))
    evals = {e["step"]: e["loss"] for e in runs.log_entries(tmp_path, "eval")}
    best = min(evals, key=evals.get)
    assert step == best and max(evals) == best + 2 * 3 < 60
    assert [e["step"] for e in runs.log_entries(tmp_path, "train")] == [max(evals)]
    assert f"The best weights are those of step {best}." in caplog.messages
    np.testing.assert_allclose(run.evaluate(held_out())["loss"], evals[best], rtol=1e-6)
    kept = runs.make_trainer(tmp_path / "other", num_train_steps=60)
    assert restore_weights(str(tmp_path / "best"), kept.objective.variables) == best
    # A second run of the same command trains no further step.
    again = runs.make_trainer(tmp_path, runtime=runtime, **options)
    assert runs.train(again, held_out=HeldOutData({"eval": held_out})) == step
    # A program that later reads the run's folder also gets the best weights.
    later = runs.make_trainer(tmp_path, **options)
    assert later.load_result() == best
    runs.assert_same(later, run)
    for slots, source in ((False, "best"), (True, f"step-{max(evals):08d}")):
        assert conversion.read_weights(str(tmp_path), slots).source.endswith(source)


@pytest.mark.parametrize(
    ("values", "sign", "expected"),
    [
        ([2.0, 3.0, 1.0], -1, [True, False, True]),
        ([2.0, 3.0, 3.0], 1, [True, True, False]),
        ([math.nan, 1.0, math.nan, 2.0], 1, [True, True, False, True]),
        ([math.nan, math.nan, 1.0], -1, [True, False, True]),
    ],
)
def test_best_evaluation_ignores_nan(values, sign, expected):
    best = BestEvaluation()
    found = [best.update(step, value, sign) for step, value in enumerate(values)]
    assert found == expected


def test_a_resumed_run_with_an_average_gives_the_same_bits(tmp_path):
    options = {"ema_decay": 0.9, "optimizer": "adamw", "schedule": "cosine"}
    parts = tmp_path / "parts"
    expected = runs.run(tmp_path / "whole", **options)
    with pytest.raises(TrainingInterrupted):
        runs.run(parts, stop_at=9, **options)
    runs.assert_same(runs.run(parts, **options), expected)
    newest = runs.make_trainer(parts, **options)
    newest.load_result()
    runs.assert_same(newest, expected)
