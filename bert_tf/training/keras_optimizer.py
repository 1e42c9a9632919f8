"""`AdamWeightDecay` and `WarmupSchedule`: the released optimizer in Keras.

They work in `compile` and `fit`, on each backend of Keras. On TensorFlow, both classes
call the functions of the engine.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_tf.errors import (
    InputError,
    check_at_least,
    check_between,
    check_choice,
    positive,
)
from bert_tf.training.step.schedule import scheduled_rate
from bert_tf.training.step.update_rules import Update, adam_weight_decay
from bert_tf.training.step.weight_decay import NO_DECAY, decays
from bert_tf.training.training_config import (
    ADAM_EPSILON,
    MAX_BETA,
    SCHEDULES,
    TrainingConfig,
)

# The options of Keras's optimizers that the base class implements, and the options that
# raise an error.
_OPTIONS = (
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "gradient_accumulation_steps",
)
_REFUSED = {
    "clipnorm": (
        "It would limit the norm of each gradient. Give clip_norm or global_clipnorm"
    ),
    "clipvalue": "Give clip_norm or global_clipnorm",
    "loss_scale_factor": "Use the dtype policy mixed_bfloat16",
    "weight_decay": "Give weight_decay_rate",
}
_ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


@keras.saving.register_keras_serializable("bert_tf")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up of the learning rate from 0, then a decay.

    Args:
        learning_rate: The peak learning rate.
        num_train_steps: The number of optimizer steps; the decay ends after this
            number.
        num_warmup_steps: The number of steps in which the learning rate rises from 0 to
            its peak.
        decay: "released": linear decay to 0 as in google-research/bert, counted from
            step 0, so that the rate drops at the end of the warm-up. "linear" or
            "cosine": decay from the peak at the end of the warm-up to 0. "constant": no
            decay.

    Call arguments:
        step: Integer scalar; the first step is 0.

    Returns:
        float32 scalar; 0 for step 0 if there is a warm-up.

    Raises:
        InputError: A value is out of range.

    Source: google-research/bert `optimization.create_optimizer`.
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        decay: str = "released",
    ) -> None:
        self.learning_rate = positive("learning_rate", learning_rate)
        self.num_train_steps = int(num_train_steps)
        self.num_warmup_steps = int(num_warmup_steps)
        self.decay = decay
        check_at_least(1, self, "num_train_steps")
        check_between(0, self.num_train_steps, self, "num_warmup_steps")
        check_choice(SCHEDULES, "decay", decay)

    def __call__(self, step: Any) -> Any:
        """Returns the learning rate of a step."""
        return scheduled_rate(
            ops.convert_to_tensor(step),
            self.learning_rate,
            num_train_steps=self.num_train_steps,
            num_warmup_steps=self.num_warmup_steps,
            decay=self.decay,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "decay": self.decay,
        }


@keras.saving.register_keras_serializable("bert_tf")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """The optimizer of google-research/bert: Adam with decay, no bias correction.

    A step sums the gradients over all replicas, clips them by their global norm, and
    updates each weight by `weight -= learning_rate * (m / (sqrt(v) + epsilon) +
    weight_decay_rate * weight)`, where m and v are the moments. For clipping, the norm
    of a sparse gradient of an embedding table counts the row of each look-up
    separately. JAX and PyTorch have no sparse gradients: there, the norm counts the sum
    of the rows of each word. A variable without a gradient does not change.

    The optimizer works in `compile` and `fit`, on one device, in a
    `keras.distribution.Distribution` (JAX) or in a `MirroredStrategy`, and in custom
    loops whose `strategy.run` calls `apply`. On several replicas of a strategy,
    `jit_compile` must be False. With `mixed_float16`, Keras wraps every optimizer in a
    `LossScaleOptimizer`; this raises an error, because the weights would become NaN.

    Args:
        learning_rate: A number, a schedule such as `WarmupSchedule`, or a function
            without arguments.
        weight_decay_rate: Decoupled weight decay; each step multiplies this rate by the
            learning rate.
        clip_norm: The largest global norm of the gradients; larger gradients are scaled
            down. None does not limit the norm.
        exclude_from_weight_decay: Regular expressions. A variable does not decay if its
            `path` contains a match of one of the expressions. By default, biases and
            the variables of normalization layers do not decay.
        name: Name of the optimizer.
        beta_1: Decay of the first moment (the average of the gradients), in [0, 1).
        beta_2: Decay of the second moment (the average of the squared gradients), in
            [0, 1).
        epsilon: The number that is added to the root of the second moment.
        global_clipnorm: The name of `clip_norm` in Keras; replaces `clip_norm` if it is
            given.
        **options: `use_ema`, `ema_momentum`, `ema_overwrite_frequency` and
            `gradient_accumulation_steps` of Keras's optimizers, with the same meaning.
            With accumulation, the mean gradient of `gradient_accumulation_steps`
            batches is clipped and applied, and a schedule counts batches, not updates.
            `gradient_accumulation_steps` and `ema_overwrite_frequency` work only on one
            replica.

    Raises:
        InputError: A value is out of range, or an option is not supported, such as
            `clipnorm`, `clipvalue` and `loss_scale_factor`. When the optimizer is used:
            the dtype policy is `mixed_float16`, or there are several replicas without
            an earlier call of `build`, or with `jit_compile`.

    Example:
        A pretraining step as in google-research/bert. The masked-LM loss is the mean
        over the predictions if `fit` gets `masked_lm_weights` as the sample weights of
        this output::

            cross_entropy = keras.losses.SparseCategoricalCrossentropy
            masked_lm = cross_entropy(
                from_logits=True, reduction="mean_with_sample_weight"
            )
            next_sentence = cross_entropy(from_logits=True)
            losses = {
                "masked_lm_logits": masked_lm,
                "next_sentence_logits": next_sentence,
            }
            schedule = WarmupSchedule(1e-4, 10000, num_warmup_steps=1000)
            model.compile(AdamWeightDecay(schedule), loss=losses)

    Source: google-research/bert `optimization.AdamWeightDecayOptimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 5e-5,
        weight_decay_rate: float = 0.01,
        clip_norm: float | None = 1.0,
        exclude_from_weight_decay: Sequence[str] = NO_DECAY,
        name: str = "adam_weight_decay",
        beta_1: float = TrainingConfig.adam_beta_1,
        beta_2: float = TrainingConfig.adam_beta_2,
        epsilon: float = ADAM_EPSILON,
        global_clipnorm: float | None = None,
        **options: Any,
    ) -> None:
        for refused, instead in _REFUSED.items():
            if options.pop(refused, None) is not None:
                raise InputError(
                    f"AdamWeightDecay does not support {refused}. {instead}."
                )

        # The base class keeps the schedule, the name and the options of `_OPTIONS`.
        if not callable(learning_rate):
            learning_rate = positive("learning_rate", learning_rate)
        super().__init__(learning_rate, name=name, **options)

        self.weight_decay_rate = float(weight_decay_rate)
        check_at_least(0, self, "weight_decay_rate")
        self.beta_1 = float(beta_1)
        self.beta_2 = float(beta_2)
        check_between(0, MAX_BETA, self, "beta_1", "beta_2")
        self.epsilon = positive("epsilon", epsilon)
        clip_norm = clip_norm if global_clipnorm is None else global_clipnorm
        self.clip_norm = (
            clip_norm if clip_norm is None else positive("clip_norm", clip_norm)
        )
        if isinstance(exclude_from_weight_decay, str):
            raise InputError(
                "exclude_from_weight_decay must be a list of regular expressions. "
                f"Received the string {exclude_from_weight_decay!r}. Give "
                f"[{exclude_from_weight_decay!r}]."
            )
        self._no_decay = tuple(exclude_from_weight_decay)
        # Outside of TensorFlow, the base class clips.
        self.global_clipnorm = None if _ON_TENSORFLOW else self.clip_norm

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the slots (moments) of the variables."""
        if self.built:
            return
        if _ON_TENSORFLOW:
            from bert_tf.training.tensorflow_step import keras_update

            keras_update.check_build()

        super().build(variables)
        # The order of the slots is that of the variables.
        self._adam_m, self._adam_v = (
            [
                self.add_variable_from_reference(variable, name=slot)
                for variable in variables
            ]
            for slot in ("adam_m", "adam_v")
        )
        self._weight_decay = [
            self.weight_decay_rate if decays(variable.path, self._no_decay) else 0.0
            for variable in variables
        ]

    def _backend_update_step(
        self,
        grads: Sequence[Any],
        trainable_variables: Sequence[Any],
        learning_rate: Any,
    ) -> None:
        """Updates the weights.

        On TensorFlow, Keras calls this method with the gradients of one replica. Keras
        clips before it calls this method, and the method of the base class sums over
        the replicas. But the sum must precede clipping: `keras_update` does both.
        """
        if not _ON_TENSORFLOW:
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        from bert_tf.training.tensorflow_step import keras_update

        indices = [
            self._get_variable_index(variable) for variable in trainable_variables
        ]
        keras_update.update_weights(
            trainable_variables,
            grads,
            learning_rate=learning_rate,
            slots=[(self._adam_m[index], self._adam_v[index]) for index in indices],
            weight_decay=[self._weight_decay[index] for index in indices],
            clip_norm=self.clip_norm,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
        )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight with its clipped gradient, on JAX and PyTorch.

        On TensorFlow, Keras does not call this method: there, the gradient is not yet
        summed over the replicas. If a version of Keras does, the method raises an
        error.
        """
        if _ON_TENSORFLOW:
            raise NotImplementedError
        index = self._get_variable_index(variable)
        m, v, decay = (
            self._adam_m[index],
            self._adam_v[index],
            self._weight_decay[index],
        )

        update = Update(
            {"adam_m": m, "adam_v": v},
            ops.cast(gradient, variable.dtype),
            learning_rate=ops.cast(learning_rate, variable.dtype),
            weight_decay=decay,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
        )
        value, moments = adam_weight_decay(ops.convert_to_tensor(variable), update)
        self.assign(m, moments["adam_m"])
        self.assign(v, moments["adam_v"])
        self.assign(variable, value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute; raises `InputError` if a `LossScaleOptimizer` wraps this optimizer."""
        # The constructor of the base class assigns `loss_scale_factor` for the first
        # time. `LossScaleOptimizer` assigns it to the optimizer that it wraps. Its
        # check for infinite gradients misses some rows of repeated words, and the
        # gradients of the other replicas.
        if name == "loss_scale_factor" and hasattr(self, name):
            raise InputError(
                "AdamWeightDecay does not work with mixed_float16: Keras's "
                "LossScaleOptimizer misses infinite gradients of word embeddings, and "
                "the weights become NaN. Use mixed_bfloat16, or bert_tf's Trainer with "
                "precision='float16'."
            )
        super().__setattr__(name, value)

    def exclude_from_weight_decay(
        self, var_list: Any = None, var_names: Any = None
    ) -> None:
        """Raises `InputError`: the constructor takes the excluded variables."""
        raise InputError(
            "AdamWeightDecay takes the excluded variables when it is created. Give "
            "AdamWeightDecay(exclude_from_weight_decay=[...]), a list of regular "
            "expressions."
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with a schedule as its config."""
        base = super().get_config()
        return {
            "name": base["name"],
            "learning_rate": base["learning_rate"],
            "weight_decay_rate": self.weight_decay_rate,
            "clip_norm": self.clip_norm,
            "exclude_from_weight_decay": list(self._no_decay),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            **{option: base[option] for option in _OPTIONS},
        }
