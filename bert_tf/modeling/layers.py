"""The layers `Dense`, `LayerNorm`, `Dropout`, and functions for variables and shapes.

Each layer creates its variables in its constructor, because the arguments determine all
shapes. `DropoutSeeds` has the seeds of all dropout layers of one model.
`ConfiguredLayer` is the base class of larger layers.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import fused_operations
from bert_tf.modeling.activations import activation
from bert_tf.modeling.initial_weights import InitialWeights

Variables = dict[str, keras.Variable]
# The sizes of a tensor; None for a size that varies.
Shape = tuple[int | None, ...]

# Two odd 32-bit constants: a prime near 2**32 / golden ratio, and a multiplier of
# MurmurHash3. The two numbers of a layer's seed are the two numbers of the seed given
# to `DropoutSeeds.use`, plus (layer index + 1) times these constants. So two layers do
# not get the same seed in nearby steps.
_STRIDES = np.array([0x9E3779B1, 0x85EBCA6B], np.uint64)
# Takes a function, and returns it with a graph of its own, or None if impossible.
ShareGraph = Callable[[Callable[..., Any]], Callable[..., Any] | None]


def variables_of_layers(layers: Mapping[str, Any]) -> Variables:
    """Returns all variables by "prefix/name"; `layers` maps each prefix to a layer."""
    return {
        f"{prefix}/{name}": variable
        for prefix, layer in layers.items()
        for name, variable in layer.variables_by_name().items()
    }


def variable_tensor(variable: keras.Variable) -> Any:
    """Returns the value of a variable as a tensor, in the compute dtype of the layer.

    `ops.custom_gradient` accepts only tensors. `ops.convert_to_tensor` may return the
    variable itself, but `ops.reshape` always returns a tensor.
    """
    return ops.reshape(ops.convert_to_tensor(variable), variable.shape)


def flatten_to_rows(x: Any) -> Any:
    """Reshapes [B, S, H] to [B*S, H]: compilers fuse only rank-2 matrix products."""
    return ops.reshape(x, (-1, x.shape[-1]))


def restore_shape(x: Any, reference: Any) -> Any:
    """Reshapes `x` from [B*S, ...] to [B, S, ...], with B and S of `reference` [B, S, ...]."""
    return ops.reshape(x, with_constants((*ops.shape(reference)[:2], *x.shape[1:])))


def with_constants(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Replaces the first size of a shape that is not a Python integer by -1.

    If the other sizes are integers, reshapes to the result need no computed shape. With
    a computed shape, TFLite determines sizes while it runs, and LiteRT 2.3 can then
    return wrong values from the second run on.
    """
    unknown = [index for index, size in enumerate(shape) if not isinstance(size, int)]
    return tuple(
        -1 if index in unknown[:1] else size for index, size in enumerate(shape)
    )


