"""`layout_map`: how the variables of a model are divided over several devices."""

from typing import Any

import keras

from bert_tf.config import BertConfig
from bert_tf.errors import InputError

_MODEL = "model"
# The axis of the mesh that divides each axis of a variable, by a regular expression for
# the paths of variables. All devices have complete copies of the other variables. As in
# Megatron-LM, a device computes some of the heads and of the intermediate values, and
# the sum over the devices follows the second product (Shoeybi et al. 2019, arXiv
# 1909.08053, section 3).
_LAYOUTS = {
    r".*/word_embeddings": (_MODEL, None),  # [V, H]
    r".*/(query|key|value|intermediate)/kernel": (None, _MODEL),  # [H, H] or [H, I]
    r".*/(query|key|value|intermediate)/bias": (_MODEL,),
    r".*/layer_[0-9]+/(attention/)?output/kernel": (_MODEL, None),  # [H, H] or [I, H]
    r".*/predictions/output_bias": (_MODEL,),  # [V]
}


def layout_map(
    mesh: keras.distribution.DeviceMesh, config: BertConfig
) -> keras.distribution.LayoutMap:
    """Divides the variables of any BERT model over the last axis of a mesh of devices.

    Keras divides variables on JAX only, and only those that are created after
    `keras.distribution.set_distribution`.

    Args:
        mesh: The devices. The first axis divides batches, the last axis variables.
        config: The architecture of the model.

    Returns:
        The argument `layout_map` of `keras.distribution.ModelParallel`.

    Raises:
        InputError: The heads, the intermediate values or the vocabulary cannot be
            divided evenly over the last axis of the mesh.

    Example:
        mesh = keras.distribution.DeviceMesh((4, 2), ("batch", "model"))
        layout = bert_tf.layout_map(mesh, config)
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")
        )
        model = bert_tf.BertPretrainer(config)
    """
    devices = mesh.shape[-1]
    for name in ("num_attention_heads", "intermediate_size", "vocab_size"):
        size = getattr(config, name)
        if size % devices:
            raise InputError(
                f"{name} must be a multiple of the last axis of the mesh, which has "
                f"{devices} devices. Received: {size}. Give a mesh with another last "
                f"axis, such as {(mesh.devices.size, 1)}, which divides only batches."
            )

    layouts: Any = keras.distribution.LayoutMap(mesh)
    for path, axes in _LAYOUTS.items():
        layouts[path] = tuple(axis and mesh.axis_names[-1] for axis in axes)
    return layouts
