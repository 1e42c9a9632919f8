"""`TensorFlowStepRunner`: steps that are correct on any number of replicas."""

import functools
import time
from typing import Any

import tensorflow as tf

from bert_tf.training.step import debug_nans
from bert_tf.training.step.objective import (
    ORIGIN,
    Objective,
    Tensors,
    combine,
    compares_examples,
)
from bert_tf.training.step.step_result import (
    MAX_BAD_STEPS,
    StepResult,
    check_batch_size,
    learning_rate,
    reported,
    without_origin,
)
from bert_tf.training.tensorflow_step import compared_examples
from bert_tf.training.tensorflow_step.gradient_clipping import (
    clip_gradients,
    squares_of_rows,
    sum_over_replicas,
    to_dense,
)
from bert_tf.training.tensorflow_step.optimizer import TensorFlowOptimizer
from bert_tf.training.tensorflow_step.strategy import make_strategy
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

# The feature of a batch with the gradients of a loss with respect to compared values.
_UPSTREAM = "upstream"


class TensorFlowStepRunner:
    """Runs training and evaluation steps of an objective.

    The objective must be built inside the scope of `make_strategy(runtime)`.

    Raises:
        InputError: The batch does not divide evenly among replicas and accumulation
            steps.
    """

    def __init__(
        self,
        objective: Objective,
        config: TrainingConfig,
        runtime: RuntimeConfig = RuntimeConfig(),  # noqa: B008 it is immutable
    ) -> None:
        self._objective = objective
        self._config = config
        self._strategy = make_strategy(runtime)
        self._runtime = runtime
        check_batch_size(config, runtime, self._strategy.num_replicas_in_sync)
        with self._strategy.scope():
            depths = objective.depths if config.layer_decay != 1 else None
            self.optimizer = TensorFlowOptimizer(objective.variables, config, depths)

        # AutoGraph converts Python statements to graph operations. It takes seconds, so
        # nothing uses it. XLA compiles only the forward and backward pass, because one
        # XLA program cannot update the variables of several replicas.
        self._gradients = tf.function(
            self._compute_gradients, jit_compile=runtime.jit_compile, autograph=False
        )
        self._compared_values = tf.function(
            self._compute_values, jit_compile=runtime.jit_compile, autograph=False
        )
        self._value_gradients = tf.function(
            self._compute_value_gradients,
            jit_compile=runtime.jit_compile,
            autograph=False,
        )
        self._train_steps = tf.function(self._loop_over_steps, autograph=False)
        self._train_step = tf.function(self._step, autograph=False)
        self._evaluate = tf.function(
            self._evaluate_on_replicas, reduce_retracing=True, autograph=False
        )

    def train(
        self,
        iterator: Any,
        step: int,
        steps: int,
        bad_in_a_row: int = 0,
        elapsed_secs: float = 0.0,
        parts: int = 1,
    ) -> StepResult:
        """Runs `steps` steps in one graph call.

        Runs fewer steps if `MAX_BAD_STEPS` in a row are bad, or if the time budget is
        used up. With `debug_nans`, runs one step, and if it is bad, finds the layer
        that is the cause.

        Args:
            iterator: Yields global batches, or this process's parts of them.
            step: Index of the first step, counted from the start of the run, from 0.
            bad_in_a_row: The number of consecutive bad steps directly before `step`.
            elapsed_secs: The seconds of training so far; used only with a time budget.
            parts: The number of processes that each have a part of a global batch; 1 if
                all have the whole batch.
        """
        numbers = [
            tf.constant(number, tf.int64) for number in (step, steps, bad_in_a_row)
        ]
        # The time at which training would have started without pauses, on the clock of
        # `tf.timestamp`. Each graph call gets a new value, so that a change of the
        # system clock affects one call only.
        start = tf.constant(time.time() - elapsed_secs, tf.float64)
        cause = ""
        if not self._runtime.debug_nans:
            totals, done, bad, origin = self._train_steps(
                iterator, *numbers, start, parts
            )
        else:
            batch = next(iterator)
            *totals, is_bad = self._train_step(batch, numbers[0], start, parts)
            done = 1
            bad = is_bad * (bad_in_a_row + 1)
            origin = _origin(batch)
            if is_bad:
                features = without_origin(batch)
                cause = debug_nans.find_cause(
                    self._objective, features, self._seed(step, 0), self._gradients_of
                )

        sums, counts, scalars = (
            {name: float(value) for name, value in values.items()} for values in totals
        )
        return StepResult(
            int(done),
            sums,
            counts=counts,
            scalars=scalars,
            bad_in_a_row=int(bad),
            bad_origin=origin.numpy(),
            cause=cause,
        )

    def evaluate(self, batch: Tensors) -> tuple[Tensors, Tensors]:
        """Runs the model on one batch without dropout, and returns sums and counts.

        The batch is split over the replicas if its size is a multiple of the number of
        replicas.
        """
        return self._evaluate(without_origin(batch))

    def _loop_over_steps(
        self, iterator: Any, step: Any, steps: Any, bad: Any, start: Any, parts: int
    ) -> tuple[Any, ...]:
        # The graph of a step is large: tracing and optimizing it take seconds. So the
        # step is one function, with a single call in the body of the loop, and the
        # totals start at 0.
        run_step = self._train_step.get_concrete_function(
            iterator.element_spec,
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([], tf.float64),
            parts,
        )
        *results, _ = run_step.structured_outputs

        # Totals of float32 values are exact in float64. They do not depend on how the
        # steps are divided among graph calls, and the log entries of a resumed run are
        # the same.
        totals = tf.nest.map_structure(
            lambda _: tf.zeros([], tf.float64), tuple(results)
        )
        done, origin = tf.constant(0, tf.int64), tf.zeros([0, 2], tf.int64)

        def continues(done: Any, bad: Any, _: Any, totals: Any) -> Any:
            is_due = tf.logical_and(done < steps, bad < MAX_BAD_STEPS)
            if self._config.time_budget_secs:
                _, _, scalars = totals
                is_due = tf.logical_and(is_due, scalars["time_budget_used"] < 1.0)
            return is_due

        def run_next(done: Any, bad: Any, origin: Any, totals: Any) -> tuple[Any, ...]:
            batch = iterator.get_next()
            *results, is_bad = run_step(batch, step + done, start, parts)
            results = tf.nest.map_structure(
                lambda value: tf.cast(value, tf.float64), tuple(results)
            )
            return (
                done + 1,
                (bad + 1) * is_bad,
                tf.cond(is_bad > 0, lambda: _origin(batch), lambda: origin),
                tuple(map(combine, totals, results)),
            )

        # All values are scalars, except for the origin of any number of examples.
        scalar = tf.TensorShape([])
        of_totals = tf.nest.map_structure(lambda _: scalar, totals)
        done, bad, origin, totals = tf.while_loop(
            continues,
            run_next,
            (done, bad, origin, totals),
            (scalar, scalar, tf.TensorShape([None, 2]), of_totals),
            parallel_iterations=1,
        )
        return totals, done, bad, origin

    def _step(
        self, batch: Tensors, step: Any, start: Any, parts: int = 1
    ) -> tuple[Any, ...]:
        """Runs one step; `start` is the start of training in seconds, see `train`.

        Returns sums, counts and scalars for all replicas together, and 1 for a bad
        step, else 0.
        """
        # The clock is read outside of `run`: a TPU has no clock, and one call runs many
        # steps.
        elapsed = (
            tf.timestamp() - start if self._config.time_budget_secs else tf.zeros([])
        )
        return self._run_on_replicas(
            functools.partial(self._replica_step, parts=parts),
            without_origin(batch),
            step,
            tf.cast(elapsed, tf.float32),
        )

    def _run_on_replicas(self, function: Any, *arguments: Any) -> Any:
        """Runs a function on all replicas; returns the results of one, which equal the others."""
        results = self._strategy.run(function, args=arguments)
        first = self._strategy.experimental_local_results
        return tf.nest.map_structure(lambda value: first(value)[0], results)

    def _replica_step(
        self, batch: Tensors, step: Any, elapsed_secs: Any, parts: int
    ) -> tuple[Any, ...]:
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        config = self._config

        # The numerators and gradients of this replica's part of the batch, divided by
        # the denominators of the whole batch.
        replicas = context.num_replicas_in_sync // parts
        part = _part_of_batch(batch, replicas, replica % replicas)
        counts = _all_reduce(self._objective.counts(part), context)
        loss_scale = self.optimizer.loss_scale
        sums, gradients, squares = self._accumulate_gradients(
            part, counts, self._seed(step, replica), loss_scale, context
        )

        # Their sums over the replicas, which are equal on all of them.
        sums = _all_reduce(sums, context)
        gradients, squares = sum_over_replicas(gradients, squares)
        clipped, norm = clip_gradients(gradients, squares, config.clip_norm, loss_scale)
        finite = tf.math.is_finite(norm)

        # The update, if all gradients are finite.
        schedule_step = self._schedule_step(step, elapsed_secs, context)
        rate = learning_rate(schedule_step, config)
        context.merge_call(self._apply_or_skip, args=(clipped, rate, finite))
        sums, counts, scalars, is_bad = reported(
            sums, counts, norm=norm, loss_scale=loss_scale, rate=rate
        )
        if config.time_budget_secs:
            scalars["time_budget_used"] = schedule_step / config.num_train_steps
        return sums, counts, scalars, tf.cast(is_bad, tf.int64)

    def _schedule_step(self, step: Any, elapsed_secs: Any, context: Any) -> Any:
        """Returns the step, float32, that determines the learning rate.

        With a time budget, this step is the used share of the budget, times the number
        of training steps. The share is the mean over the replicas, because the clocks
        of the workers differ, and all workers must use the same learning rate and stop
        after the same step.
        """
        budget = self._config.time_budget_secs
        if not budget:
            return tf.cast(step, tf.float32)
        total = _all_reduce({"elapsed_secs": elapsed_secs}, context)["elapsed_secs"]
        used = tf.clip_by_value(total / context.num_replicas_in_sync / budget, 0.0, 1.0)
        return used * self._config.num_train_steps

    def _seed(self, step: Any, replica: Any) -> Any:
        fold_in = tf.random.experimental.stateless_fold_in
        step = tf.cast(step, tf.int64)  # an int32 gives another seed
        return fold_in(fold_in((self._config.seed, 0), step), replica)

    def _accumulate_gradients(
        self, batch: Tensors, counts: Tensors, seed: Any, loss_scale: Any, context: Any
    ) -> tuple[Tensors, ...]:
        """Sums the results of `_compute_gradients` over the parts of a replica's batch."""
        steps = self._runtime.gradient_accumulation_steps
        is_whole = steps == 1 and context.num_replicas_in_sync == 1
        if is_whole or not compares_examples(self._objective):
            return self._add_parts(
                batch, seed, lambda *part: self._gradients(*part, counts, loss_scale)
            )

        # The loss compares examples of all parts, whose values are computed first.
        values = self._join_parts(batch, seed)
        sums, upstream = compared_examples.share_of_loss(
            self._objective, values, counts, loss_scale, context
        )
        _, gradients, squares = self._add_parts(
            {**batch, _UPSTREAM: upstream}, seed, self._value_gradients
        )
        return sums, gradients, squares

    def _add_parts(
        self, batch: Tensors, seed: Any, compute: Any
    ) -> tuple[Tensors, ...]:
        """Adds the sums, gradients and squared norms that `compute` returns for each part."""
        parts = self._runtime.gradient_accumulation_steps
        if parts == 1:
            return compute(batch, seed)

        def of_part(index: Any) -> tuple[Tensors, ...]:
            sums, gradients, squares = compute(
                *_numbered_part(batch, seed, parts, index)
            )
            return sums, to_dense(gradients), squares

        def add_part(index: Any, totals: Any) -> tuple[Any, Any]:
            return index + 1, tf.nest.map_structure(tf.add, totals, of_part(index))

        # One part at a time is in memory.
        _, totals = tf.while_loop(
            lambda index, _: index < parts,
            add_part,
            (tf.constant(1), of_part(tf.constant(0))),
            parallel_iterations=1,
        )
        return totals

    def _join_parts(self, batch: Tensors, seed: Any) -> Tensors:
        """Returns the compared values of a replica's batch, of one part at a time."""
        parts = self._runtime.gradient_accumulation_steps
        if parts == 1:
            return self._compared_values(batch, seed)

        def of_part(index: Any) -> Tensors:
            return self._compared_values(*_numbered_part(batch, seed, parts, index))

        first = of_part(tf.constant(0))
        dtypes = tf.nest.map_structure(lambda value: value.dtype, first)
        others = tf.map_fn(
            of_part,
            tf.range(1, parts),
            parallel_iterations=1,
            fn_output_signature=dtypes,
        )
        return {
            name: tf.concat([value, _merge_parts(others[name])], axis=0)
            for name, value in first.items()
        }

    def _compute_values(self, batch: Tensors, seed: Any) -> Tensors:
        objective: Any = self._objective  # a `ComparingObjective`
        return dict(objective.compared_values(batch, training=True, seed=seed))

    def _compute_value_gradients(
        self, batch: Tensors, seed: Any
    ) -> tuple[Tensors, ...]:
        """Returns no sums, and gradients and norms for the gradients of the values."""
        batch = dict(batch)
        upstream = batch.pop(_UPSTREAM)
        with tf.GradientTape() as tape:
            values = self._compute_values(batch, seed)
            products = [
                tf.reduce_sum(values[name] * gradient)
                for name, gradient in upstream.items()
            ]
            total = tf.add_n(products)
        gradients = self._existing_gradients(tape, total)
        return {}, gradients, squares_of_rows(gradients)

    def _compute_gradients(
        self, batch: Tensors, seed: Any, counts: Tensors, loss_scale: Any
    ) -> tuple[Tensors, ...]:
        """Returns sums, gradients, and the squared norms of sparse gradients."""
        with tf.GradientTape() as tape:
            sums = self._objective.sums(batch, training=True, seed=seed)
            loss = self._objective.loss(sums, counts) * loss_scale
        gradients = self._existing_gradients(tape, loss)
        return sums, gradients, squares_of_rows(gradients)

    def _existing_gradients(self, tape: Any, loss: Any) -> Tensors:
        """Returns the gradients of the variables on which the loss depends."""
        variables = self._objective.variables.items()
        gradients = tape.gradient(
            loss, {name: variable.value for name, variable in variables}
        )
        return {name: value for name, value in gradients.items() if value is not None}

    def _gradients_of(self, batch: Tensors, seed: Any) -> Tensors:
        """Computes the gradients of a batch eagerly."""
        with tf.GradientTape() as tape:
            sums = self._objective.sums(batch, training=True, seed=seed)
            loss = self._objective.loss(sums, self._objective.counts(batch))
        return to_dense(self._existing_gradients(tape, loss))

    def _apply_or_skip(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Tensors,
        rate: Any,
        finite: Any,
    ) -> None:
        """Applies the update, or skips the step if a gradient is not finite."""
        first = strategy.experimental_local_results

        def apply() -> Any:
            self.optimizer.apply(gradients, first(rate)[0])
            return tf.constant(True)

        def skip() -> Any:
            self.optimizer.skip()
            return tf.constant(False)

        tf.cond(first(finite)[0], apply, skip)

    def _evaluate_on_replicas(self, batch: Tensors) -> tuple[Tensors, ...]:
        return self._run_on_replicas(self._replica_evaluate, batch)

    def _replica_evaluate(self, batch: Tensors) -> tuple[Tensors, ...]:
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        replica = context.replica_id_in_sync_group
        size = next(iter(batch.values())).shape[0]

        # If a batch does not divide evenly or has no parts, each replica evaluates the
        # complete batch, and only the results of the first replica count.
        weight = 1.0
        is_divisible = size is not None and size % replicas == 0
        if is_divisible and not compares_examples(self._objective):
            batch = _part_of_batch(batch, replicas, replica)
        elif replicas > 1:
            weight = tf.cast(tf.equal(replica, 0), tf.float32)

        return tuple(
            _all_reduce(
                {name: value * weight for name, value in values.items()}, context
            )
            for values in (
                self._objective.sums(batch, training=False),
                self._objective.counts(batch),
            )
        )


def _origin(batch: Tensors) -> Any:
    return batch.get(ORIGIN, tf.zeros([0, 2], tf.int64))


def _all_reduce(values: Tensors, context: Any) -> Tensors:
    """Sums scalars over the replicas in one reduction."""
    if context.num_replicas_in_sync == 1 or not values:
        return dict(values)
    stacked = context.all_reduce("SUM", tf.stack(list(values.values())))
    return dict(zip(values, tf.unstack(stacked, num=len(values)), strict=True))


def _part_of_batch(batch: Tensors, parts: int, index: Any) -> Tensors:
    """Splits a batch into equal parts, and returns the part with the given index."""
    if parts == 1:
        return dict(batch)
    return tf.nest.map_structure(
        lambda value: tf.stack(tf.split(value, parts))[index], dict(batch)
    )


def _numbered_part(
    batch: Tensors, seed: Any, parts: int, index: Any
) -> tuple[Tensors, Any]:
    """Returns a part of a batch, and its seed."""
    part_seed = tf.random.experimental.stateless_fold_in(seed, index)
    return _part_of_batch(batch, parts, index), part_seed


def _merge_parts(values: Any) -> Any:
    """Reshapes [N, B, ...] to [N * B, ...]."""
    return tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], axis=0))
