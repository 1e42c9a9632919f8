"""`JaxOptimizer`: an update as a function from weights and slots to their next values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bert_tf.training.step.loss_scale import after_finite_step, after_skipped_step
from bert_tf.training.step.objective import Tensors
from bert_tf.training.step.optimizer import Optimizer


class JaxOptimizer(Optimizer):
    """Applies an update rule to arrays; the arguments are those of `Optimizer`."""

    def _new_slot(self, shape: Any, value: float) -> jax.Array:
        return jnp.full(shape, value, jnp.float32)

    def _set_slot(self, name: str, value: Any) -> None:
        self.slots[name] = jnp.asarray(value, jnp.float32)

    @staticmethod
    def _as_array(value: Any) -> np.ndarray:
        # A copy, because a step reuses the memory of weights and slots.
        return np.array(value)

    def updated(
        self,
        weights: Tensors,
        slots: Tensors,
        gradients: Tensors,
        learning_rate: Any,
        finite: Any,
    ) -> tuple[Tensors, Tensors]:
        """Returns weights and slots after a step; if not `finite`, only the loss scale changes.

        As in google-research/bert, a variable without gradient does not decay, and
        keeps its value and slots. Gradients and learning rate are float32.
        """
        new_weights, new_slots = dict(weights), dict(slots)
        count = None
        if self._rule.uses_count:
            count = new_slots["updates"] = slots["updates"] + 1.0

        for name, gradient in gradients.items():
            update = self._update(name, gradient, learning_rate, slots, count)
            new_weights[name], changed = self._rule.update(weights[name], update)
            new_slots |= {f"{name}/{slot}": value for slot, value in changed.items()}

        # The average follows the weights of this step.
        if self._ema_decay:
            for name in self._trainable:
                average = slots[f"{name}/ema"]
                change = (1.0 - self._ema_decay) * (average - new_weights[name])
                new_slots[f"{name}/ema"] = average - change

        def select(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)

        new_weights, new_slots = select((new_weights, new_slots), (weights, slots))
        if "loss_scale" in slots:
            scale = slots["loss_scale"], slots["steps_at_loss_scale"]
            new_slots["loss_scale"], new_slots["steps_at_loss_scale"] = select(
                after_finite_step(*scale), after_skipped_step(*scale)
            )
        return new_weights, new_slots
