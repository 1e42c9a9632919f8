"""`Optimizer` holds what a step changes: weights, their state and average, loss scale."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training.step.loss_scale import (
    INITIAL_SCALE,
    after_finite_step,
    after_skipped_step,
)
from bert_tf.training.step.objective import Tensors
from bert_tf.training.step.schedule import layer_rate_scales
from bert_tf.training.step.update_rules import UPDATE_RULES, Update
from bert_tf.training.step.weight_decay import decays
from bert_tf.training.training_config import TrainingConfig

Arrays = dict[str, np.ndarray]


class Optimizer:
    """Applies an update rule to all variables and keeps the optimizer state.

    The optimizer must be built inside the strategy's scope. `apply` and `skip` are
    called in a cross-replica context, with gradients that are already summed over the
    replicas.

    Args:
        variables: Keras variables by name. Those that are not trainable keep their
            values and have no state.
        config: Defines the update rule and its settings.
        depths: The number of layers below each variable; required if `layer_decay` is
            not 1.

    Attributes:
        slots: The variables of the state by name, such as `<variable>/adam_m`.
    """

    def __init__(
        self,
        variables: Tensors,
        config: TrainingConfig = TrainingConfig(),  # noqa: B008 it is immutable
        depths: Mapping[str, int] | None = None,
    ) -> None:
        self.variables = dict(variables)
        self._rule = UPDATE_RULES[config.optimizer]
        self._options = {"beta_1": config.adam_beta_1, "beta_2": config.adam_beta_2}
        self._ema_decay = config.ema_decay
        self._weight_decay = {
            name: config.weight_decay_rate if decays(name) else 0.0
            for name in self.variables
        }

        # With depths, lower layers have lower rates.
        scales = dict.fromkeys(variables, 1.0)
        if depths:
            scales = layer_rate_scales(depths, config.layer_decay)
        self._rate_scales = {name: scales[name] for name in variables}

        # The state: a count, the slots of the rule and an average for each weight.
        self.slots: dict[str, tf.Variable] = (
            {"updates": _slot(0.0)} if self._rule.uses_count else {}
        )
        self._trainable = {
            name: weight for name, weight in self.variables.items() if weight.trainable
        }
        names = (*self._rule.slots, *(("ema",) if self._ema_decay else ()))
        for name, variable in self._trainable.items():
            for slot in names:
                self.slots[f"{name}/{slot}"] = _slot(tf.zeros(variable.shape))
        if config.precision == "float16":
            self.slots["loss_scale"] = _slot(INITIAL_SCALE)
            self.slots["steps_at_loss_scale"] = _slot(0.0)

    def apply(self, gradients: Tensors, learning_rate: Any) -> None:
        """Updates the weights, the slots and the average of the weights in place.

        As in google-research/bert, a variable without gradient does not decay, and
        keeps its value and slots. The gradients and the learning rate are float32.
        """
        count = self.slots.get("updates")
        if count is not None:
            update_on_each_device(count, lambda updates: updates.assign_add(1.0))

        for name, gradient in gradients.items():
            update = Update(
                {slot: self.slots[f"{name}/{slot}"] for slot in self._rule.slots},
                gradient,
                learning_rate=learning_rate * self._rate_scales[name],
                weight_decay=self._weight_decay[name],
                count=count,
                **self._options,
            )
            weight = self.variables[name].value
            update_on_each_device(weight, self._rule.update, update)

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
        if "loss_scale" in self.slots:
            steps = self.slots["steps_at_loss_scale"]
            update_on_each_device(self.slots["loss_scale"], rule, steps)

    @property
    def loss_scale(self) -> Any:
        """The float32 scalar that multiplies the loss and divides the gradients."""
        return (
            self.slots["loss_scale"] + 0.0
            if "loss_scale" in self.slots
            else tf.constant(1.0)
        )

    def start_average(self) -> None:
        """Initializes the average of the weights with the present weights."""
        if self._ema_decay:
            for name, variable in self._trainable.items():
                self.slots[f"{name}/ema"].assign(variable.value)

    def replace_weights_by_average(self) -> None:
        """Replaces the weights by their average permanently."""
        self._assign(self.state()[0] if self._ema_decay else {})

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Replaces the weights by their average within a `with` block."""
        if not self._ema_decay:
            yield
            return
        trained = {
            name: _as_array(variable.value) for name, variable in self.variables.items()
        }
        self.replace_weights_by_average()
        try:
            yield
        finally:
            self._assign(trained)

    def state(self) -> tuple[Arrays, Arrays]:
        """Returns two dicts of arrays: weights to use, and state to resume from.

        If `ema_decay` is above 0, the weights to use are the average of the weights.
        The second dict then also contains the trained weights, as `<variable>/trained`.
        Later training steps do not change the arrays.
        """
        weights = {
            name: _as_array(variable.value) for name, variable in self.variables.items()
        }
        slots = {name: _as_array(slot) for name, slot in self.slots.items()}
        if not self._ema_decay:
            return weights, slots
        averages = {name: slots.pop(f"{name}/ema") for name in self._trainable}
        trained = {f"{name}/trained": weights[name] for name in self._trainable}
        return weights | averages, slots | trained

    def load(self, weights: Arrays, slots: Arrays) -> None:
        """Restores the arrays that `state` returned."""
        if self._ema_decay:
            averages = {f"{name}/ema": weights[name] for name in self._trainable}
            trained = {name: slots[f"{name}/trained"] for name in self._trainable}
            weights, slots = weights | trained, slots | averages
        self._assign(weights)
        for name, slot in self.slots.items():
            slot.assign(np.reshape(slots[name], slot.shape))

    def _assign(self, weights: Arrays) -> None:
        for name, value in weights.items():
            self.variables[name].assign(value)

    def _move_average(self, average: Any, weight: Any) -> None:
        average.assign_sub((1.0 - self._ema_decay) * (average - weight))


def update_on_each_device(variable: Any, rule: Any, *arguments: Any) -> None:
    """Calls `rule(variable, *arguments)` on each device, with that device's copies.

    Must be called in a cross-replica context. The arguments are variables and tensors,
    also in dicts and lists.
    """
    strategy = tf.distribute.get_strategy()
    strategy.extended.update(variable, rule, args=arguments, group=False)


def _slot(value: Any) -> tf.Variable:
    return tf.Variable(tf.cast(value, tf.float32), trainable=False)


def _as_array(variable: Any) -> np.ndarray:
    """Returns the value as an array.

    On a CPU, the array shares the variable's buffer. A later update of the variable
    does not change the array, because TensorFlow then copies the buffer first.
    """
    return np.asarray(tf.convert_to_tensor(variable))
