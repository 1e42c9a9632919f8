"""One optimizer step and one evaluation step, correct on any number of replicas."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf.errors import InputError
from bert_tf.training import schedule
from bert_tf.training.config import RuntimeConfig, TrainingConfig
from bert_tf.training.objective import Objective
from bert_tf.training.optimizer import AdamWeightDecay

Tensors = Mapping[str, Any]


def make_strategy(runtime: RuntimeConfig, global_batch_size: int) -> tf.distribute.Strategy:
    """The strategy whose scope model and optimizer are built in.

    Raises:
        InputError: The batch cannot be divided among the replicas, or there are fewer GPUs.
    """
    if runtime.distribution_strategy == "one_device":
        return tf.distribute.get_strategy()
    found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if runtime.num_gpus > len(found):
        raise InputError(f"num_gpus is {runtime.num_gpus}, but {len(found)} devices were found.")
    devices = [device.name for device in found[: runtime.num_gpus or None]]
    if global_batch_size % len(devices):
        raise InputError(
            f"The batch of {global_batch_size} cannot be divided among {len(devices)} devices. "
            f"Give a multiple of {len(devices)}."
        )
    return tf.distribute.MirroredStrategy(devices)


class Stepper:
    """Runs steps of an objective under the strategy it was built in.

    Args:
        objective: Built inside the scope of `strategy`.
        optimizer: Built inside the scope of `strategy`.
        config: What defines the result.
        strategy: Of `make_strategy`.
        jit_compile: Compile forward and backward pass with XLA.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: AdamWeightDecay,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy,
        jit_compile: bool = False,
    ) -> None:
        self._objective, self._optimizer, self._config = objective, optimizer, config
        self._strategy = strategy
        # Only forward and backward are compiled: the update of several replicas' variables
        # cannot be part of one XLA program.
        self._gradients = tf.function(self._gradients_eager, jit_compile=jit_compile)
        self.train = tf.function(self._train)
        self.evaluate = tf.function(self._evaluate, reduce_retracing=True)

    def _train(self, iterator: Any, step: Any, steps: Any) -> tuple[dict[str, Any], ...]:
        """Runs `steps` updates, the first being number `step` (both int64 scalars).

        Returns:
            Sums, counts, and what is reported of the updates themselves ("gradient_norm",
            "skipped": totals; "learning_rate": the last).
        """
        totals = self._step(next(iterator), step)
        for ahead in tf.range(tf.constant(1, tf.int64), steps):
            sums, counts, extra = self._step(next(iterator), step + ahead)
            added = tf.nest.map_structure(tf.add, totals, (sums, counts, extra))
            added[2]["learning_rate"] = extra["learning_rate"]
            totals = added
        return totals

    def _step(self, batch: Tensors, step: Any) -> tuple[dict[str, Any], ...]:
        results = self._strategy.run(self._replica_step, args=(batch, step))
        # The results are summed over the replicas already, and so the same on each.
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], results
        )

    def _replica_step(self, batch: Tensors, step: Any) -> tuple[dict[str, Any], ...]:
        context = tf.distribute.get_replica_context()
        part, replica = _own_part(batch, context)
        seed = tf.random.experimental.stateless_fold_in(
            tf.random.experimental.stateless_fold_in((self._config.seed, 0), step), replica
        )
        counts = _total(self._objective.counts(part), context)
        sums, gradients, squares = self._gradients(part, counts, seed)
        sums = _total(sums, context)
        names = [name for name, gradient in gradients.items() if gradient is not None]
        summed = context.all_reduce("SUM", [gradients[name] for name in names])
        norm = _norm(dict(zip(names, summed, strict=True)), _total(squares, context))
        finite = tf.math.is_finite(norm)
        scale = self._config.clip_norm / tf.maximum(norm, self._config.clip_norm)
        clipped = {name: value * scale for name, value in zip(names, summed, strict=True)}
        rate = schedule.released(
            step,
            self._config.learning_rate,
            self._config.num_train_steps,
            self._config.num_warmup_steps,
        )
        context.merge_call(self._update, args=(clipped, rate, finite))
        # A step that is left out counts in no mean.
        sums = {name: tf.where(finite, value, 0.0) for name, value in sums.items()}
        counts = {name: tf.where(finite, value, 0.0) for name, value in counts.items()}
        extra = {
            "gradient_norm": tf.where(finite, norm, 0.0),
            "skipped": tf.cast(~finite, tf.float32),
            "learning_rate": rate,
        }
        return sums, counts, extra

    def _gradients_eager(
        self, batch: Tensors, counts: Tensors, seed: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sums, gradients, and the sums of squares of the gradients that came as single rows.

        The released code takes the norm that it clips by over the rows that a table's lookup
        gives, before those of a repeated word are added. Where a table has another use too, as
        under the masked-LM head, its gradient comes whole and there are no rows.
        """
        variables = self._objective.variables
        with tf.GradientTape() as tape:
            sums = self._objective.sums(batch, training=True, seed=seed)
            loss = self._objective.loss(sums, counts)
        found = tape.gradient(loss, [variable.value for variable in variables.values()])
        gradients = dict(zip(variables, found, strict=True))
        squares = {
            name: tf.reduce_sum(gradient.values**2)
            for name, gradient in gradients.items()
            if isinstance(gradient, tf.IndexedSlices)
        }
        dense = {
            name: None if gradient is None else tf.convert_to_tensor(gradient)
            for name, gradient in gradients.items()
        }
        return sums, dense, squares

    def _update(
        self, strategy: tf.distribute.Strategy, gradients: Tensors, rate: Any, finite: Any
    ) -> None:
        """Applies the update, or leaves everything as it is where a gradient is not finite."""
        first = strategy.experimental_local_results

        def apply() -> Any:
            self._optimizer.apply(gradients, first(rate)[0])
            return tf.constant(True)

        tf.cond(first(finite)[0], apply, lambda: tf.constant(False))

    def _evaluate(self, batch: Tensors) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sums and counts of one batch, computed on one device."""
        return self._objective.sums(batch, training=False), self._objective.counts(batch)


def _norm(gradients: Tensors, squares: Tensors) -> Any:
    """The norm of all gradients together, of those in `squares` as it is given there."""
    whole = [gradient for name, gradient in gradients.items() if name not in squares]
    return tf.sqrt(tf.linalg.global_norm(whole) ** 2 + sum(squares.values()))


def _total(values: Tensors, context: Any) -> dict[str, Any]:
    """Sums of scalars over the replicas, in one reduction."""
    if context.num_replicas_in_sync == 1 or not values:
        return dict(values)
    stacked = context.all_reduce("SUM", tf.stack(list(values.values())))
    return dict(zip(values, tf.unstack(stacked, num=len(values)), strict=True))


def _own_part(batch: Tensors, context: Any) -> tuple[dict[str, Any], Any]:
    """This replica's share of the global batch, and which replica it is."""
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return dict(batch), 0
    replica = context.replica_id_in_sync_group
    parts = {name: tf.stack(tf.split(value, replicas))[replica] for name, value in batch.items()}
    return parts, replica
