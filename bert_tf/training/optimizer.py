"""Optimizers: what a step does to the weights, their moments, their average and the loss scale."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training.config import TrainingConfig

NO_DECAY = ("LayerNorm", "layer_norm", "bias")
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-6
_MOMENTS = ("adam_m", "adam_v")
# float16: as large as the largest gradients allow, found by trying.
_FIRST_LOSS_SCALE, _LEAST_LOSS_SCALE, _STEPS_TO_RAISE = 2.0**15, 1.0, 2000.0


class Optimizer:
    """Holds everything that a step changes; its subclasses are the update rules.

    Built inside the strategy's scope; `apply` and `skip` are called in a cross-replica context
    with gradients that are summed over the replicas already.

    Args:
        variables: Trainable Keras variables by name.
        weight_decay_rate: Share of the weight that decays per unit of learning rate.
        rate_scales: By name, what the learning rate is multiplied with; 1 where a name is not.
        ema_decay: Decay of the average of the weights over steps; 0 keeps no average.
        scales_loss: Whether the loss is scaled up so that float16 gradients do not vanish.
        exclude_from_weight_decay: Regular expressions searched in the names; a variable whose
            name holds one does not decay.

    Attributes:
        slots: State beside the weights, by name: `<variable>/adam_m` and so on.
    """

    _counts = True  # Whether the rule needs to know how many updates there were.

    def __init__(
        self,
        variables: Mapping[str, Any],
        weight_decay_rate: float = 0.01,
        rate_scales: Mapping[str, float] | None = None,
        ema_decay: float = 0.0,
        scales_loss: bool = False,
        exclude_from_weight_decay: Sequence[str] = NO_DECAY,
    ) -> None:
        self.variables, self._ema_decay = dict(variables), ema_decay
        self._rate_scales = dict(rate_scales or {})
        self._decay = {
            name: 0.0
            if any(re.search(pattern, name) for pattern in exclude_from_weight_decay)
            else weight_decay_rate
            for name in self.variables
        }
        self.slots: dict[str, tf.Variable] = {"updates": _state(0.0)} if self._counts else {}
        for name, variable in self.variables.items():
            for moment in _MOMENTS:
                self.slots[f"{name}/{moment}"] = _state(tf.zeros(variable.shape))
            if ema_decay:
                self.slots[f"{name}/ema"] = _state(tf.zeros(variable.shape))
        if scales_loss:
            self.slots["loss_scale"] = _state(_FIRST_LOSS_SCALE)
            self.slots["steps_at_loss_scale"] = _state(0.0)

    def apply(self, gradients: Mapping[str, Any], learning_rate: Any) -> None:
        """Updates weights, moments and average in place.

        Args:
            gradients: By name, float32 of the variable's shape; None leaves the variable and its
                moments as they are, its decay included, as in the released code.
            learning_rate: float32 scalar.
        """
        updates = self.slots.get("updates")
        if updates is not None:
            _change(updates, lambda count: count.assign_add(1.0))
        for name, gradient in gradients.items():
            if gradient is None:
                continue
            m, v = (self.slots[f"{name}/{moment}"] for moment in _MOMENTS)
            rate = learning_rate * self._rate_scales.get(name, 1.0)
            decay = self._decay[name]
            _change(self.variables[name].value, self._rule, m, v, gradient, rate, decay, updates)
        if self._ema_decay:
            for name, variable in self.variables.items():
                _change(self.slots[f"{name}/ema"], self._move_average, variable.value)
        if "loss_scale" in self.slots:
            _change(self.slots["loss_scale"], _raise_scale, self.slots["steps_at_loss_scale"])

    def skip(self) -> None:
        """Leaves out a step whose gradient is not finite: only the loss scale falls."""
        if "loss_scale" in self.slots:
            _change(self.slots["loss_scale"], _lower_scale, self.slots["steps_at_loss_scale"])

    @property
    def loss_scale(self) -> Any:
        """What the loss is multiplied with, a float32 scalar; the gradients are divided by it."""
        return self.slots["loss_scale"] + 0.0 if "loss_scale" in self.slots else tf.constant(1.0)

    @property
    def lowest_loss_scale(self) -> Any:
        """Whether the loss scale can fall no more; a scalar bool."""
        return self.loss_scale <= _LEAST_LOSS_SCALE

    def start_average(self) -> None:
        """Starts the average from the weights as they are."""
        if self._ema_decay:
            for name, variable in self.variables.items():
                self.slots[f"{name}/ema"].assign(variable.value)

    def take_average(self) -> None:
        """Puts the average in the place of the weights, for good."""
        self._assign(self.state()[0] if self._ema_decay else {})

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Puts the average in the place of the weights until the block ends."""
        if not self._ema_decay:
            yield
            return
        before = {name: _read(variable.value) for name, variable in self.variables.items()}
        self.take_average()
        try:
            yield
        finally:
            self._assign(before)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What to save: the weights to hand on, and all that going on needs besides.

        With an average, that is handed on, and the weights are `<variable>/trained` beside it.
        The arrays stay as they are when training goes on.
        """
        weights = {name: _read(variable.value) for name, variable in self.variables.items()}
        slots = {name: _read(slot) for name, slot in self.slots.items()}
        if not self._ema_decay:
            return weights, slots
        averages = {name: slots.pop(f"{name}/ema") for name in weights}
        return averages, slots | {f"{name}/trained": value for name, value in weights.items()}

    def load(self, weights: Mapping[str, np.ndarray], slots: Mapping[str, np.ndarray]) -> None:
        """Puts back what `state` gave."""
        if self._ema_decay:
            slots = {**slots, **{f"{name}/ema": value for name, value in weights.items()}}
            weights = {name: slots[f"{name}/trained"] for name in weights}
        self._assign(weights)
        for name, slot in self.slots.items():
            slot.assign(np.reshape(slots[name], slot.shape))

    def _assign(self, weights: Mapping[str, np.ndarray]) -> None:
        for name, value in weights.items():
            self.variables[name].assign(value)

    def _move_average(self, average: Any, weight: Any) -> None:
        average.assign_sub((1.0 - self._ema_decay) * (average - weight))

    def _rule(
        self, weight: Any, m: Any, v: Any, gradient: Any, rate: Any, decay: float, updates: Any
    ) -> None:
        """Updates one variable on one device; `updates` counts this one too."""
        raise NotImplementedError


class AdamWeightDecay(Optimizer):
    """`p -= rate * (m / (sqrt(v) + 1e-6) + decay * p)`, the moments uncorrected.

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """

    _counts = False

    def _rule(
        self, weight: Any, m: Any, v: Any, gradient: Any, rate: Any, decay: float, updates: Any
    ) -> None:
        # With both powers of beta at 0, TensorFlow's fused Adam has no bias correction: what is
        # left is the released update, in one pass over the memory.
        _decay(weight, rate, decay)
        _fused_adam(weight, m, v, gradient, rate, 0.0, 0.0, _EPSILON)


class AdamW(Optimizer):
    """`p -= rate * (m' / (sqrt(v') + 1e-6) + decay * p)`, the moments m', v' bias-corrected.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2.
    """

    def _rule(
        self, weight: Any, m: Any, v: Any, gradient: Any, rate: Any, decay: float, updates: Any
    ) -> None:
        power_1, power_2 = tf.pow(_BETA_1, updates), tf.pow(_BETA_2, updates)
        _decay(weight, rate, decay)
        # The kernel adds epsilon before it corrects v; so corrected, it is added after.
        _fused_adam(
            weight, m, v, gradient, rate, power_1, power_2, _EPSILON * tf.sqrt(1.0 - power_2)
        )


class Lamb(Optimizer):
    """AdamW whose change of each variable is scaled to the norm of the variable.

    A variable that does not decay (LayerNorm, biases) is not scaled either, as in the authors'
    code; a norm of 0 scales by 1.

    Source: You et al., Large Batch Optimization for Deep Learning, algorithm 2, with phi the
        identity.
    """

    def _rule(
        self, weight: Any, m: Any, v: Any, gradient: Any, rate: Any, decay: float, updates: Any
    ) -> None:
        m.assign(_BETA_1 * m + (1.0 - _BETA_1) * gradient)
        v.assign(_BETA_2 * v + (1.0 - _BETA_2) * tf.square(gradient))
        corrected_m = m / (1.0 - tf.pow(_BETA_1, updates))
        corrected_v = v / (1.0 - tf.pow(_BETA_2, updates))
        change = corrected_m / (tf.sqrt(corrected_v) + _EPSILON)
        if decay:
            change += decay * weight
            norm, change_norm = tf.norm(weight), tf.norm(change)
            usable = tf.logical_and(norm > 0, change_norm > 0)
            change *= tf.where(usable, tf.math.divide_no_nan(norm, change_norm), 1.0)
        weight.assign_sub(rate * change)


_KINDS = {"adam_weight_decay": AdamWeightDecay, "adamw": AdamW, "lamb": Lamb}


def make_optimizer(
    variables: Mapping[str, Any], config: TrainingConfig, depths: Mapping[str, int]
) -> Optimizer:
    """The optimizer that a run's config names.

    Args:
        variables: Trainable Keras variables by name.
        config: What defines the result.
        depths: How many layers each variable is above the input; only read with `layer_decay`.
    """
    scales = {}
    if config.layer_decay != 1.0:
        top = max(depths.values())
        scales = {name: config.layer_decay ** (top - depths[name]) for name in variables}
    return _KINDS[config.optimizer](
        variables,
        weight_decay_rate=config.weight_decay_rate,
        rate_scales=scales,
        ema_decay=config.ema_decay,
        scales_loss=config.precision == "float16",
    )


def _state(value: Any) -> tf.Variable:
    return tf.Variable(tf.cast(value, tf.float32), trainable=False)


def _read(variable: Any) -> np.ndarray:
    """The value. On a CPU nothing is copied: what updates the variable next copies it before."""
    return np.asarray(tf.convert_to_tensor(variable))


def _change(variable: Any, rule: Any, *arguments: Any) -> None:
    """Calls the rule with each device's copy of the variable and of the arguments."""
    strategy = tf.distribute.get_strategy()
    strategy.extended.update(variable, rule, args=arguments, group=False)


def _decay(weight: Any, rate: Any, decay: float) -> None:
    if decay:
        weight.assign(weight * (1.0 - rate * decay))


def _fused_adam(
    weight: Any, m: Any, v: Any, gradient: Any, rate: Any, power_1: Any, power_2: Any, epsilon: Any
) -> None:
    tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=power_1,
        beta2_power=power_2,
        lr=rate,
        beta1=_BETA_1,
        beta2=_BETA_2,
        epsilon=epsilon,
        grad=gradient,
    )


def _raise_scale(scale: Any, steps: Any) -> None:
    steps.assign_add(1.0)
    due = steps >= _STEPS_TO_RAISE
    scale.assign(tf.where(due, scale * 2.0, scale))
    steps.assign(tf.where(due, 0.0, steps))


def _lower_scale(scale: Any, steps: Any) -> None:
    scale.assign(tf.maximum(scale / 2.0, _LEAST_LOSS_SCALE))
    steps.assign(0.0)
