"""`Optimizer` holds what a step changes: weights, their state and average, loss scale."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf.training.step.loss_scale import INITIAL_SCALE
from bert_tf.training.step.objective import Tensors
from bert_tf.training.step.schedule import layer_rate_scales
from bert_tf.training.step.update_rules import UPDATE_RULES, Update
from bert_tf.training.step.weight_decay import decays
from bert_tf.training.training_config import TrainingConfig

Arrays = dict[str, np.ndarray]


class Optimizer:
    """Keeps the optimizer state; a subclass for each backend applies the updates.

    Args:
        variables: Keras variables by name. Those that are not trainable keep their
            values and have no state.
        config: Defines the update rule and its settings.
        depths: The number of layers below each variable; required if `layer_decay` is
            not 1.

    Attributes:
        slots: The state by name, such as `<variable>/adam_m`.
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
        self.slots: dict[str, Any] = {}
        if self._rule.uses_count:
            self.slots["updates"] = self._new_slot((), 0.0)
        self._trainable = {
            name: weight for name, weight in self.variables.items() if weight.trainable
        }
        names = (*self._rule.slots, *(("ema",) if self._ema_decay else ()))
        for name, variable in self._trainable.items():
            for slot in names:
                self.slots[f"{name}/{slot}"] = self._new_slot(variable.shape, 0.0)
        if config.precision == "float16":
            self.slots["loss_scale"] = self._new_slot((), INITIAL_SCALE)
            self.slots["steps_at_loss_scale"] = self._new_slot((), 0.0)

    def _new_slot(self, shape: Any, value: float) -> Any:
        """Returns a new slot, float32, with all values equal to `value`."""
        raise NotImplementedError

    def _set_slot(self, name: str, value: Any) -> None:
        """Replaces the values of a slot by an array of its shape."""
        raise NotImplementedError

    @staticmethod
    def _as_array(value: Any) -> np.ndarray:
        """Returns a weight or slot as an array that later steps do not change."""
        raise NotImplementedError

    def _update(
        self, name: str, gradient: Any, learning_rate: Any, slots: Tensors, count: Any
    ) -> Update:
        """Returns the input of the update rule for one variable."""
        return Update(
            {slot: slots[f"{name}/{slot}"] for slot in self._rule.slots},
            gradient,
            learning_rate=learning_rate * self._rate_scales[name],
            weight_decay=self._weight_decay[name],
            count=count,
            **self._options,
        )

    def start_average(self) -> None:
        """Initializes the average of the weights with the present weights."""
        if self._ema_decay:
            for name, variable in self._trainable.items():
                self._set_slot(f"{name}/ema", self._as_array(variable.value))

    def replace_weights_by_average(self) -> None:
        """Replaces the weights by their average permanently."""
        self._assign(self.state()[0] if self._ema_decay else {})

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Replaces the weights by their average within a `with` block."""
        if not self._ema_decay:
            yield
            return
        trained = self._weights()
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
        weights = self._weights()
        slots = {name: self._as_array(slot) for name, slot in self.slots.items()}
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
            self._set_slot(name, np.reshape(slots[name], slot.shape))

    def _weights(self) -> Arrays:
        return {
            name: self._as_array(variable.value)
            for name, variable in self.variables.items()
        }

    def _assign(self, weights: Arrays) -> None:
        for name, value in weights.items():
            self.variables[name].assign(value)
