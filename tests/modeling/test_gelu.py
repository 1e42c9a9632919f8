"""Values and gradients of both forms of gelu, compared with SciPy in float64."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from bert_tf.modeling import activations

# Half a unit in the last place, relative to the value.
ROUNDING = {"float32": 2.0**-24, "bfloat16": 2.0**-9, "float16": 2.0**-12}


def erf_form(x):
    """Returns gelu and its derivative."""
    p, density = scipy.stats.norm.cdf(x), scipy.stats.norm.pdf(x)
    return x * p, p + x * density


def tanh_form(x):
    """Returns the approximation of gelu, and its derivative."""
    scale = np.sqrt(2 / np.pi)
    tanh = np.tanh(scale * (x + 0.044715 * x**3))
    slope = (1 - tanh**2) * scale * (1 + 3 * 0.044715 * x**2)
    return x * (1 + tanh) / 2, (1 + tanh) / 2 + x * slope / 2


def derivatives(function, dtype, jit=False):
    """Returns the inputs, the values and the derivatives as float64 arrays."""
    x = tf.cast(tf.linspace(-12.0, 12.0, 4001), dtype)

    def call(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, True)
        return y, tape.gradient(y, x)

    y, slope = tf.function(call, jit_compile=jit)(x)
    assert y.dtype == slope.dtype == dtype
    return [tf.cast(each, tf.float64).numpy() for each in (x, y, slope)]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", list(ROUNDING))
@pytest.mark.parametrize(
    ("function", "exact"),
    [(activations.gelu_exact, erf_form), (activations.gelu, tanh_form)],
    ids=["erf", "tanh"],
)
def test_value_and_gradient_are_accurate(function, exact, dtype, jit):
    x, y, slope = derivatives(function, dtype, jit)
    expected, expected_slope = exact(x)
    rounding = 20 * ROUNDING[dtype]
    np.testing.assert_allclose(y, expected, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(slope, expected_slope, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_training_and_inference_compute_the_same_exact_gelu(dtype):
    x = tf.cast(tf.linspace(-6.0, 6.0, 1001), dtype)
    trained, inferred = (
        tf.cast(activations.gelu_exact(x, training), tf.float64).numpy()
        for training in (True, False)
    )
    np.testing.assert_allclose(trained, inferred, atol=20 * ROUNDING[dtype], rtol=0)


def test_second_derivative_of_exact_gelu():
    x = tf.linspace(-4.0, 4.0, 101)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = activations.gelu_exact(x, True)
        slope = inner.gradient(y, x)
    second = outer.gradient(slope, x)
    x = x.numpy().astype(np.float64)
    np.testing.assert_allclose(second, scipy.stats.norm.pdf(x) * (2 - x**2), atol=1e-6)
