"""`JaxStepRunner`: one compiled program for each shape of a batch."""

import collections
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bert_tf.training.jax_step.gradients import value_and_gradients
from bert_tf.training.jax_step.mesh import JaxDevices, local
from bert_tf.training.jax_step.optimizer import JaxOptimizer
from bert_tf.training.jax_step.stateless import (
    to_arrays,
    tracing,
    values_of,
    with_weights,
)
from bert_tf.training.step import debug_nans
from bert_tf.training.step.objective import (
    ORIGIN,
    Metrics,
    Objective,
    Tensors,
    add_to_totals,
    combine,
    compares_examples,
)
from bert_tf.training.step.step_result import (
    MAX_BAD_STEPS,
    StepResult,
    check_batch_size,
    clip_factor,
    learning_rate,
    reported,
    without_origin,
)
from bert_tf.training.training_config import RuntimeConfig, TrainingConfig

# Steps that are computed while the loop prepares the next one.
_STEPS_IN_FLIGHT = 1


class _Totals:
    """Adds the results of steps, in float64, up to the step that ends training."""

    def __init__(self, bad_in_a_row: int) -> None:
        self.bad_in_a_row = bad_in_a_row
        self._steps = 0
        self._totals: tuple[Metrics, Metrics, Metrics] = {}, {}, {}
        self._bad_origin: np.ndarray = np.zeros([0, 2], np.int64)

    def add(self, results: Any, used: float | None, origin: np.ndarray | None) -> None:
        """Adds what `reported` returned for a step; waits until the step is computed.

        `used` is the used share of the time budget, if there is one.
        """
        # The step before may have ended training while this step was computed.
        if self.bad_in_a_row >= MAX_BAD_STEPS:
            return
        *values, is_bad = jax.device_get(results)
        sums, counts, scalars = self._totals
        add_to_totals(sums, values[0])
        add_to_totals(counts, values[1])
        scalars |= combine(
            scalars, {name: float(values[2][name]) for name in values[2]}
        )
        if used is not None:
            scalars["time_budget_used"] = used

        self._steps += 1
        self.bad_in_a_row = (self.bad_in_a_row + 1) * bool(is_bad)
        if is_bad and origin is not None:
            self._bad_origin = origin

    def result(self, cause: str) -> StepResult:
        """Returns the result of all steps."""
        return StepResult(
            self._steps,
            *self._totals,
            bad_in_a_row=self.bad_in_a_row,
            bad_origin=self._bad_origin,
            cause=cause,
        )


class _DeviceCopies:
    """Arrays on all devices, and this process's copies of them after the last step."""

    def __init__(self, devices: JaxDevices) -> None:
        self._devices = devices
        self._arrays: Tensors = {}
        self._copies: Tensors = {}

    def of(self, values: Tensors) -> Tensors:
        """Returns arrays with these values, which are copied if they are not the known ones."""
        if any(self._copies.get(name) is not values[name] for name in values):
            # A step reuses the memory of its arrays, but `values` keep theirs.
            arrays = self._devices.replicated(jax.tree.map(np.array, dict(values)))
            self.keep(arrays, values)
        return self._arrays

    def keep(self, arrays: Tensors, copies: Tensors) -> None:
        """Replaces the arrays and this process's copies of them."""
        self._arrays, self._copies = arrays, dict(copies)


