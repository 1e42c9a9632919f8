"""One optimizer step and one evaluation step, correct on any number of replicas."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.training import nans, schedule
from bert_tf.training.config import TrainingConfig
from bert_tf.training.objective import ORIGIN, Objective
from bert_tf.training.optimizer import Optimizer

Tensors = Mapping[str, Any]
MOST_BAD_STEPS = 3


@dataclasses.dataclass(frozen=True)
class Result:
    """What steps in the graph gave, totals over all replicas.

    Attributes:
        steps: How many were done.
        sums: Numerators of the objective.
        counts: Denominators of the objective.
        gradient_norm: Sum over the steps of the norm before clipping.
        skipped: Steps that were left out because a gradient was not finite.
        learning_rate: Of the last step.
        bad_in_a_row: How many of the last steps were bad, those before these steps included: left
            out for another reason than a loss scale that can still fall.
        bad_origin: int64 [B, 2], where the examples of the last bad step came from; empty where
            the batches do not say.
        why_bad: Of `train_checked`: where a number stops being finite.
    """

    steps: int
    sums: dict[str, float]
    counts: dict[str, float]
    gradient_norm: float
    skipped: float
    learning_rate: float
    bad_in_a_row: int
    bad_origin: np.ndarray
    why_bad: str = ""


class Stepper:
    """Runs steps of an objective under the strategy it was built in.

    Args:
        objective: Built inside the scope of `strategy`.
        optimizer: Built inside the scope of `strategy`.
        config: What defines the result.
        strategy: Of `make_strategy`.
        jit_compile: Compile forward and backward pass with XLA.
        accumulation_steps: Parts that a replica's share of a batch is computed in.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: Optimizer,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy,
        jit_compile: bool = False,
        accumulation_steps: int = 1,
    ) -> None:
        self._objective, self._optimizer, self._config = objective, optimizer, config
        self._strategy, self._parts = strategy, accumulation_steps
        # Only forward and backward are compiled: the update of several replicas' variables
        # cannot be part of one XLA program.
        self._gradients = tf.function(self._gradients_eager, jit_compile=jit_compile)
        self._loop = tf.function(self._steps)
        self._one_step = tf.function(self._step)
        self._evaluate = tf.function(self._evaluate_split, reduce_retracing=True)

    def train(self, iterator: Any, step: int, steps: int, bad_in_a_row: int = 0) -> Result:
        """Runs steps in the graph, until `MOST_BAD_STEPS` in a row are bad.

        Args:
            iterator: Gives global batches.
            step: Number of the first step: the steps done before.
            steps: How many to do.
            bad_in_a_row: How many of the steps before were bad.
        """
        numbers = [tf.constant(number, tf.int64) for number in (step, steps, bad_in_a_row)]
        totals, done, bad, origin = self._loop(iterator, *numbers)
        return _result(totals, int(done), int(bad), origin.numpy())

    def train_checked(self, iterator: Any, step: int, steps: int, bad_in_a_row: int = 0) -> Result:
        """`train` for one step only, which says of a bad one where a number stops being finite."""
        batch = next(iterator)
        totals = self._one_step(batch, tf.constant(step, tf.int64))
        bad, why = int(totals[2]["bad"]), ""
        if bad:
            why = nans.explain(self._objective, _without_origin(batch), self._seed(step, 0))
        return _result(totals, 1, bad * (bad_in_a_row + 1), _origin(batch).numpy(), why)

    def evaluate(self, batch: Tensors) -> tuple[dict[str, Any], dict[str, Any]]:
        """Sums and counts of one batch, dropout off; split over the replicas where it can be."""
        return self._evaluate(_without_origin(batch))

    def _steps(self, iterator: Any, step: Any, steps: Any, bad: Any) -> tuple[Any, ...]:
        batch = next(iterator)
        totals = self._step(batch, step)
        done = tf.constant(1, tf.int64)
        bad = (bad + 1) * totals[2]["bad"]
        origin = _origin(batch)
        while tf.logical_and(done < steps, bad < MOST_BAD_STEPS):
            batch = next(iterator)
            sums, counts, extra = self._step(batch, step + done)
            done += 1
            bad = (bad + 1) * extra["bad"]
            origin = tf.where(extra["bad"] > 0, _origin(batch), origin)
            added = tf.nest.map_structure(tf.add, totals, (sums, counts, extra))
            added[2]["learning_rate"] = extra["learning_rate"]
            totals = added
        return totals, done, bad, origin

    def _step(self, batch: Tensors, step: Any) -> tuple[dict[str, Any], ...]:
        """One update.

        Returns:
            Sums, counts, and what is reported of the update itself, each a total over the replicas.
        """
        results = self._strategy.run(self._replica_step, args=(_without_origin(batch), step))
        # The results are summed over the replicas already, and so the same on each.
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], results
        )

    def _replica_step(self, batch: Tensors, step: Any) -> tuple[dict[str, Any], ...]:
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        part = _own_part(batch, context.num_replicas_in_sync, replica)
        seed = self._seed(step, replica)
        counts = _total(self._objective.counts(part), context)
        scale = self._optimizer.loss_scale
        sums, gradients, squares = self._accumulated(part, counts, seed, scale)
        sums = _total(sums, context)
        names = list(gradients)
        summed = context.all_reduce("SUM", [gradients[name] for name in names])
        norm = _norm(dict(zip(names, summed, strict=True)), _total(squares, context)) / scale
        finite = tf.math.is_finite(norm)
        factor = self._config.clip_norm / (tf.maximum(norm, self._config.clip_norm) * scale)
        clipped = {name: value * factor for name, value in zip(names, summed, strict=True)}
        rate = schedule.learning_rate(step, self._config)
        bad = tf.logical_and(~finite, self._optimizer.lowest_loss_scale)
        context.merge_call(self._update, args=(clipped, rate, finite))
        # A step that is left out counts in no mean.
        sums = {name: tf.where(finite, value, 0.0) for name, value in sums.items()}
        counts = {name: tf.where(finite, value, 0.0) for name, value in counts.items()}
        extra = {
            "gradient_norm": tf.where(finite, norm, 0.0),
            "skipped": tf.cast(~finite, tf.float32),
            "learning_rate": rate,
            "bad": tf.cast(bad, tf.int64),
        }
        return sums, counts, extra

    def _seed(self, step: Any, replica: Any) -> Any:
        fold_in = tf.random.experimental.stateless_fold_in
        return fold_in(fold_in((self._config.seed, 0), step), replica)

    def _accumulated(
        self, batch: Tensors, counts: Tensors, seed: Any, scale: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """`_gradients` of the batch, computed in parts one after the other."""
        if self._parts == 1:
            return self._gradients(batch, counts, seed, scale)

        def of_part(index: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
            part = _own_part(batch, self._parts, index)
            folded = tf.random.experimental.stateless_fold_in(seed, index)
            return self._gradients(part, counts, folded, scale)

        totals = of_part(tf.constant(0))
        for index in tf.range(1, self._parts):
            totals = tf.nest.map_structure(tf.add, totals, of_part(index))
        return totals

    def _gradients_eager(
        self, batch: Tensors, counts: Tensors, seed: Any, scale: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sums, gradients, and the sums of squares of the gradients that came as single rows.

        The released code takes the norm that it clips by over the rows that a table's lookup
        gives, before those of a repeated word are added. Where a table has another use too, as
        under the masked-LM head, its gradient comes whole and there are no rows.
        """
        variables = self._objective.variables
        with tf.GradientTape() as tape:
            sums = self._objective.sums(batch, training=True, seed=seed)
            loss = self._objective.loss(sums, counts) * scale
        found = tape.gradient(loss, [variable.value for variable in variables.values()])
        gradients = {
            name: gradient
            for name, gradient in zip(variables, found, strict=True)
            if gradient is not None
        }
        squares = {
            name: tf.reduce_sum(gradient.values**2)
            for name, gradient in gradients.items()
            if isinstance(gradient, tf.IndexedSlices)
        }
        dense = {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}
        return sums, dense, squares

    def _update(
        self, strategy: tf.distribute.Strategy, gradients: Tensors, rate: Any, finite: Any
    ) -> None:
        """Applies the update, or leaves everything as it is where a gradient is not finite."""
        first = strategy.experimental_local_results

        def apply() -> Any:
            self._optimizer.apply(gradients, first(rate)[0])
            return tf.constant(True)

        def skip() -> Any:
            self._optimizer.skip()
            return tf.constant(False)

        tf.cond(first(finite)[0], apply, skip)

    def _evaluate_split(self, batch: Tensors) -> tuple[dict[str, Any], ...]:
        results = self._strategy.run(self._replica_evaluate, args=(batch,))
        return tf.nest.map_structure(
            lambda value: self._strategy.experimental_local_results(value)[0], results
        )

    def _replica_evaluate(self, batch: Tensors) -> tuple[dict[str, Any], ...]:
        context = tf.distribute.get_replica_context()
        replicas, replica = context.num_replicas_in_sync, context.replica_id_in_sync_group
        size = next(iter(batch.values())).shape[0]
        # A batch that cannot be divided is computed by all and counted by the first.
        share = 1.0
        if size is not None and size % replicas == 0:
            batch = _own_part(batch, replicas, replica)
        elif replicas > 1:
            share = tf.cast(tf.equal(replica, 0), tf.float32)
        both = self._objective.sums(batch, training=False), self._objective.counts(batch)
        sums, counts = (
            _total({name: value * share for name, value in part.items()}, context) for part in both
        )
        return sums, counts


def _result(
    totals: tuple[dict[str, Any], ...], steps: int, bad: int, origin: np.ndarray, why: str = ""
) -> Result:
    sums, counts, extra = map(_floats, totals)
    return Result(
        steps, sums, counts, extra["gradient_norm"], extra["skipped"], extra["learning_rate"],
        bad_in_a_row=bad, bad_origin=origin, why_bad=why,
    )  # fmt: skip


def _floats(values: Tensors) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _without_origin(batch: Tensors) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if name != ORIGIN}


def _origin(batch: Tensors) -> Any:
    return batch.get(ORIGIN, tf.zeros([0, 2], tf.int64))


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


def _own_part(batch: Tensors, parts: int, index: Any) -> dict[str, Any]:
    """Part number `index` of the batch in `parts` equal parts."""
    if parts == 1:
        return dict(batch)
    split = {name: tf.split(value, parts) for name, value in batch.items()}
    return {name: tf.stack(pieces)[index] for name, pieces in split.items()}
