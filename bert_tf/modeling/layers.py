"""The layers `Dense` and `LayerNorm`, activation functions, and helpers for variables and shapes.

Each layer creates its variables in its constructor, because the arguments determine all shapes.
Imports foundation modules and also keras, `fused` and `initial_weights`.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.errors import InputError
from bert_tf.modeling import fused
from bert_tf.modeling.initial_weights import InitialWeights

Variables = dict[str, keras.Variable]


def with_name_prefix(prefix: str, variables: Variables) -> Variables:
    """Returns the same variables with `prefix/` in front of each name."""
    return {f"{prefix}/{name}": variable for name, variable in variables.items()}


def activation(name: str) -> Callable[[Any], Any]:
    """Returns the activation function for a value of `BertConfig.hidden_act`.

    Args:
        name: "gelu" (tanh form, as in google-research/bert), "gelu_exact" (erf form), "linear",
            "relu" or the name of any other Keras activation.

    Raises:
        InputError: Keras has no activation of that name.
    """
    if name == "gelu":
        return lambda x: ops.gelu(x, approximate=True)
    if name == "gelu_exact":
        return lambda x: ops.gelu(x, approximate=False)
    try:
        return keras.activations.get(name)
    except ValueError as error:
        raise InputError(
            f"hidden_act {name!r} is not a known activation. Use gelu (tanh form), gelu_exact, "
            "relu, or the name of another function in keras.activations."
        ) from error


def variable_tensor(variable: keras.Variable) -> Any:
    """Returns the value of a variable as a tensor, in the compute dtype of the calling layer.

    `ops.custom_gradient` accepts only tensors. `ops.convert_to_tensor` may return the variable
    itself, but `ops.reshape` always returns a tensor.
    """
    return ops.reshape(ops.convert_to_tensor(variable), variable.shape)


def flatten_to_rows(x: Any) -> Any:
    """Reshapes [B, S, H] to [B*S, H], because compilers fuse only rank-2 matrix products."""
    return ops.reshape(x, (-1, x.shape[-1]))


def restore_shape(x: Any, reference: Any) -> Any:
    """Reshapes `x` from [B*S, ...] to [B, S, ...]; B and S are the first sizes of `reference`."""
    sizes = ops.shape(reference)
    length = sizes[1]
    batch = sizes[0] if isinstance(sizes[0], int) else -1
    return ops.reshape(x, (batch, length, *x.shape[1:]))


@keras.saving.register_keras_serializable("bert_tf")
class Dense(keras.layers.Layer):
    """Computes `activation(x @ kernel + bias)` on a rank-2 tensor.

    Args:
        inputs: Width of the input.
        units: Width of the output.
        activation_name: Name of the activation function, as in the function `activation`.
        initial: Initializers of the model. If None, the layer creates new initializers with
            standard deviation 0.02.

    Call arguments:
        x: Float tensor [N, inputs].
        training: Whether a gradient will be computed.

    Returns:
        Float tensor [N, units].
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        activation_name: str = "linear",
        initial: InitialWeights | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs, self.units, self.activation_name = inputs, units, activation_name
        self._activation, self._is_gelu = activation(activation_name), activation_name == "gelu"
        initializer = (initial or InitialWeights(0.02)).next()
        self.kernel = self.add_weight((inputs, units), initializer, name="kernel")
        self.bias = self.add_weight((units,), "zeros", name="bias")
        self.build((None, inputs))

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of the output, which `summary` prints."""
        return (None, self.units)

    def call(self, x: Any, training: bool = False) -> Any:
        y = fused.dense(x, variable_tensor(self.kernel), variable_tensor(self.bias), training)
        return fused.gelu(y, training) if self._is_gelu else self._activation(y)

    def variables_by_name(self) -> Variables:
        """Returns the layer's variables by name; names and order are as in google-research/bert."""
        return {"kernel": self.kernel, "bias": self.bias}

    def get_config(self) -> dict[str, Any]:
        own = {"inputs": self.inputs, "units": self.units, "activation_name": self.activation_name}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("bert_tf")
class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, computed in float32.

    Args:
        units: Width of the last axis.
        epsilon: Constant added to the variance.

    Call arguments:
        x: Float tensor [..., units].
        training: Whether a gradient will be computed.

    Returns:
        Tensor of the same shape, in the layer's compute dtype.

    Source: google-research/bert `modeling.layer_norm`.
    """

    def __init__(self, units: int, epsilon: float = 1e-12, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.epsilon = units, epsilon
        self.beta = self.add_weight((units,), "zeros", name="beta", autocast=False)
        self.gamma = self.add_weight((units,), "ones", name="gamma", autocast=False)
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        rows = ops.reshape(x, (-1, self.units))
        # The variables are not float32 if the dtype policy is "bfloat16" or "float16".
        gamma, beta = (ops.cast(variable_tensor(v), "float32") for v in (self.gamma, self.beta))
        y = fused.layer_norm(rows, gamma, beta, self.epsilon, training)
        return ops.reshape(ops.cast(y, self.compute_dtype), ops.shape(x))

    def variables_by_name(self) -> Variables:
        """Returns the layer's variables by name; names and order are as in google-research/bert."""
        return {"beta": self.beta, "gamma": self.gamma}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "epsilon": self.epsilon}
