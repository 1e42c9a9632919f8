"""`BertBaseModel`: the common part of `BertEncoder` and of the models with a head."""

from collections.abc import Mapping
from typing import Any, TypeVar

import keras

from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling.inputs import INPUT_NAMES, check_inputs
from bert_tf.modeling.layers import Variables

_Model = TypeVar("_Model", bound="BertBaseModel")


class BertBaseModel(keras.Model):
    """Base class of all models: checks the inputs, exports and serializes a model.

    Args:
        config: The architecture.
        recompute: Whether training recomputes the activations of each block in the
            backward pass.

    Attributes:
        head_facts: Values about the head, such as `labels`, or about the pooling of an
            encoder, from the checkpoint that was loaded; {} if none was loaded.
        skip_padding: Whether the encoder skips padding; see `BertEncoder`.

    Raises:
        InputError: `config` is not a `BertConfig`, or the dtype policy is that of a
            quantized model. When the model is called: the inputs are not those that the
            docstring of the model describes. The message has the received and the
            expected names, dtypes and shapes.
    """

    head_facts: Mapping[str, Any] = {}
    # Without this line, Keras would derive the dtypes of the outputs from
    # `compute_output_shape`.
    compute_output_spec = keras.Operation.compute_output_spec
    _input_axes: tuple[str, ...] = ("B", "S")
    _input_names: tuple[str, ...] = INPUT_NAMES
    skip_padding: Any  # a property

    def __init__(
        self, config: BertConfig, *, recompute: bool = False, **kwargs: Any
    ) -> None:
        # With autocast, Keras would cast ids that are float32 to the compute dtype of a
        # mixed policy, and bfloat16 does not represent all ids above 256.
        super().__init__(autocast=False, **kwargs)
        if not isinstance(config, BertConfig):
            raise InputError(
                f"config must be a BertConfig. Received: a {type(config).__name__}. "
                "Give BertConfig.from_dict(values) for the keys and values of a "
                "bert_config.json."
            )
        if self.dtype_policy.quantization_mode:
            self._refuse_quantization(self.dtype_policy.name)

        self.config = config
        self.recompute = recompute

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        inputs = check_inputs(
            inputs,
            self.config,
            axes=self._input_axes,
            names=self._input_names,
            model=type(self).__name__,
        )
        return super().__call__(inputs, *args, **kwargs)

    def _drop_traced_functions(self) -> None:
        """Makes Keras trace training, evaluation and prediction again."""
        self.train_function = self.test_function = self.predict_function = None

    def make_train_function(self, force: bool = False) -> Any:
        """Returns the function that trains; Keras calls it in `fit`.

        With TensorFlow and one device, Keras would create the state of the optimizer
        while it traces a step, which is slow, and would then trace the step once more.
        """
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def variables_by_name(self) -> Variables:
        """Returns all weights by name.

        Names and order are as in google-research/bert.
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Mapping[str, Any]) -> Any:
        """Returns the shapes of the outputs by name, given the shapes of the inputs by name."""
        inputs = {
            name: keras.KerasTensor(shape, "int32")
            for name, shape in input_shape.items()
        }
        return keras.tree.map_structure(
            lambda each: each.shape, self.compute_output_spec(inputs)
        )

    def quantize(self, mode: Any = None, *args: Any, **kwargs: Any) -> None:
        """Raises `InputError`, because only exports can be quantized, not models.

        `keras.Model.quantize` would only warn, and quantize no layer.
        """
        self._refuse_quantization(mode)

    def _refuse_quantization(self, received: Any) -> None:
        raise InputError(
            f"{type(self).__name__} cannot be quantized by Keras. Received: "
            f"{received}. Export it with bert_tf.export_model and "
            "settings=bert_tf.ServingSettings(format='tflite', "
            "tflite_precisions=['int8'])."
        )

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model for inference, as `keras.Model.export` does.

        The export of a `BertEncoder` has no output `encoder_outputs`, which is a list.
        Only exports in the SavedModel format skip padding if `skip_padding` is True.

        Args:
            filepath: Path of the export.
            format: Format of the export, as in `keras.Model.export`.
            verbose: Whether to print the signature.
            input_signature: Shapes and dtypes of the inputs. If None, the inputs are
                `input_ids`, `input_mask` and `segment_ids`, int32 of any batch size and
                any length.
            **kwargs: Other arguments of `keras.Model.export`.
        """
        # Keras would infer float32 inputs of the length of the first call.
        if input_signature is None:
            shape = (None,) * len(self._input_axes)
            spec = {
                name: keras.InputSpec("int32", shape, name=name) for name in INPUT_NAMES
            }
            input_signature = [spec]

        skips_padding = self.skip_padding
        # The other formats need shapes that do not depend on the number of tokens.
        self.skip_padding = skips_padding and format == "tf_saved_model"
        try:
            keras.Model.export(
                self._exported_model(),
                filepath,
                format=format,
                verbose=verbose,
                input_signature=input_signature,
                **kwargs,
            )
        finally:
            self.skip_padding = skips_padding

    def _exported_model(self) -> keras.Model:
        """Returns the model that `export` writes."""
        return self

    def get_config(self) -> dict[str, Any]:
        return {
            "config": self.config.to_dict(),
            "name": self.name,
            "recompute": self.recompute,
            "head_facts": dict(self.head_facts),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            # A layer precedes its sublayers, which are in the order of their creation.
            "frozen_layers": [
                index
                for index, layer in enumerate(self._flatten_layers())
                if not layer.trainable
            ],
        }

    @classmethod
    def from_config(
        cls: type[_Model], config: dict[str, Any], custom_objects: Any = None
    ) -> _Model:
        config = {**config, "config": BertConfig.from_dict(config["config"])}
        frozen = config.pop("frozen_layers", [])
        facts = config.pop("head_facts", {})

        model = cls(**config)
        model.head_facts = facts
        if frozen:
            for index, layer in enumerate(model._flatten_layers()):
                layer.trainable = index not in frozen
        return model
