"""Repeats runs of google-research/bert: SQuAD, and pretraining from step 10 on.

The SQuAD run is ill-conditioned: a relative change of the initial weights by 1e-7 (the
rounding error of float32) changes the losses of the last steps by more than 1e-3. Even
google-research/bert itself gives other losses on another machine. Therefore the tests
make two comparisons: the whole run with google-research/bert, and each single step with
a float64 transcription of the released code. In the second comparison, both sides start
each step from the same weights.
"""

import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import GOLDEN
from json_files import read_json
from reference import bert as reference

from bert_tf.config import BertConfig
from bert_tf.conversion import assign, read_weights
from bert_tf.modeling import BertPretrainer, BertSpanPredictor
from bert_tf.pretraining.pretraining_objective import PretrainingObjective
from bert_tf.tasks.squad.squad_task import SquadObjective
from bert_tf.training.tensorflow_step.step_runner import TensorFlowStepRunner
from bert_tf.training.training_config import TrainingConfig


class Run:
    """Runs the training step on the batches of a recorded run."""

    def __init__(self, objective, trajectory):
        self.objective, self._trajectory = objective, trajectory
        self.config = TrainingConfig(
            seed=0,
            global_batch_size=len(trajectory["input_ids"][0]),
            num_train_steps=int(trajectory["num_train_steps"]),
            num_warmup_steps=int(trajectory["num_warmup_steps"]),
            learning_rate=float(trajectory["learning_rate"]),
        )
        self._runner = TensorFlowStepRunner(objective, self.config)
        self.optimizer = self._runner.optimizer
        self._names = [
            name
            for name in trajectory.files
            if trajectory[name].dtype in ("int32", "float32")
            and not name.startswith("first_batch_")
        ]

    @property
    def state(self):
        """The weights and the optimizer's moments (slots), keyed by name."""
        return {**self.objective.variables, **self.optimizer.slots}

    def batch(self, step):
        return {name: tf.constant(self._trajectory[name][step]) for name in self._names}

    def step(self, step) -> float:
        """Applies update number `step`.

        Returns the loss of the weights before the update.
        """
        batches = iter(tf.data.Dataset.from_tensors(self.batch(step)))
        result = self._runner.train(batches, step, 1)
        return float(self.objective.loss(result.sums, result.counts))


def differences(state, expected) -> dict[str, float]:
    """Returns for each expected tensor its largest absolute difference from `state`."""
    return {
        name: np.abs(np.asarray(state[name]) - value).max()
        for name, value in expected.items()
    }


def read_tensors(prefix) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map().keys() - {"global_step"}
    return {name: reader.get_tensor(name) for name in sorted(names)}


def initial_weights() -> dict[str, np.ndarray]:
    tensors = read_tensors(GOLDEN / "google_squad/init/model.ckpt")
    return {name: value for name, value in tensors.items() if "/adam_" not in name}


@pytest.fixture(scope="module")
def config():
    return read_json(GOLDEN / "google_pretraining/bert_config.json")


@pytest.fixture(scope="module")
def squad(config):
    trajectory = np.load(GOLDEN / "google_squad/trajectory.npz")
    model = BertSpanPredictor(BertConfig.from_dict(config))
    return Run(SquadObjective(model, ("f1", 1), padding_as_released=True), trajectory)


def float64_run(squad, config, initial):
    """Yields the loss and tensors before each float64 update, and tensors after it."""
    weights = {name: tf.cast(value, tf.float64) for name, value in initial.items()}
    moments: dict[str, tf.Tensor] = {}
    schedule = squad.config
    for step in range(schedule.num_train_steps):
        rate = reference.learning_rate(
            step,
            schedule.learning_rate,
            schedule.num_train_steps,
            schedule.num_warmup_steps,
        )
        before = {**weights, **moments}
        loss, weights, moments = reference.step(
            weights, moments, config, squad.batch(step), rate
        )
        yield float(loss), before, {**weights, **moments}


def test_squad_run_follows_the_released_program(squad):
    expected = np.load(GOLDEN / "google_squad/trajectory.npz")["losses"]
    initial = initial_weights()
    for name, value in squad.state.items():
        value.assign(initial.get(name, np.zeros(value.shape)))
    losses = [squad.step(step) for step in range(len(expected))]
    np.testing.assert_allclose(losses[:11], expected[:11], atol=1e-4)
    np.testing.assert_allclose(losses, expected, atol=5e-2)
    end = read_tensors(GOLDEN / "google_squad/step20/model.ckpt-20")
    assert max(differences(squad.state, end).values()) < 2e-2
    # The SQuAD loss does not use the pooler, so the pooler has no slots and no weight
    # decay.
    pooler = squad.state["bert/pooler/dense/kernel"].numpy()
    np.testing.assert_array_equal(pooler, initial["bert/pooler/dense/kernel"])
    np.testing.assert_array_equal(pooler, end["bert/pooler/dense/kernel"])
    assert "bert/pooler/dense/kernel/adam_m" not in end


def test_each_single_squad_step_equals_the_float64_step(squad, config):
    expected = np.load(GOLDEN / "google_squad/trajectory.npz")["losses"]
    exact = []
    steps = float64_run(squad, config, initial_weights())
    for step, (loss, before, after) in enumerate(steps):
        for name, value in squad.state.items():
            value.assign(tf.cast(before.get(name, tf.zeros(value.shape)), tf.float32))
        assert squad.step(step) == pytest.approx(loss, abs=1e-5)
        errors = differences(squad.state, after)
        assert max(errors.values()) < 1e-4, max(errors, key=errors.__getitem__)
        exact.append(loss)
    np.testing.assert_allclose(exact[:11], expected[:11], atol=1e-4)
    np.testing.assert_allclose(exact, expected, atol=1e-2)


@pytest.mark.medium
def test_pretraining_resumes_from_a_google_checkpoint(config):
    trajectory = np.load(GOLDEN / "google_pretraining/trajectory.npz")
    weights = read_weights(str(GOLDEN / "google_pretraining/step10"), slots=True)
    model = BertPretrainer(BertConfig.from_dict(config))
    assign(model, weights)
    run = Run(PretrainingObjective(model), trajectory)
    for name, slot in weights.slots.items():
        run.optimizer.slots[name].assign(slot)
    losses = [run.step(step) for step in range(weights.global_step, 30)]
    np.testing.assert_allclose(losses, trajectory["losses"][10:, 2], atol=1e-4)
    end = read_tensors(GOLDEN / "google_pretraining/step30/model.ckpt-30")
    errors = differences(run.state, end)
    assert max(errors.values()) < 1e-4, max(errors, key=errors.__getitem__)