class ConfiguredLayer(keras.layers.Layer):
    """Base class of layers with a `BertConfig`, which `get_config` stores as a dict.

    Subclasses take the initializers (`initial`) and the `dropout_seeds` of the model
    that contains them. If one of these is None, the layer creates its own.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    @property
    def output_shape(self) -> Shape:
        """Shape of the (first) output, which `summary` prints."""
        return (None, None, self.config.hidden_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ConfiguredLayer":
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})


@keras.saving.register_keras_serializable("bert_tf")
class Dense(keras.layers.Layer):
    """Computes `activation(x @ kernel + bias)` on floats: [N, inputs] -> [N, units].

    Args:
        activation_name: A name that the function `activation` accepts.
        initial: Initializers of the model. If None, the layer creates new initializers
            with standard deviation 0.02.
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
        self.inputs = inputs
        self.units = units
        self.activation_name = activation_name
        self._activation = activation(activation_name)
        self.lora_rank = 0

        initial = initial or InitialWeights(0.02)
        self.kernel = initial.add_weight(self, (inputs, units), name="kernel")
        self.bias = self.add_weight((units,), "zeros", name="bias")
        self.build((None, inputs))

    @property
    def output_shape(self) -> Shape:
        """Shape of the output, which `summary` prints."""
        return (None, self.units)

    def call(self, x: Any, training: bool = False) -> Any:
        y = fused_operations.dense(
            x, variable_tensor(self.kernel), variable_tensor(self.bias), training
        )
        if self.lora_rank:
            narrow = ops.matmul(x, ops.cast(self.lora_kernel_a, x.dtype))  # [N, rank]
            y = y + self._lora_scale * ops.matmul(
                narrow, ops.cast(self.lora_kernel_b, x.dtype)
            )
        return self._activation(y, training)

    def enable_lora(self, rank: int, lora_alpha: float | None = None) -> None:
        """Freezes the kernel and adds a trainable low-rank update of it, as Keras does.

        The layer then computes `x @ (kernel + a @ b * lora_alpha / rank) + bias`. If
        `lora_alpha` is None, the scale of `a @ b` is 1. At first, `b` is 0, so the
        output is unchanged. Files contain the kernel with the update added, so they can
        be loaded into a model without LoRA. A compiled model must be compiled again.

        To train only LoRA in an encoder, first set `trainable` of its weights to False,
        not `trainable` of its layers: all weights of a frozen layer are frozen, also
        those of LoRA.

        Raises:
            InputError: The layer is frozen, or it has LoRA already.

        Source: Hu et al. 2021 (arXiv 2106.09685), section 4.1.
        """
        if self.lora_rank:
            raise InputError(
                f"LoRA is already enabled on the layer {self.path}, with "
                f"rank={self.lora_rank}. Call enable_lora once for each layer."
            )
        if not self.trainable:
            raise InputError(
                f"The layer {self.path} is frozen (trainable is False), so its LoRA "
                "would not be trained. Freeze the weights instead: weight.trainable = "
                "False for each weight in model.bert.weights."
            )

        # Keras locks the list of variables of a layer that is built.
        self._tracker.unlock()
        self.lora_kernel_a = self.add_weight(
            (self.inputs, rank), "he_uniform", name="lora_kernel_a", dtype="float32"
        )
        self.lora_kernel_b = self.add_weight(
            (rank, self.units), "zeros", name="lora_kernel_b", dtype="float32"
        )
        self._tracker.lock()

        self.kernel.trainable = False
        self.lora_rank = rank
        self._lora_scale = 1.0 if lora_alpha is None else lora_alpha / rank

    def merged_kernel(self) -> Any:
        """Returns the kernel [inputs, units]; if LoRA is enabled, its update is added."""
        if not self.lora_rank:
            return self.kernel
        update = self._lora_scale * ops.matmul(self.lora_kernel_a, self.lora_kernel_b)
        return ops.cast(ops.cast(self.kernel, "float32") + update, self.kernel.dtype)

    def save_own_variables(self, store: Any) -> None:
        """Stores the merged kernel and the bias."""
        store["0"], store["1"] = self.merged_kernel(), self.bias

    def load_own_variables(self, store: Any) -> None:
        """Loads the kernel and the bias; if LoRA is enabled, sets its update to 0."""
        if not self.lora_rank:
            super().load_own_variables(store)
            return
        self.kernel.assign(store["0"])
        self.bias.assign(store["1"])
        self.lora_kernel_b.assign(ops.zeros_like(self.lora_kernel_b))

    def variables_by_name(self) -> Variables:
        """Returns kernel and bias by name, without the variables of LoRA."""
        return {"kernel": self.kernel, "bias": self.bias}

    def get_config(self) -> dict[str, Any]:
        own = {
            "inputs": self.inputs,
            "units": self.units,
            "activation_name": self.activation_name,
        }
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("bert_tf")
class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, computed in float32.

    Maps a float tensor [..., units] to a tensor of the same shape in the layer's
    compute dtype. `epsilon` is added to the variance.

    Source: google-research/bert `modeling.layer_norm`.
    """

    def __init__(self, units: int, epsilon: float = 1e-12, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.epsilon = epsilon
        self.beta = self.add_weight((units,), "zeros", name="beta", autocast=False)
        self.gamma = self.add_weight((units,), "ones", name="gamma", autocast=False)
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        rows = ops.reshape(x, (-1, self.units))  # [N, units]
        # The variables are not float32 if the dtype policy is "bfloat16" or "float16".
        gamma, beta = (
            ops.cast(variable_tensor(v), "float32") for v in (self.gamma, self.beta)
        )
        y = fused_operations.layer_norm(
            rows, gamma, beta=beta, epsilon=self.epsilon, training=training
        )
        return ops.reshape(
            ops.cast(y, self.compute_dtype), with_constants(ops.shape(x))
        )

    def variables_by_name(self) -> Variables:
        """Returns the variables by name; names and order are as in google-research/bert."""
        return {"beta": self.beta, "gamma": self.gamma}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "epsilon": self.epsilon}


@keras.saving.register_keras_serializable("bert_tf")
class DropoutSeeds(keras.random.SeedGenerator):
    """Generates the seeds of all dropout layers of one model.

    Inside `use`, each layer's mask is a pure function of the seed given to `use` and
    the layer's index. Recomputing a layer with the same seed therefore creates the same
    mask again. Different seeds for different steps and replicas give different masks.
    Outside `use`, this object is an ordinary `keras.random.SeedGenerator`, whose state
    advances with each call of `next`.

    Example:
        with model.dropout_seeds.use(ops.convert_to_tensor([step, replica], "int32")):
            outputs = model(batch, training=True)
    """

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self._given_seed: Any = None
        self._layer_count = 0
        self.share_graph: ShareGraph | None = None

    @contextlib.contextmanager
    def use(self, seed: Any, share_graph: ShareGraph | None = None) -> Iterator[None]:
        """Derives all masks from `seed` inside the `with` block.

        Args:
            seed: int32 or uint32 tensor [2], different in each step and on each
                replica.
            share_graph: If not None, takes a function, and returns it with a graph that
                is traced only once, as `tf.function` does. All Transformer blocks then
                share the graph of the first block, with the same results. Each block
                has its own graph if `share_graph` is None or returns None, or if the
                model has `recompute` or LoRA.
        """
        outer = self._given_seed, self.share_graph
        self._given_seed, self.share_graph = ops.cast(seed, "int32"), share_graph
        try:
            yield
        finally:
            self._given_seed, self.share_graph = outer

    def new_index(self) -> int:
        """Returns the index of a new dropout layer; the first layer has the index 0."""
        self._layer_count += 1
        return self._layer_count - 1

    def next(self, ordered: bool = True) -> Any:
        """Returns a seed, int [2]: the one given to `use` or, outside `use`, the next state."""
        return super().next(ordered) if self._given_seed is None else self._given_seed

    def seed_after(self, layers: int) -> Any:
        """Returns a seed, int32 [2], that gives layer i the mask of layer i + `layers`.

        Can only be called inside `use`.
        """
        offset = (_STRIDES * np.uint64(layers)).astype(np.uint32).view(np.int32)
        return self._given_seed + ops.convert_to_tensor(offset, "int32")

    def use_others(self) -> contextlib.AbstractContextManager[None]:
        """Like `use`, with masks for a second call of the model inside `use`."""
        return self.use(self.seed_after(self._layer_count), self.share_graph)

    def of_layer(self, index: int) -> keras.random.SeedGenerator:
        """Returns the seed generator for the next mask of the dropout layer `index`."""
        if self._given_seed is None:
            return self
        seed = self.seed_after(index + 1)
        # Some backends accept only unsigned seeds.
        is_unsigned = self.state.dtype == "uint32"
        return _FixedSeed(ops.cast(seed, "uint32") if is_unsigned else seed)


class _FixedSeed(keras.random.SeedGenerator):
    """Gives a seed tensor to `keras.random`, which accepts no tensors as seeds."""

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    def next(self, ordered: bool = True) -> Any:
        """Returns the fixed seed."""
        return self._seed


@keras.saving.register_keras_serializable("bert_tf")
class Dropout(keras.layers.Layer):
    """In training, sets random elements to 0 and scales up the other elements.

    Works on float tensors of any shape. `rate`, in [0, 1), is the probability that an
    element is set to 0; if it is 0, the layer returns its input.

    Attributes:
        index: The number of this layer among the dropout layers of the model, from 0.
    """

    def __init__(
        self, rate: float, dropout_seeds: DropoutSeeds | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise InputError(
                f"A dropout rate must be at least 0 and below 1. Received: {rate}."
            )

        self.rate = rate
        self.dropout_seeds = dropout_seeds or DropoutSeeds()
        self.index = self.dropout_seeds.new_index()
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        keep, scale = self.mask(ops.shape(inputs))
        return ops.multiply(inputs, ops.multiply(ops.cast(keep, inputs.dtype), scale))

    def mask(self, shape: tuple[Any, ...]) -> tuple[Any, float]:
        """Returns a mask, True for elements to keep (None if the rate is 0), and their factor."""
        if self.rate == 0:
            return None, 1.0
        return fused_operations.dropout_mask(
            shape, self.rate, self.dropout_seeds.of_layer(self.index)
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
