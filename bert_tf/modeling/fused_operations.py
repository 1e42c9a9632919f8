"""`dropout_mask`, and functions with explicit gradients.

The functions are `dense`, `tied_logits`, `softmax`, `layer_norm` and `attention`;
`activations` has both forms of gelu. The gradients that automatic differentiation
derives for these functions read the activations many times and sum columns slowly. On a
CPU, computing these gradients takes as much time as the matrix products. The explicit
gradients read the activations fewer times, compute most sums as products with a vector,
and reuse values of the forward pass. All functions use `keras.ops`, so the functions
can be compiled and have second derivatives.

The argument `training` says whether a gradient will be computed. If it is false, the
functions define no custom gradients, because custom gradients prevent compilers from
fusing the operations.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

_HALF_BITS = 2.0**12
_RATE_STEPS = 2048
# The result of a function, and the function of its gradient; see `with_gradient`.
ResultAndGradient = tuple[Any, Callable[..., Any]]


def with_gradient(function: Callable[..., Any], training: bool, *arguments: Any) -> Any:
    """Returns the first result of `function`, with a custom gradient if `training`.

    The second result of `function` is this gradient: a function that takes the gradient
    of the first result, and returns the gradients of `arguments`.
    """
    if not training:
        return function(*arguments)[0]

    @ops.custom_gradient
    def call(*arguments: Any) -> ResultAndGradient:
        result, gradient = function(*arguments)

        def gradient_of_upstream(*arguments: Any, upstream: Any = None) -> Any:
            # Backends pass the gradient of the result by position or by name.
            return gradient(arguments[0] if upstream is None else upstream)

        return result, gradient_of_upstream

    return call(*arguments)


def with_inverse(
    function: Callable[[Any], Any],
    inverse: Callable[[Any], Any],
    x: Any,
    training: bool,
) -> Any:
    """Returns `function(x)`; `inverse` computes its gradient, and `function` that of `inverse`."""

    def call(x: Any) -> ResultAndGradient:
        return function(x), functools.partial(
            with_inverse, inverse, function, training=True
        )

    return with_gradient(call, training, x)


def _column_sums(x: Any) -> Any:
    """Sums each column: [N, M] -> [M]."""
    return ops.reshape(ops.matmul(ops.ones((1, ops.shape(x)[0]), x.dtype), x), (-1,))


def dense(x: Any, kernel: Any, bias: Any, training: bool) -> Any:
    """Computes `x @ kernel + bias`: [N, I] @ [I, M] + [M] -> [N, M], all of the dtype of `x`."""

    def call(x: Any, kernel: Any, bias: Any) -> ResultAndGradient:
        def gradient(dy: Any) -> tuple[Any, Any, Any]:
            dx = ops.matmul(dy, ops.transpose(kernel, (1, 0)))
            return dx, ops.matmul(ops.transpose(x, (1, 0)), dy), _column_sums(dy)

        return ops.add(ops.matmul(x, kernel), bias), gradient

    return with_gradient(call, training, x, kernel, bias)


def tied_logits(x: Any, table: Any, bias: Any, training: bool) -> Any:
    """Computes `x @ table.T + bias` for a table with one row per vocabulary entry.

    The shapes are [N, H] @ [H, V] + [V] -> [N, V]. `table` has the dtype of `x`; `bias`
    and the result are float32.
    """

    def call(x: Any, table: Any, bias: Any) -> ResultAndGradient:
        def gradient(dy: Any) -> tuple[Any, Any, Any]:
            narrow = ops.cast(dy, x.dtype)
            # This order of the factors gives [V, H] directly, without a transpose of
            # the result.
            dtable = ops.matmul(ops.transpose(narrow, (1, 0)), x)
            return ops.matmul(narrow, table), dtable, _column_sums(dy)

        products = ops.matmul(x, ops.transpose(table, (1, 0)))
        return ops.add(ops.cast(products, "float32"), bias), gradient

    return with_gradient(call, training, x, table, bias)


def softmax(scores: Any, training: bool) -> Any:
    """Computes the softmax over the last axis in float32; the result has the dtype of `scores`."""

    def call(scores: Any) -> ResultAndGradient:
        y = ops.cast(ops.softmax(ops.cast(scores, "float32"), axis=-1), scores.dtype)

        def gradient(dy: Any) -> Any:
            wide = ops.cast(y, "float32")
            product = ops.multiply(ops.cast(dy, "float32"), wide)
            sums = ops.sum(product, axis=-1, keepdims=True)
            return ops.cast(
                ops.subtract(product, ops.multiply(wide, sums)), scores.dtype
            )

        return y, gradient

    if keras.backend.standardize_dtype(scores.dtype) == "float32":
        return ops.softmax(scores, axis=-1)
    return with_gradient(call, training, scores)


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float, training: bool) -> Any:
    """Normalizes rows to mean 0 and variance 1, scales by `gamma` and shifts by `beta`.

    All steps are computed in float32. `gamma` and `beta` are float32 [H]; `epsilon` is
    added to the variance. The result has the shape [N, H] and the float dtype of `x`.
    """

    def call(x: Any, gamma: Any, beta: Any) -> ResultAndGradient:
        wide = ops.cast(x, "float32")
        centered = ops.subtract(wide, ops.mean(wide, axis=-1, keepdims=True))
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)  # [N, 1]
        scale = ops.rsqrt(ops.add(variance, epsilon))
        normal = ops.multiply(centered, scale)  # [N, H]
        y = ops.cast(ops.add(ops.multiply(normal, gamma), beta), x.dtype)

        def gradient(dy: Any) -> tuple[Any, Any, Any]:
            dy = ops.cast(dy, "float32")  # [N, H]
            product = ops.multiply(dy, normal)

            # The means over H of dy and of `product`, weighted by gamma, as products
            # with a vector.
            weights = ops.expand_dims(ops.divide(gamma, gamma.shape[0]), 1)  # [H, 1]
            mean = ops.matmul(dy, weights)  # [N, 1]
            mean_product = ops.matmul(product, weights)  # [N, 1]

            dx = ops.subtract(
                ops.multiply(dy, gamma), ops.multiply(normal, mean_product)
            )
            dx = ops.multiply(ops.subtract(dx, mean), scale)
            return ops.cast(dx, x.dtype), _column_sums(product), _column_sums(dy)

        return y, gradient

    return with_gradient(call, training, x, gamma, beta)


def attention(
    query: Any, key: Any, value: Any, bias: Any, keep: Any, scale: float
) -> Any:
    """Computes `dropout(softmax(query @ key.T / sqrt(D) + bias)) @ value` in training.

    The backward pass reads the scores once: the sum over a row in the gradient of the
    softmax is the sum of the output multiplied by its gradient, also with dropout (Dao
    et al. 2022, arXiv 2205.14135, appendix B.2).

    `query`, `key`, `value` and the result are [B, A, S, D], of the same float dtype.

    Args:
        bias: [B, 1, 1, S] or [B, 1, S, S], of the dtype of `query`; without a gradient.
        keep: bool [B, A, S, S], the probabilities that dropout keeps; None without
            dropout.
        scale: The factor of the kept probabilities.
    """
    inverse = 1 / math.sqrt(query.shape[-1])

    def drop(x: Any) -> Any:
        return x if keep is None else ops.multiply(x, ops.cast(keep, x.dtype))

    def call(query: Any, key: Any, value: Any) -> ResultAndGradient:
        products = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # [B, A, S, S]
        # In low precision, a scaled query would be rounded once more.
        scores = ops.multiply(products, inverse) + bias
        probabilities = ops.softmax(scores, axis=-1)
        # [B, A, S, D]
        output = ops.matmul(drop(probabilities), ops.multiply(value, scale))

        def gradient(dy: Any) -> tuple[Any, Any, Any]:  # dy: [B, A, S, D]
            scaled_dy = ops.multiply(dy, scale)
            dvalue = ops.matmul(
                ops.transpose(drop(probabilities), (0, 1, 3, 2)), scaled_dy
            )

            # The gradients of the kept probabilities and of the scores, [B, A, S, S].
            dkept = drop(ops.matmul(scaled_dy, ops.transpose(value, (0, 1, 3, 2))))
            sums = ops.sum(ops.multiply(output, dy), axis=-1, keepdims=True)
            dscores = ops.multiply(ops.subtract(dkept, sums), probabilities)

            dquery = ops.multiply(ops.matmul(dscores, key), inverse)
            dkey = ops.matmul(ops.transpose(dscores, (0, 1, 3, 2)), query)
            return dquery, ops.multiply(dkey, inverse), dvalue

        return output, gradient

    return with_gradient(call, True, query, key, value)


def dropout_mask(
    shape: tuple[Any, ...], rate: float, seed: keras.random.SeedGenerator
) -> tuple[Any, float]:
    """Returns a bool mask of the elements to keep, and the factor of the kept elements.

    Generating random numbers takes most of the time of dropout. Each random number of
    23 bits therefore determines two elements of the mask: the upper 12 bits determine
    the first element, the lower 11 bits the second. The rate, in (0, 1), is rounded to
    a multiple of 1/2048. The factor uses the rounded rate too, so the expected value of
    the output is exactly the input.
    """
    # JAX divides the rows of a batch among devices. There, a number determines two
    # elements of the same row, so that each device draws only its own numbers.
    rows = shape[:1] if keras.backend.backend() == "jax" else ()

    # Random numbers of 23 bits, and their upper and lower bits, each [*rows, half].
    size = math.prod(shape[len(rows) :])
    half = (size + 1) // 2
    numbers = ops.multiply(
        keras.random.uniform((*rows, half), dtype="float32", seed=seed), _HALF_BITS
    )
    upper = ops.floor(numbers)
    lower = ops.subtract(numbers, upper)

    rounded = min(round(rate * _RATE_STEPS), _RATE_STEPS - 1) / _RATE_STEPS
    keep_upper = ops.greater_equal(upper, rounded * _HALF_BITS)
    keep_lower = ops.greater_equal(lower, rounded)
    keep = ops.concatenate([keep_upper, keep_lower], axis=-1)[..., :size]
    keep = ops.reshape(keep, shape)
    return keep, 1 / (1 - rounded)
