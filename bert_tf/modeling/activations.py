"""The activation functions, and both forms of gelu with explicit gradients.

The argument `training` says whether a gradient will be computed.
"""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.errors import InputError
from bert_tf.modeling.fused_operations import ResultAndGradient, with_gradient

_SLOPE = 2 * math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def gelu(x: Any, training: bool) -> Any:
    """Computes gelu in the tanh form, `x * sigmoid(z)`, for a float tensor `x`.

    Here, z is 2 sqrt(2/pi) (x + 0.044715 x**3).

    Source: google-research/bert `modeling.gelu`.
    """

    def call(x: Any) -> ResultAndGradient:
        square = ops.square(x)
        z = ops.multiply(x, ops.add(ops.multiply(square, _SLOPE * _CUBIC), _SLOPE))
        # The sigmoid is faster and more accurate in float32 than in float16 or
        # bfloat16.
        gate = ops.cast(ops.sigmoid(ops.cast(z, "float32")), x.dtype)
        y = ops.multiply(x, gate)

        def gradient(dy: Any) -> Any:
            dz = ops.add(ops.multiply(square, 3 * _SLOPE * _CUBIC), _SLOPE)
            sigmoid_term = ops.subtract(y, ops.multiply(y, gate))
            return ops.multiply(dy, ops.add(gate, ops.multiply(sigmoid_term, dz)))

        return y, gradient

    # In inference, use the operation that compilers recognize as gelu and fuse.
    return with_gradient(call, True, x) if training else ops.gelu(x, approximate=True)


def gelu_exact(x: Any, training: bool) -> Any:
    """Computes gelu in the erf form, `x * p` with p = (1 + erf(x / sqrt(2))) / 2.

    In training, p and its derivative are computed in float32.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units (arXiv 1606.08415),
    section 2.
    """

    def call(x: Any) -> ResultAndGradient:
        z = ops.multiply(ops.cast(x, "float32"), math.sqrt(0.5))
        # `ops.gelu` computes erfc, which takes ten times as long as erf on a CPU.
        p = ops.cast(ops.multiply(ops.add(ops.erf(z), 1.0), 0.5), x.dtype)

        # The derivative is p + x times the density of the normal distribution.
        density = ops.exp(ops.subtract(-0.5 * math.log(2 * math.pi), ops.square(z)))
        slope = ops.add(p, ops.multiply(x, ops.cast(density, x.dtype)))

        def gradient(dy: Any) -> Any:
            return ops.multiply(dy, slope)

        return ops.multiply(x, p), gradient

    # In inference, use the operation that compilers recognize as gelu and fuse.
    return with_gradient(call, True, x) if training else ops.gelu(x, approximate=False)


# The activations with an explicit gradient.
_GELU = {"gelu": gelu, "gelu_exact": gelu_exact}


def activation(name: str) -> Callable[[Any, bool], Any]:
    """Returns the activation function of the given name; it takes `x` and `training`.

    `name` is a `BertConfig.hidden_act`: "gelu" (tanh form), "gelu_exact" (erf form),
    "linear", "relu" or the name of any other Keras activation.
    """
    if name in _GELU:
        return _GELU[name]
    try:
        function = keras.activations.get(name)
    except ValueError as error:
        raise InputError(
            f"hidden_act {name!r} is not a known activation. Use gelu (tanh form), "
            "gelu_exact, relu, or the name of another function in keras.activations."
        ) from error
    return lambda x, training: function(x)
