"""The released optimizer: Adam without bias correction, with decoupled weight decay."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

NO_DECAY = ("LayerNorm", "layer_norm", "bias")


class AdamWeightDecay:
    """`p -= lr * (m / (sqrt(v) + epsilon) + weight_decay_rate * p)`, m and v uncorrected.

    Built inside the strategy's scope; `apply` is called in a cross-replica context with gradients
    that are summed over the replicas already.

    Args:
        variables: Trainable Keras variables by name.
        weight_decay_rate: Share of the weight that decays per unit of learning rate.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment.
        epsilon: Added outside the square root.
        exclude_from_weight_decay: Regular expressions searched in the names; a variable whose
            name holds one does not decay.

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """

    def __init__(
        self,
        variables: Mapping[str, Any],
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] = NO_DECAY,
    ) -> None:
        self.variables = dict(variables)
        self._beta_1, self._beta_2, self._epsilon = beta_1, beta_2, epsilon
        self._decay = {
            name: 0.0
            if any(re.search(pattern, name) for pattern in exclude_from_weight_decay)
            else weight_decay_rate
            for name in self.variables
        }
        self.slots: dict[str, tf.Variable] = {}
        for name, variable in self.variables.items():
            for slot in ("adam_m", "adam_v"):
                zeros = tf.zeros(variable.shape, tf.float32)
                self.slots[f"{name}/{slot}"] = tf.Variable(zeros, trainable=False)

    def apply(self, gradients: Mapping[str, Any], learning_rate: Any) -> None:
        """Updates weights and moments in place.

        Args:
            gradients: By name, float32 of the variable's shape; None leaves the variable and its
                moments as they are, its decay included, as in the released code.
            learning_rate: float32 scalar.
        """
        strategy = tf.distribute.get_strategy()
        for name, gradient in gradients.items():
            if gradient is None:
                continue
            strategy.extended.update(
                self.variables[name].value,
                self._update,
                args=(
                    self.slots[f"{name}/adam_m"],
                    self.slots[f"{name}/adam_v"],
                    gradient,
                    learning_rate,
                    self._decay[name],
                ),
                group=False,
            )

    def _update(
        self, weight: Any, m: Any, v: Any, gradient: Any, learning_rate: Any, decay: float
    ) -> None:
        if decay:
            weight.assign(weight * (1.0 - learning_rate * decay))
        # With both powers of beta at 0, TensorFlow's fused Adam has no bias correction: what is
        # left is the released update, in one pass over the memory.
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=0.0,
            beta2_power=0.0,
            lr=learning_rate,
            beta1=self._beta_1,
            beta2=self._beta_2,
            epsilon=self._epsilon,
            grad=gradient,
        )
