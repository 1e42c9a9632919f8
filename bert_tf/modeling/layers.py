"""The small layers: dense on rank-2 tensors, layer normalization, activations.

All make their variables when they are made: the config says every shape. Imports layer 0, keras
and `randomness`.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.errors import InputError
from bert_tf.modeling import fused
from bert_tf.modeling.randomness import InitialWeights

Variables = dict[str, keras.Variable]


def under(prefix: str, variables: Variables) -> Variables:
    """The same variables with `prefix/` before each name."""
    return {f"{prefix}/{name}": variable for name, variable in variables.items()}


def activation(name: str) -> Callable[[Any], Any]:
    """The function that a config's `hidden_act` names.

    Args:
        name: "gelu" (tanh form, as in the released code), "gelu_exact" (erf), "linear", "relu" or
            any other that Keras knows.

    Raises:
        InputError: Keras knows no such activation.
    """
    if name == "gelu":
        return lambda x: ops.gelu(x, approximate=True)
    if name == "gelu_exact":
        return lambda x: ops.gelu(x, approximate=False)
    try:
        return keras.activations.get(name)
    except ValueError as error:
        raise InputError(
            f"hidden_act {name!r} is no activation. Take gelu (tanh form), gelu_exact, relu, or "
            "another one of keras.activations."
        ) from error


def value(variable: keras.Variable) -> Any:
    """The value of a variable as a tensor, in the compute dtype of the layer that asks.

    A custom gradient takes tensors only, and a conversion may hand back the variable.
    """
    return ops.reshape(ops.convert_to_tensor(variable), variable.shape)


def flat(x: Any) -> Any:
    """[B, S, H] as [B*S, H]: rank-2 products are the ones that compilers fuse."""
    return ops.reshape(x, (-1, x.shape[-1]))


def like(x: Any, reference: Any) -> Any:
    """[B*S, ...] with the leading sizes [B, S] of `reference`."""
    sizes = ops.shape(reference)
    length = sizes[1]
    batch = sizes[0] if isinstance(sizes[0], int) else -1
    return ops.reshape(x, (batch, length, *x.shape[1:]))


@keras.saving.register_keras_serializable("bert_tf")
class Dense(keras.layers.Layer):
    """`activation(x @ kernel + bias)` on a rank-2 tensor.

    Args:
        inputs: Width of the input.
        units: Width of the output.
        activation_name: As for `activation`.
        initial: Initializers of the model; a layer alone gets its own, of standard deviation 0.02.

    Call arguments:
        x: Float tensor [N, inputs].
        training: Whether there will be a gradient.

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
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        y = fused.dense(x, value(self.kernel), value(self.bias), training)
        return fused.gelu(y, training) if self._is_gelu else self._activation(y)

    def variables_by_name(self) -> Variables:
        """The layer's variables by their released names, in released order."""
        return {"kernel": self.kernel, "bias": self.bias}

    def get_config(self) -> dict[str, Any]:
        own = {"inputs": self.inputs, "units": self.units, "activation_name": self.activation_name}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("bert_tf")
class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, computed in float32.

    Args:
        units: Width of the last axis.
        epsilon: Added to the variance.

    Call arguments:
        x: Float tensor [..., units].
        training: Whether there will be a gradient.

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
        y = fused.layer_norm(rows, value(self.gamma), value(self.beta), self.epsilon, training)
        return ops.reshape(ops.cast(y, self.compute_dtype), ops.shape(x))

    def variables_by_name(self) -> Variables:
        """The layer's variables by their released names, in released order."""
        return {"beta": self.beta, "gamma": self.gamma}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "epsilon": self.epsilon}
