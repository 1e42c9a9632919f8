"""Models on eight virtual devices; needs JAX."""

import backend_models
import keras
import numpy as np
import pytest
from backend_models import CONFIG, KINDS
from golden_checkpoints import assert_close_arrays
from refusals import refused_exactly

import bert_tf

BACKEND = keras.backend.backend()
pytestmark = pytest.mark.skipif(BACKEND != "jax", reason="set KERAS_BACKEND=jax")
STEPS = 6
LARGE = ("word_embeddings", "query/kernel", "intermediate/kernel", "output/kernel")


@pytest.fixture
def distribute():
    """Returns a function that sets the distribution: the shape of a mesh, or None."""

    def set_distribution(shape, config=CONFIG):
        distribution = None
        if shape and len(shape) == 1:
            distribution = keras.distribution.DataParallel()
        elif shape:
            mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"))
            layouts = bert_tf.layout_map(mesh, config)
            distribution = keras.distribution.ModelParallel(
                layout_map=layouts, batch_dim_name="batch"
            )
        keras.distribution.set_distribution(distribution)

    yield set_distribution
    keras.distribution.set_distribution(None)


def train(kind):
    model = backend_models.make(kind)
    adam = backend_models.adam(clip_norm=1.0)
    backend_models.compile_with(model, kind, adam)
    return model, backend_models.train(model, kind, STEPS)


@pytest.fixture(scope="module")
def on_one_device():
    model, losses = train("pretrainer")
    return losses, backend_models.variables(model)


@pytest.mark.parametrize("shape", [(8,), (4, 2)])
def test_training_equals_that_on_one_device(distribute, on_one_device, shape):
    distribute(shape)
    model, losses = train("pretrainer")
    expected, variables = on_one_device
    np.testing.assert_allclose(losses, expected, atol=5e-6)

    for path, value in backend_models.variables(model).items():
        if not path.endswith("key/bias"):  # without effect on the loss
            np.testing.assert_allclose(value, variables[path], atol=2e-6, err_msg=path)


@pytest.mark.parametrize(
    ("kind", "shape"), [*((kind, (4, 2)) for kind in KINDS), ("pretrainer", (1, 8))]
)
def test_each_model_is_divided(distribute, kind, shape):
    expected = backend_models.outputs(backend_models.make(kind), kind)
    distribute(shape)
    model = backend_models.make(kind)
    assert_close_arrays(backend_models.outputs(model, kind), expected, 2e-6)

    # Each device has a part of the large variables.
    divided = [each for each in model.variables if each.path.endswith(LARGE)]
    assert len(divided) == 5
    for variable in divided:
        parts = {each.data.size for each in variable.value.addressable_shards}
        assert parts == {variable.value.size // shape[1]}, variable.path


def test_meshes_that_do_not_divide_the_model(distribute):
    for name, size in (("vocab_size", 49), ("num_attention_heads", 4)):
        config = bert_tf.BertConfig(**{**backend_models.SIZES, name: size})
        with refused_exactly(
            f"{name} must be a multiple of the last axis of the mesh, which has 8 "
            f"devices. Received: {size}. Give a mesh with another last axis, such as "
            "(8, 1), which divides only batches."
        ):
            distribute((1, 8), config)


def test_dropout_and_options_of_training(distribute):
    """Recomputation, bfloat16 and dropout work together, on several devices."""
    distribute((4, 2))
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config = bert_tf.BertConfig(**{**backend_models.SIZES, **rates})
    model = bert_tf.BertPretrainer(config, recompute=True, dtype="mixed_bfloat16")
    backend_models.compile_with(model, "pretrainer", backend_models.adam())
    losses = backend_models.train(model, "pretrainer", 2)
    assert np.isfinite(losses).all()
