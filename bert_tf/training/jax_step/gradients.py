"""Gradients with the rules of TensorFlow: norms of sparse gradients, unused variables.

In google-research/bert, the gradient of an embedding table is sparse, with one row for
each look-up, and a variable that the loss does not use has no gradient. The gradients
of JAX are dense, and 0 for unused variables. This module finds look-ups and unused
variables in the traced computation, not in the values.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal

from bert_tf.training.step.objective import Tensors


def value_and_gradients(
    function: Callable[[Tensors], tuple[Any, Any]], weights: Tensors
) -> tuple[Any, Tensors, Tensors]:
    """Differentiates a loss.

    Must be called while JAX traces a step.

    Args:
        function: Returns the loss, a scalar, and further results.
        weights: The arguments of `function`, float32 arrays by name.

    Returns:
        The further results of `function`; the gradient of each weight that the loss
        uses; and the squared norm, with one row for each look-up, of the gradient of
        each weight that the loss uses in look-ups only: float32 scalars.
    """
    differentiate = jax.grad(function, has_aux=True)
    traced, shapes = jax.make_jaxpr(differentiate, return_shape=True)(weights)
    interpreter = _Interpreter()
    outputs = interpreter.run(traced.jaxpr, traced.consts, jax.tree.leaves(weights))
    gradients, results = jax.tree.unflatten(jax.tree.structure(shapes), outputs)

    used = {
        name: gradients[name]
        for name in weights
        if not interpreter.is_constant(gradients[name])
    }
    squares = {
        name: sum(jnp.sum(jnp.square(rows)) for rows in all_rows)
        for name, gradient in used.items()
        if (all_rows := interpreter.rows_of(gradient))
    }
    return results, used, squares


class _Interpreter:
    """Evaluates a traced computation, and keeps the origin of its values."""

    def __init__(self) -> None:
        # The values that do not depend on the inputs, and the rows that were added to
        # zeros, by the identity of the sum. The values are kept, so that no other value
        # gets their identity.
        self._constants: dict[int, Any] = {}
        self._rows: dict[int, tuple[Any, list[Any]]] = {}

    def is_constant(self, value: Any) -> bool:
        """Returns whether a value does not depend on the inputs."""
        return id(value) in self._constants

    def rows_of(self, value: Any) -> list[Any]:
        """Returns the arrays of rows whose sum by index is this value; [] for others."""
        return self._rows.get(id(value), (None, []))[1]

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """Returns the outputs of a traced computation."""
        values = dict(
            zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True)
        )

        def read(atom: Any) -> Any:
            if not isinstance(atom, Literal):
                return values[atom]
            return self._constants.setdefault(id(atom.val), atom.val)

        for equation in jaxpr.eqns:
            with equation.ctx.manager:
                outputs = self._evaluate(equation, list(map(read, equation.invars)))
            values.update(zip(equation.outvars, outputs, strict=True))
        return list(map(read, jaxpr.outvars))

    def _evaluate(self, equation: Any, inputs: list[Any]) -> Sequence[Any]:
        # The gradient of `jnp.take` is a compiled function inside the step.
        name = equation.primitive.name
        if name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            return self.run(inner.jaxpr, inner.consts, inputs)

        parameters = equation.primitive.get_bind_params(equation.params)
        outputs = equation.primitive.bind(*inputs, **parameters)
        if not equation.primitive.multiple_results:
            outputs = [outputs]

        if all(map(self.is_constant, inputs)):
            self._constants |= {id(value): value for value in outputs}
        elif name == "scatter-add" and self.is_constant(inputs[0]):
            self._rows[id(outputs[0])] = outputs[0], [inputs[2]]
        elif name == "add_any" and all(map(self.rows_of, inputs)):
            rows = [each for value in inputs for each in self.rows_of(value)]
            self._rows[id(outputs[0])] = outputs[0], rows
        return outputs
