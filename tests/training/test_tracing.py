"""The graph of a training step is traced once, whatever the number of steps in a call."""

import linear_runs as runs
import numpy as np

from bert_tf.training.config import RuntimeConfig
from bert_tf.training.step.step_runner import StepRunner


class Counted(runs.Regression):
    """Counts how often a step is traced."""

    traces = 0

    def counts(self, batch):
        self.traces += 1
        return super().counts(batch)


def make_runner(accumulation_steps=1):
    objective = Counted(seed=0, dtype="float32")
    runtime = RuntimeConfig(gradient_accumulation_steps=accumulation_steps)
    return objective, StepRunner(objective, runs.training_config(), runtime)


def test_the_step_is_traced_once():
    for accumulation_steps in (1, 4):
        objective, runner = make_runner(accumulation_steps)
        iterator = iter(runs.data())
        for step, steps in ((0, 1), (1, 5), (6, 2)):
            assert runner.train(iterator, step, steps).steps == steps
        assert objective.traces == 1, accumulation_steps


def test_totals_of_one_call_equal_the_totals_of_single_steps():
    (one, together), (each, singly) = make_runner(), make_runner()
    iterator = iter(runs.data())
    result = together.train(iterator, 0, 4)
    iterator = iter(runs.data())
    results = [singly.train(iterator, step, 1) for step in range(4)]
    for name in ("sums", "counts"):
        totals = getattr(result, name)
        for key, total in totals.items():
            assert total == sum(getattr(r, name)[key] for r in results)  # every bit
    assert result.scalars["learning_rate"] == results[-1].scalars["learning_rate"]
    np.testing.assert_array_equal(one.variables["kernel"], each.variables["kernel"])
