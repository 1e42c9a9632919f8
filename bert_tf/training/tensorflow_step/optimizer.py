"""`TensorFlowOptimizer`: updates of variables on each device of a strategy."""

from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training.step.loss_scale import after_finite_step, after_skipped_step
from bert_tf.training.step.objective import Tensors
from bert_tf.training.step.optimizer import Optimizer
from bert_tf.training.tensorflow_step.update_rules import in_place
from bert_tf.training.training_config import TrainingConfig


class TensorFlowOptimizer(Optimizer):
    """Applies an update rule to all variables, in place.

    The optimizer must be built inside the strategy's scope. `apply` and `skip` are
    called in a cross-replica context, with gradients that are already summed over the
    replicas. The arguments are those of `Optimizer`.
    """

    def __init__(
        self,
        variables: Tensors,
        config: TrainingConfig = TrainingConfig(),  # noqa: B008 it is immutable
        depths: Any = None,
    ) -> None:
        super().__init__(variables, config, depths)
        self._change = in_place(config.optimizer)

    def _new_slot(self, shape: Any, value: float) -> tf.Variable:
        return tf.Variable(tf.fill(shape, value), trainable=False)

    def _set_slot(self, name: str, value: Any) -> None:
        self.slots[name].assign(value)

    @staticmethod
    def _as_array(value: Any) -> np.ndarray:
        # On a CPU, the array shares the variable's buffer. A later update of the
        # variable does not change the array: TensorFlow then copies the buffer first.
        return np.asarray(tf.convert_to_tensor(value))

    def apply(self, gradients: Tensors, learning_rate: Any) -> None:
        """Updates the weights, the slots and the average of the weights in place.

        As in google-research/bert, a variable without gradient does not decay, and
        keeps its value and slots. The gradients and the learning rate are float32.
        """
        count = self.slots.get("updates")
        if count is not None:
            update_on_each_device(count, lambda updates: updates.assign_add(1.0))

        for name, gradient in gradients.items():
            update = self._update(name, gradient, learning_rate, self.slots, count)
            weight = self.variables[name].value
            update_on_each_device(weight, self._change, update)

        # The average follows the weights of this step.
        if self._ema_decay:
            for name, variable in self._trainable.items():
                average = self.slots[f"{name}/ema"]
                update_on_each_device(average, self._move_average, variable.value)
        self._update_loss_scale(after_finite_step)

    def skip(self) -> None:
        """Skips a step whose gradient is not finite; only the loss scale changes."""
        self._update_loss_scale(after_skipped_step)

    def _update_loss_scale(self, rule: Any) -> None:
        def assign(scale: Any, steps: Any) -> None:
            new_scale, new_steps = rule(scale, steps)
            scale.assign(new_scale)
            steps.assign(new_steps)

        if "loss_scale" in self.slots:
            steps = self.slots["steps_at_loss_scale"]
            update_on_each_device(self.slots["loss_scale"], assign, steps)

    @property
    def loss_scale(self) -> Any:
        """The float32 scalar that multiplies the loss and divides the gradients."""
        return (
            self.slots["loss_scale"] + 0.0
            if "loss_scale" in self.slots
            else tf.constant(1.0)
        )

    def _move_average(self, average: Any, weight: Any) -> None:
        average.assign_sub((1.0 - self._ema_decay) * (average - weight))


def update_on_each_device(variable: Any, rule: Any, *arguments: Any) -> None:
    """Calls `rule(variable, *arguments)` on each device, with that device's copies.

    Must be called in a cross-replica context. The arguments are variables and tensors,
    also in dicts and lists.
    """
    strategy = tf.distribute.get_strategy()
    strategy.extended.update(variable, rule, args=arguments, group=False)
