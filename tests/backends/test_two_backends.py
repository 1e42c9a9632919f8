"""Files and training on one backend, compared with those on TensorFlow."""

import re

import backend_models
import keras
import numpy as np
import pytest
from backend_models import KINDS
from golden_checkpoints import assert_close_arrays

import bert_tf

BACKEND = keras.backend.backend()
TRAINED = [kind for kind in KINDS if kind != "encoder"]
# The loss does not depend on these variables, so their gradients are rounding errors.
NO_EFFECT = {
    "span": "(key/bias|head/output_bias|layer_0/output_norm/beta)",
    "choice": "(key/bias|head/output_bias)",
}
# The loss of these models does not use the pooler. JAX has gradients of 0 for it, and
# the other backends have none: there, its weights do not decay.
WITHOUT_POOLER = ("span", "tagger")
pytestmark = pytest.mark.skipif(
    BACKEND == "tensorflow", reason="set KERAS_BACKEND=jax or KERAS_BACKEND=torch"
)


@pytest.fixture(scope="module")
def models():
    return {kind: backend_models.make(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    """A folder with models of this backend and the results of TensorFlow."""
    folder = tmp_path_factory.mktemp("tensorflow")
    for kind, model in models.items():
        model.save(folder / f"{kind}.keras")
        bert_tf.save_checkpoint(model, None, folder / kind)
    backend_models.run_on("tensorflow", folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_files_pass_from_one_backend_to_another(folder, models, kind):
    expected = backend_models.outputs(models[kind], kind)
    for result in ("of_file", "of_checkpoint", "outputs"):
        found = backend_models.load(folder / f"{kind}_{result}.npz")
        assert_close_arrays(found, expected, 2e-6)
    other = bert_tf.load(folder / f"{kind}_other").model(KINDS[kind][0])
    assert_close_arrays(backend_models.outputs(other, kind), expected, 2e-6)


@pytest.mark.parametrize("kind", TRAINED)
def test_weights_and_moments_after_twelve_steps(folder, kind):
    losses, variables, _ = backend_models.trained_here(kind)
    expected = np.load(folder / f"{kind}_losses.npz")["losses"]
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    trained = backend_models.load(folder / f"{kind}_trained.npz")
    found = dict(variables)
    for path in list(found):
        is_unused = kind in WITHOUT_POOLER and "pooler" in path
        if is_unused or re.search(NO_EFFECT.get(kind, "key/bias"), path):
            del found[path], trained[path]
    assert len(found) > 60
    assert_close_arrays(found, trained, 1e-6 if kind == "pretrainer" else 5e-6)


def test_training_continues_from_a_keras_file_of_tensorflow(folder):
    """The file contains the optimizer with its schedule, its moments and its step."""
    model = bert_tf.load(folder / "pretrainer_other.keras")
    expected = backend_models.load(folder / "pretrainer_trained_outputs.npz")
    assert_close_arrays(backend_models.outputs(model, "pretrainer"), expected, 2e-6)
    trained = backend_models.load(folder / "pretrainer_trained.npz")
    assert_close_arrays(backend_models.variables(model), trained, 0)

    *_, expected = backend_models.trained_here("pretrainer")
    losses = backend_models.train(model, "pretrainer", 3, backend_models.STEPS)
    np.testing.assert_allclose(losses, expected, atol=1e-5)
