"""The graph of a training step is traced once, for any number of steps in a call."""

import linear_runs as runs

from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner
from bert_tf.training.training_config import RuntimeConfig


class Counted(runs.Regression):
    """Counts how often a step is traced."""

    traces = 0

    def counts(self, batch):
        self.traces += 1
        return super().counts(batch)


def make_runner(accumulation_steps=1):
    objective = Counted(seed=0, dtype="float32")
    runtime = RuntimeConfig(gradient_accumulation_steps=accumulation_steps)
    return objective, TensorFlowStepRunner(objective, runs.training_config(), runtime)


def test_the_step_is_traced_once():
    for accumulation_steps in (1, 4):
        objective, runner = make_runner(accumulation_steps)
        iterator = iter(runs.data())
        for step, steps in ((0, 1), (1, 5), (6, 2)):
            assert runner.train(iterator, step, steps).steps == steps
        assert objective.traces == 1, accumulation_steps
