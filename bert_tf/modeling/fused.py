"""Dense, tied logits, softmax, layer normalization, gelu and dropout, gradients written out.

What automatic differentiation makes of these costs as much time on a CPU as the matrix products:
it walks the activations many times, and sums columns slowly. Here each walk is counted, column and
row sums are products with vectors, and what the forward pass knows is kept. Everything is
`keras.ops`, so it can be compiled and differentiated again. Without `training` the gradients stay
away, since they would keep compilers from fusing what remains. Imports keras only.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

_SLOPE = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_HALF_BITS = 2.0**12
_RATE_STEPS = 2048


def _upstream(arguments: tuple[Any, ...], upstream: Any) -> Any:
    """The gradient of the output: backends hand it over by position or by name."""
    return arguments[0] if upstream is None else upstream


def _apply(call: Callable[..., Any], training: bool, *arguments: Any) -> Any:
    """What `call` returns first, with the gradient it returns second if training."""
    return ops.custom_gradient(call)(*arguments) if training else call(*arguments)[0]


def _column_sums(x: Any) -> Any:
    """[N, M] -> [M]."""
    return ops.reshape(ops.matmul(ops.ones((1, ops.shape(x)[0]), x.dtype), x), (-1,))


def dense(x: Any, kernel: Any, bias: Any, training: bool) -> Any:
    """`x @ kernel + bias`.

    Args:
        x: [N, I], of the dtype of the others.
        kernel: [I, O].
        bias: [O].
        training: Whether there will be a gradient.

    Returns:
        [N, O].
    """

    def call(x: Any, kernel: Any, bias: Any) -> tuple[Any, Callable[..., Any]]:
        def gradient(*arguments: Any, upstream: Any = None) -> tuple[Any, Any, Any]:
            dy = _upstream(arguments, upstream)
            dx = ops.matmul(dy, ops.transpose(kernel, (1, 0)))
            return dx, ops.matmul(ops.transpose(x, (1, 0)), dy), _column_sums(dy)

        return ops.add(ops.matmul(x, kernel), bias), gradient

    return _apply(call, training, x, kernel, bias)


def tied_logits(x: Any, table: Any, bias: Any, training: bool) -> Any:
    """`x @ table.T + bias` in float32, for a table as large as a vocabulary.

    Args:
        x: [N, H].
        table: [V, H], of the dtype of `x`.
        bias: float32 [V].
        training: Whether there will be a gradient.

    Returns:
        float32 [N, V].
    """

    def call(x: Any, table: Any, bias: Any) -> tuple[Any, Callable[..., Any]]:
        def gradient(*arguments: Any, upstream: Any = None) -> tuple[Any, Any, Any]:
            dy = _upstream(arguments, upstream)
            narrow = ops.cast(dy, x.dtype)
            # In the order of the table: turning the product over would cost another walk.
            dtable = ops.matmul(ops.transpose(narrow, (1, 0)), x)
            return ops.matmul(narrow, table), dtable, _column_sums(dy)

        products = ops.matmul(x, ops.transpose(table, (1, 0)))
        return ops.add(ops.cast(products, "float32"), bias), gradient

    return _apply(call, training, x, table, bias)


def gelu(x: Any, training: bool) -> Any:
    """The tanh form of gelu, as `x * sigmoid(z)` with z = 2 sqrt(2/pi) (x + 0.044715 x**3).

    Args:
        x: Any shape.
        training: Whether there will be a gradient.

    Source: google-research/bert `modeling.gelu`.
    """

    def call(x: Any) -> tuple[Any, Callable[..., Any]]:
        square = ops.square(x)
        z = ops.multiply(x, ops.add(ops.multiply(square, _SLOPE * _CUBIC), _SLOPE))
        # float32 has the faster kernel, and the more exact one.
        gate = ops.cast(ops.sigmoid(ops.cast(z, "float32")), x.dtype)
        y = ops.multiply(x, gate)

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            dy = _upstream(arguments, upstream)
            dz = ops.add(ops.multiply(square, 3 * _SLOPE * _CUBIC), _SLOPE)
            below = ops.subtract(y, ops.multiply(y, gate))
            return ops.multiply(dy, ops.add(gate, ops.multiply(below, dz)))

        return y, gradient

    # Without a gradient to take, the form that compilers know as gelu and fuse.
    return _apply(call, True, x) if training else ops.gelu(x, approximate=True)


def softmax(scores: Any, training: bool) -> Any:
    """Softmax over the last axis, computed in float32.

    Args:
        scores: [..., N], any float dtype.
        training: Whether there will be a gradient.

    Returns:
        [..., N] in the dtype of `scores`.
    """

    def call(scores: Any) -> tuple[Any, Callable[..., Any]]:
        y = ops.cast(ops.softmax(ops.cast(scores, "float32"), axis=-1), scores.dtype)

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            wide = ops.cast(y, "float32")
            product = ops.multiply(ops.cast(_upstream(arguments, upstream), "float32"), wide)
            sums = ops.sum(product, axis=-1, keepdims=True)
            return ops.cast(ops.subtract(product, ops.multiply(wide, sums)), scores.dtype)

        return y, gradient

    if keras.backend.standardize_dtype(scores.dtype) == "float32":
        return ops.softmax(scores, axis=-1)
    return _apply(call, training, scores)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float, training: bool) -> Any:
    """Layer normalization of each row, computed in float32.

    Args:
        x: [N, H], any float dtype.
        gamma: float32 [H].
        beta: float32 [H].
        epsilon: Added to the variance.
        training: Whether there will be a gradient.

    Returns:
        [N, H] in the dtype of `x`.
    """

    def call(x: Any, gamma: Any, beta: Any) -> tuple[Any, Callable[..., Any]]:
        wide = ops.cast(x, "float32")
        centered = ops.subtract(wide, ops.mean(wide, axis=-1, keepdims=True))
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.add(variance, epsilon))
        normal = ops.multiply(centered, scale)
        y = ops.cast(ops.add(ops.multiply(normal, gamma), beta), x.dtype)

        def gradient(*arguments: Any, upstream: Any = None) -> tuple[Any, Any, Any]:
            dy = ops.cast(_upstream(arguments, upstream), "float32")
            product = ops.multiply(dy, normal)
            weights = ops.expand_dims(ops.divide(gamma, gamma.shape[0]), 1)
            mean, mean_product = ops.matmul(dy, weights), ops.matmul(product, weights)
            dx = ops.subtract(ops.multiply(dy, gamma), ops.multiply(normal, mean_product))
            dx = ops.multiply(ops.subtract(dx, mean), scale)
            return ops.cast(dx, x.dtype), _column_sums(product), _column_sums(dy)

        return y, gradient

    return _apply(call, training, x, gamma, beta)


def dropout(x: Any, rate: float, seed: keras.random.SeedGenerator) -> Any:
    """Sets elements to 0 with probability `rate` and divides the others by 1 - `rate`.

    One random number of 23 bits decides on two elements, by its upper 12 and by its lower 11 bits:
    random numbers are most of the time that dropout takes. The rate is rounded to a multiple of
    1/2048, and the scale is that of the rounded rate, so the expected value is exactly `x`.

    Args:
        x: Any shape.
        rate: In (0, 1).
        seed: Where the mask comes from.
    """
    size = ops.size(x)
    half = (size + 1) // 2
    numbers = ops.multiply(keras.random.uniform((half,), dtype="float32", seed=seed), _HALF_BITS)
    upper = ops.floor(numbers)
    lower = ops.subtract(numbers, upper)
    rounded = min(round(rate * _RATE_STEPS), _RATE_STEPS - 1) / _RATE_STEPS
    keep_upper = ops.greater_equal(upper, rounded * _HALF_BITS)
    keep_lower = ops.greater_equal(lower, rounded)
    keep = ops.reshape(ops.concatenate([keep_upper, keep_lower])[:size], ops.shape(x))
    return ops.multiply(x, ops.multiply(ops.cast(keep, x.dtype), 1 / (1 - rounded)))