class JaxStepRunner:
    """Runs training and evaluation steps of an objective on all devices of a run.

    The result does not depend on the number of devices, dropout included, because JAX
    draws the masks for the global batch.

    Raises:
        InputError: The batch does not divide evenly among devices and accumulation
            steps.
    """

    def __init__(
        self,
        objective: Objective,
        config: TrainingConfig,
        runtime: RuntimeConfig,
        devices: JaxDevices,
    ) -> None:
        check_batch_size(config, runtime, devices.replicas)
        self._objective = objective
        self._config = config
        self._runtime = runtime
        self._devices = devices
        self._sums = with_weights(objective.sums, objective.variables)
        if compares_examples(objective):
            self._compared_values = with_weights(
                objective.compared_values, objective.variables
            )
        depths = objective.depths if config.layer_decay != 1 else None
        self.optimizer = JaxOptimizer(objective.variables, config, depths)

        self._weights, self._slots = _DeviceCopies(devices), _DeviceCopies(devices)
        self._train = jax.jit(
            self._step, donate_argnums=0, out_shardings=(devices.one_copy_each, None)
        )
        self._evaluate = jax.jit(self._sums_and_counts)

    def train(
        self,
        iterator: Any,
        step: int,
        steps: int,
        bad_in_a_row: int = 0,
        elapsed_secs: float = 0.0,
        parts: int = 1,
    ) -> StepResult:
        """Runs `steps` steps; the arguments are those of `TensorFlowStepRunner.train`."""
        start = time.monotonic() - elapsed_secs
        num_steps = self._config.num_train_steps
        state = self._present_weights(), self._slots.of(self.optimizer.slots)
        totals = _Totals(bad_in_a_row)
        running: collections.deque[Any] = collections.deque()
        in_flight = 0 if self._runtime.debug_nans else _STEPS_IN_FLIGHT
        cause = ""
        try:
            for number in range(step, step + steps):
                # The clock is read before a batch, so no batch is read in vain.
                used = self._used_share(start)
                schedule_step = number if used is None else used * num_steps
                batch = to_arrays(next(iterator))
                features = self._divided(without_origin(batch), parts)
                # Random masks are the same whatever the number of devices.
                with jax.threefry_partitionable(True):
                    state, results = self._train(
                        state, features, np.int32(number), np.float32(schedule_step)
                    )
                running.append((results, used, batch.get(ORIGIN)))
                if len(running) > in_flight:
                    totals.add(*running.popleft())

                if self._runtime.debug_nans and totals.bad_in_a_row:
                    self._store(state)
                    cause = self._cause(without_origin(batch), number)
                if cause or used == 1.0 or totals.bad_in_a_row >= MAX_BAD_STEPS:
                    break
            for each in running:
                totals.add(*each)
        finally:
            # A step reuses the memory of the state before it.
            self._store(state)
        return totals.result(cause)

    def evaluate(self, batch: Tensors) -> tuple[Tensors, Tensors]:
        """Runs the model on one batch without dropout, and returns sums and counts.

        The batch is divided among the devices if its size is a multiple of their
        number; else each device computes all of it.
        """
        arrays = to_arrays(without_origin(batch))
        size = len(next(iter(arrays.values())))
        if size % self._devices.replicas:
            rows = {name: value[None] for name, value in arrays.items()}
            features = self._devices.replicated(rows)
        else:
            features = self._divided(arrays, parts=1, steps=1)
        return jax.device_get(self._evaluate(self._present_weights(), features))

    def _divided(self, batch: Tensors, parts: int, steps: int = 0) -> Tensors:
        """Returns a batch, [N, B / N, ...] for N accumulation steps, on all devices.

        Accumulation step n gets the rows n, n + N, n + 2 N and so on: these are the
        same rows if each of several processes has only its part of the batch.
        """
        steps = steps or self._runtime.gradient_accumulation_steps
        devices = self._devices
        features = {}
        for name, rows in batch.items():
            by_step = np.stack([rows[number::steps] for number in range(steps)])
            if parts < devices.count:  # each process has the whole batch
                by_step = np.split(by_step, devices.count, axis=1)[devices.index]
            features[name] = by_step
        return devices.divided(features)

    def _used_share(self, start: float) -> float | None:
        """Returns the used share of the time budget, equal in all processes; None without one."""
        budget = self._config.time_budget_secs
        if not budget:
            return None
        (total,) = self._devices.sum([time.monotonic() - start])
        return min(total / self._devices.count / budget, 1.0)

    def _present_weights(self) -> Tensors:
        return self._weights.of(values_of(self._objective.variables))

    def _store(self, state: Any) -> None:
        """Assigns weights and slots to the variables and the optimizer."""
        weights, slots = jax.tree.map(local, state)
        for name, variable in self._objective.variables.items():
            variable.assign(weights[name])
        self.optimizer.slots = slots
        self._weights.keep(state[0], values_of(self._objective.variables))
        self._slots.keep(state[1], slots)

    def _step(
        self, state: Any, batch: Tensors, step: Any, schedule_step: Any
    ) -> tuple[Any, Any]:
        """Computes one step; returns the next state, and what `reported` returns."""
        weights, slots = state
        config = self._config
        loss_scale = slots.get("loss_scale", jnp.float32(1.0))

        # The numerators and gradients of all parts of the batch, divided by the
        # denominators of the whole batch.
        rows = {name: _merge_steps(value) for name, value in batch.items()}
        with tracing(self._objective, rows, "a step"):
            counts = self._objective.counts(rows)
            seed = jax.random.fold_in(_key(config.seed), step)
            sums, gradients, squares = self._accumulate_gradients(
                weights, batch, counts, seed, loss_scale
            )

        # Clip them, and update the weights if all gradients are finite.
        total = sum(
            squares[name] if name in squares else jnp.sum(jnp.square(gradient))
            for name, gradient in gradients.items()
        )
        norm = jnp.sqrt(total) / loss_scale
        factor = clip_factor(norm, config.clip_norm, loss_scale)
        rate = learning_rate(schedule_step, config)
        state = self.optimizer.updated(
            weights,
            slots,
            {name: gradient * factor for name, gradient in gradients.items()},
            rate,
            jnp.isfinite(norm),
        )
        results = reported(sums, counts, norm=norm, loss_scale=loss_scale, rate=rate)
        return state, results

    def _accumulate_gradients(
        self, weights: Tensors, batch: Tensors, counts: Tensors, seed: Any, scale: Any
    ) -> tuple[Tensors, Tensors, Tensors]:
        """Returns sums, gradients and squared norms, added over the accumulation steps."""
        trainable = {
            name: weights[name]
            for name, variable in self._objective.variables.items()
            if variable.trainable
        }

        def of_part(part: Tensors, part_seed: Any) -> Any:
            def loss(trained: Tensors) -> tuple[Any, Any]:
                sums = self._sums({**weights, **trained}, part, True, part_seed)
                return self._objective.loss(sums, counts) * scale, sums

            return value_and_gradients(loss, trainable)

        steps = self._runtime.gradient_accumulation_steps
        if steps == 1:
            first = {name: value[0] for name, value in batch.items()}
            return of_part(first, seed)
        if not compares_examples(self._objective):
            return _added(of_part, dict(batch), seed)

        # The loss compares examples of all parts, whose values are computed first.
        def values_of_part(part: Tensors, part_seed: Any) -> Tensors:
            values = self._compared_values(weights, part, True, part_seed)
            return {name: jnp.asarray(value) for name, value in values.items()}

        values = jax.lax.map(
            lambda indexed: values_of_part(
                indexed[1], jax.random.fold_in(seed, indexed[0])
            ),
            (jnp.arange(steps), dict(batch)),
        )
        sums, upstream = self._compare(values, counts, scale)

        def of_values(part: Any, part_seed: Any) -> Any:
            features, gradients = part

            def product(trained: Tensors) -> tuple[Any, Any]:
                values = self._compared_values(
                    {**weights, **trained}, features, True, part_seed
                )
                total = sum(
                    jnp.sum(values[name] * gradients[name]) for name in gradients
                )
                return total, {}

            return value_and_gradients(product, trainable)

        _, gradients, squares = _added(of_values, (dict(batch), upstream), seed)
        return sums, gradients, squares

    def _compare(
        self, values: Tensors, counts: Tensors, scale: Any
    ) -> tuple[Tensors, Tensors]:
        """Returns the sums of a global batch, and the gradients of its compared values.

        `values` and gradients are [N, B / N, ...], for N accumulation steps.
        """
        rows = {name: _merge_steps(value) for name, value in values.items()}
        floats = {
            name: value
            for name, value in rows.items()
            if jnp.issubdtype(value.dtype, jnp.floating)
        }

        objective: Any = self._objective  # a `ComparingObjective`

        def loss(floats: Tensors) -> tuple[Any, Any]:
            by_row = objective.row_sums({**rows, **floats})
            sums = {name: jnp.sum(value) for name, value in by_row.items()}
            return objective.loss(sums, counts) * scale, sums

        gradients, sums = jax.grad(loss, has_aux=True)(floats)
        upstream = {
            name: jnp.reshape(gradient, values[name].shape)
            for name, gradient in gradients.items()
        }
        return sums, upstream

    def _sums_and_counts(self, weights: Tensors, batch: Tensors) -> tuple[Any, Any]:
        rows = {name: _merge_steps(value) for name, value in batch.items()}
        with tracing(self._objective, rows, "an evaluation"):
            return self._sums(weights, rows, False), self._objective.counts(rows)

    def _cause(self, batch: Tensors, step: int) -> str:
        """Recomputes a batch of this process, and describes the first non-finite value."""

        def gradients_of(batch: Tensors, seed: Any) -> Tensors:
            counts = self._objective.counts(batch)

            def loss(weights: Tensors) -> Any:
                sums = self._sums(weights, batch, True, seed)
                return self._objective.loss(sums, counts)

            return jax.grad(loss)(values_of(self._objective.variables))

        seed = jax.random.fold_in(_key(self._config.seed), step)
        return debug_nans.find_cause(self._objective, batch, seed, gradients_of)


def _key(seed: int) -> Any:
    """Returns the key of a seed: uint32 [2]."""
    return jnp.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], jnp.uint32)


def _merge_steps(values: Any) -> Any:
    """Reshapes [N, B / N, ...] to [B, ...]."""
    return jnp.reshape(values, (-1, *values.shape[2:]))


def _added(compute: Any, parts: Any, seed: Any) -> Any:
    """Adds the results of `compute` over accumulation steps, of which each has a seed.

    The arrays of `parts` are [N, B / N, ...]. One part at a time is in memory.
    """
    steps = len(jax.tree.leaves(parts)[0])
    first = jax.tree.map(lambda value: value[0], parts)
    zeros = jax.tree.map(
        lambda each: jnp.zeros(each.shape, each.dtype),
        jax.eval_shape(compute, first, seed),
    )

    def add_part(totals: Any, indexed: Any) -> tuple[Any, None]:
        index, part = indexed
        results = compute(part, jax.random.fold_in(seed, index))
        return jax.tree.map(jnp.add, totals, results), None

    totals, _ = jax.lax.scan(add_part, zeros, (jnp.arange(steps), parts))
    return totals
