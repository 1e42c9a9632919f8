"""The Keras optimizer and schedule in `fit`, compared with golden and NumPy values."""

import json
import pathlib
import re

import keras
import keras_fit_runs as runs
import numpy as np
import processors
import pytest
import tensorflow as tf
from json_files import read_json
from reference import optimization as reference
from refusals import refused

from bert_tf.config import BertConfig
from bert_tf.modeling import (
    BertClassifier,
    BertEncoder,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTagger,
    variables_by_name,
)
from bert_tf.training.keras_optimizer import AdamWeightDecay, WarmupSchedule
from bert_tf.training.training_config import SCHEDULES

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CONFIG = read_json(GOLDEN / "google_pretraining/bert_config.json")
INPUTS = ("input_ids", "input_mask", "segment_ids")
cross_entropy = keras.losses.SparseCategoricalCrossentropy
CLASSIFIER_LOSS = {"logits": cross_entropy(from_logits=True)}
MODELS = {
    "encoder": lambda config: BertEncoder(config),
    "pretrainer": lambda config: BertPretrainer(config),
    "classifier": lambda config: BertClassifier(
        config, num_labels=3, classifier_dropout=0.0
    ),
    "span_predictor": lambda config: BertSpanPredictor(config),
    "tagger": lambda config: BertTagger(config, num_labels=5),
    "multiple_choice": lambda config: BertMultipleChoice(config),
}


def make_schedule(**changes):
    return WarmupSchedule(**{"learning_rate": 1e-4, "num_train_steps": 10, **changes})


def make(kind):
    return MODELS[kind](BertConfig.from_dict(CONFIG))


def compile_released(model, trajectory, loss):
    """Compiles a model with the optimizer of a run of google-research/bert."""
    schedule = WarmupSchedule(
        float(trajectory["learning_rate"]),
        num_train_steps=int(trajectory["num_train_steps"]),
        num_warmup_steps=int(trajectory["num_warmup_steps"]),
    )
    model.compile(AdamWeightDecay(schedule), loss=loss)


def load(model, checkpoint):
    reader = tf.train.load_checkpoint(str(checkpoint))
    for name, variable in variables_by_name(model).items():
        variable.assign(reader.get_tensor(name))


def fit(model, batches, first, last):
    """Trains on the batches `first` to `last`, one epoch each; returns the logs."""
    examples = tf.data.Dataset.from_tensor_slices(batches).skip(first)
    history = model.fit(
        examples, epochs=last - first, steps_per_epoch=1, verbose=0, shuffle=False
    )
    return history.history


def classifier_batches(trajectory):
    """Returns inputs and labels of all steps."""
    return {name: trajectory[name] for name in INPUTS}, {
        "logits": trajectory["label_ids"]
    }


def compare_with_checkpoint(model, checkpoint):
    """Compares the weights and slots of a model with those of a checkpoint."""
    reader = tf.train.load_checkpoint(str(checkpoint))
    names = {id(variable): name for name, variable in variables_by_name(model).items()}
    _, *slots = model.optimizer.variables  # the number of steps, then all m, then all v
    moments = np.split(np.array(slots, object), 2)
    for variable, m, v in zip(model.trainable_variables, *moments, strict=True):
        name = names[id(variable)]
        for full_name, value in (
            (name, variable),
            (f"{name}/adam_m", m),
            (f"{name}/adam_v", v),
        ):
            expected = reader.get_tensor(full_name)
            np.testing.assert_allclose(
                value, expected, rtol=0, atol=1e-4, err_msg=full_name
            )


@pytest.mark.medium
def test_pretraining_through_fit_follows_the_original():
    golden = GOLDEN / "google_pretraining"
    trajectory = dict(np.load(golden / "trajectory.npz"))
    model = make("pretrainer")
    load(model, golden / "init/bert_model.ckpt")
    compile_released(
        model,
        trajectory,
        {
            "masked_lm_logits": cross_entropy(
                from_logits=True, reduction="mean_with_sample_weight"
            ),
            "next_sentence_logits": cross_entropy(from_logits=True),
        },
    )
    pairs = np.ones_like(trajectory["next_sentence_labels"], np.float32)
    batches = (
        {name: trajectory[name] for name in (*INPUTS, "masked_lm_positions")},
        {
            "masked_lm_logits": trajectory["masked_lm_ids"],
            "next_sentence_logits": trajectory["next_sentence_labels"],
        },
        {
            "masked_lm_logits": trajectory["masked_lm_weights"],
            "next_sentence_logits": pairs,
        },
    )
    done = 0
    for stop in (1, 10, 30):
        logs = fit(model, batches, done, stop)
        names = ("masked_lm_logits_loss", "next_sentence_logits_loss", "loss")
        found = np.transpose([logs[name] for name in names])
        np.testing.assert_allclose(found, trajectory["losses"][done:stop], atol=1e-4)
        compare_with_checkpoint(model, golden / f"step{stop}/model.ckpt-{stop}")
        done = stop


def test_classifier_through_fit_follows_the_original():
    golden = GOLDEN / "google_classifier"
    trajectory = dict(np.load(golden / "trajectory.npz"))
    model = make("classifier")
    load(model, golden / "init/model.ckpt")
    compile_released(model, trajectory, CLASSIFIER_LOSS)
    logs = fit(model, classifier_batches(trajectory), 0, 20)
    np.testing.assert_allclose(logs["loss"], trajectory["losses"], atol=1e-4)
    compare_with_checkpoint(model, golden / "step20/model.ckpt-20")


def test_mixed_bfloat16_follows_the_original_roughly():
    golden = GOLDEN / "google_classifier"
    trajectory = dict(np.load(golden / "trajectory.npz"))
    config = BertConfig.from_dict(CONFIG)
    model = BertClassifier(
        config, num_labels=3, classifier_dropout=0.0, dtype="mixed_bfloat16"
    )
    load(model, golden / "init/model.ckpt")
    compile_released(model, trajectory, CLASSIFIER_LOSS)
    logs = fit(model, classifier_batches(trajectory), 0, 20)
    assert all(slot.dtype == "float32" for slot in model.optimizer.variables[1:])
    # In emulation, the result of each operation is rounded, not only that of fused
    # ones.
    atol = 0.5 if processors.EMULATION else 0.1
    np.testing.assert_allclose(logs["loss"], trajectory["losses"], atol=atol)


@pytest.fixture(scope="module")
def two_replicas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two_replicas")
    return folder, runs.start(folder)


def compare_with_numpy(weights, expected):
    for found, (name, value) in zip(weights, expected.items(), strict=True):
        np.testing.assert_allclose(found, value, rtol=0, atol=2e-5, err_msg=name)


@pytest.mark.medium
@pytest.mark.parametrize("run", ["fit", "custom_loop"])
def test_two_replicas_sum_gradients_before_clipping(two_replicas, run):
    expected, norms = runs.train_in_numpy(clip_norm=1.0)
    assert min(norms) > 1
    # The test would notice if each replica clipped its own gradients.
    wrong, _ = runs.train_in_numpy(clip_norm=1.0, replicas_that_clip=2)
    assert all(np.abs(wrong[name] - expected[name]).max() > 0.05 for name in expected)
    found = dict(np.load(two_replicas[0] / f"{run}.npz"))
    compare_with_numpy(found.values(), expected)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        ("without_build", "Call optimizer.build"),
        ("jit_compile", "Give jit_compile=False"),
    ],
)
def test_misuse_with_two_replicas_is_refused(two_replicas, misuse, message):
    assert message in two_replicas[1][misuse]


@pytest.mark.parametrize(
    ("clip_norm", "options"),
    [
        (1.0, {}),
        (25.0, {}),
        (None, {}),
        (1.0, {"jit_compile": True}),
        (1.0, {"run_eagerly": True}),
    ],
    ids=str,
)
def test_steps_of_fit(clip_norm, options):
    model = runs.make_model()
    model.compile(runs.make_optimizer(clip_norm), "mse", **options)
    runs.fit(model)
    compare_with_numpy(model.get_weights(), runs.train_in_numpy(clip_norm)[0])


@pytest.mark.slow
def test_keras_file_continues_exactly(tmp_path):
    model = runs.make_model()
    model.compile(runs.make_optimizer(), "mse")
    runs.fit(model, slice(0, 2))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    runs.fit(model, slice(2, 4))
    runs.fit(loaded, slice(2, 4))
    assert isinstance(loaded.optimizer, AdamWeightDecay)
    for one, other in zip(
        model.get_weights() + [v.numpy() for v in model.optimizer.variables],
        loaded.get_weights() + [v.numpy() for v in loaded.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    compare_with_numpy(loaded.get_weights(), runs.train_in_numpy(1.0)[0])


@pytest.mark.parametrize("built", [True, False], ids=["built", "not_built"])
def test_tensorflow_checkpoint_continues_exactly(tmp_path, built):
    def parts():
        model = runs.make_model()
        model.compile(runs.make_optimizer(), "mse")
        return model, tf.train.Checkpoint(model=model, optimizer=model.optimizer)

    model, checkpoint = parts()
    runs.fit(model, slice(0, 2))
    path = checkpoint.save(tmp_path / "checkpoint")
    other, checkpoint = parts()
    if built:
        other.optimizer.build(other.trainable_variables)
    status = checkpoint.restore(path)
    runs.fit(other, slice(2, 4))
    status.assert_consumed()
    assert int(other.optimizer.iterations) == 4
    compare_with_numpy(other.get_weights(), runs.train_in_numpy(1.0)[0])


def decaying(variables):
    """Returns for each variable whether it changes in a step whose gradients are 0."""
    for variable in variables:
        variable.assign(np.ones(variable.shape))
    AdamWeightDecay(0.5).apply([tf.zeros(v.shape) for v in variables], variables)
    changed = [np.unique(variable) for variable in variables]
    np.testing.assert_allclose(
        np.concatenate(changed), [0.995 if v < 1 else 1 for v in changed]
    )
    return [bool(value < 1) for value in changed]


@pytest.mark.parametrize("kind", MODELS)
def test_decaying_variables_are_the_released_ones(kind):
    named = variables_by_name(make(kind))
    expected = [not re.search("LayerNorm|layer_norm|bias", name) for name in named]
    assert 0 < sum(expected) < len(expected)
    assert decaying(list(named.values())) == expected


def test_decaying_variables_of_another_keras_model():
    layers = keras.layers
    # The names of layers do not matter, only the names of their variables.
    inputs = keras.Input([4], dtype="int32")
    x = layers.Embedding(9, 6, name="bias")(inputs)
    x = layers.LayerNormalization()(x)
    x = layers.MultiHeadAttention(2, 3, name="beta")(x, x)
    x = layers.BatchNormalization()(
        layers.RMSNormalization()(layers.GroupNormalization(2)(x))
    )
    x = layers.Dense(2, name="scale")(layers.LSTM(3, name="gamma")(x))
    model = keras.Model(inputs, x)
    variables = model.trainable_variables
    decay = {v.path for v, d in zip(variables, decaying(variables), strict=True) if d}
    assert {path.split("/")[-1] for path in decay} == {
        "embeddings", "kernel", "recurrent_kernel",
    }  # fmt: skip
    rest = {variable.path for variable in variables} - decay
    assert {path.split("/")[-1] for path in rest} == {"gamma", "beta", "scale", "bias"}


def test_own_patterns_exclude_from_weight_decay():
    model = runs.make_model()
    before = model.get_weights()
    optimizer = AdamWeightDecay(0.5, 0.1, exclude_from_weight_decay=["^.*/embeddings$"])
    variables = model.trainable_variables
    optimizer.apply([tf.zeros(v.shape) for v in variables], variables)
    for found, value, factor in zip(
        model.get_weights(), before, [1, 0.95, 0.95], strict=True
    ):
        np.testing.assert_allclose(found, factor * value, rtol=1e-6)


def test_variable_without_gradient_keeps_value_and_slots():
    model = runs.make_model()
    optimizer = AdamWeightDecay(0.5)
    optimizer.build(model.trainable_variables)
    before = model.get_weights()
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply(
            [None, tf.ones([runs.WIDTH, 1]), None], model.trainable_variables
        )
    after = model.get_weights()
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_array_equal(after[2], before[2])
    assert np.abs(after[1] - before[1]).min() > 0.1
    moments = [np.abs(slot).max() for slot in optimizer.variables[2:]]
    assert [value > 0 for value in moments] == [False, True, False] * 2


def test_only_sparse_gradients():
    model = runs.make_model()
    model.layers[-1].trainable = False
    model.compile(runs.make_optimizer(), "mse")
    before = model.get_weights()[0]
    runs.fit(model)
    assert np.isfinite(model.get_weights()[0]).all()
    assert np.abs(model.get_weights()[0] - before).max() > 0.05


def test_mixed_float16_is_refused():
    model = BertClassifier(
        BertConfig.from_dict(CONFIG), num_labels=3, dtype="mixed_float16"
    )
    with refused("Use mixed_bfloat16"):
        model.compile(AdamWeightDecay(), CLASSIFIER_LOSS)


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [
        (AdamWeightDecay, "learning_rate", 0),
        (AdamWeightDecay, "clip_norm", 0),
        (AdamWeightDecay, "beta_2", 1.0),
        (AdamWeightDecay, "exclude_from_weight_decay", "bias"),
        (make_schedule, "learning_rate", 0.0),
        (make_schedule, "num_warmup_steps", -1),
        (make_schedule, "num_warmup_steps", 11),
        (make_schedule, "decay", "exponential"),
    ],
)
def test_wrong_arguments_are_refused(make, field, value):
    with refused(f"^{field} must be .* Received"):
        make(**{field: value})


def test_keras_methods_with_another_meaning_are_refused():
    with refused("exclude_from_weight_decay"):
        AdamWeightDecay().exclude_from_weight_decay(var_names=["bias"])
    with refused("LossScaleOptimizer"):
        keras.optimizers.LossScaleOptimizer(AdamWeightDecay())


@pytest.mark.parametrize("decay", SCHEDULES)
def test_schedule(decay):
    schedule = WarmupSchedule(2e-5, 20, 5, decay)
    for step in (0, 1, 4, 5, 6, 19, 20, 25):
        expected = reference.rate(decay, step, 2e-5, 20, 5)
        np.testing.assert_allclose(
            float(schedule(step)), expected, rtol=1e-5, atol=1e-11
        )


class ReleasedRule(keras.optimizers.Optimizer):
    """The released update in an optimizer whose options are those of Keras."""

    def __init__(
        self, learning_rate, epsilon=1e-6, beta_1=0.9, beta_2=0.999, **options
    ):
        super().__init__(learning_rate, **options)
        self.epsilon, self.beta_1, self.beta_2 = epsilon, beta_1, beta_2

    def build(self, variables):
        super().build(variables)
        self.moments = [
            [self.add_variable_from_reference(each, name=name) for name in "mv"]
            for each in variables
        ]

    def update_step(self, gradient, variable, learning_rate):
        m, v = self.moments[self._get_variable_index(variable)]
        gradient = tf.convert_to_tensor(gradient)
        m.assign(self.beta_1 * m + (1 - self.beta_1) * gradient)
        v.assign(self.beta_2 * v + (1 - self.beta_2) * gradient**2)
        decay = 0.01 if len(variable.shape) == 2 else 0.0
        change = m / (keras.ops.sqrt(v) + self.epsilon) + decay * variable
        variable.assign_sub(tf.convert_to_tensor(learning_rate * change))


@pytest.mark.parametrize(
    "options",
    [
        {
            "use_ema": True,
            "ema_momentum": 0.5,
            "epsilon": 0.1,
            "beta_1": 0.8,
            "beta_2": 0.98,
        },
        {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 2},
        {"gradient_accumulation_steps": 2},
        {"gradient_accumulation_steps": 4, "global_clipnorm": 1.0},
        {"global_clipnorm": 0.5},
    ],
    ids=str,
)
def test_options_mean_what_they_mean_in_keras(options):
    weights = []
    limit = {} if "global_clipnorm" in options else {"clip_norm": None}
    for optimizer in (
        ReleasedRule(0.1, **options),
        AdamWeightDecay(0.1, **limit, **options),
    ):
        model = runs.make_model()
        # The released norm counts each look-up of an embedding.
        model.layers[0].trainable = "global_clipnorm" not in options
        model.compile(optimizer, "mse")
        ids, targets = runs.examples()
        model.fit(ids, targets, batch_size=2, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for expected, found in zip(*weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert np.abs(weights[1][1] - runs.initial_weights()["kernel"]).max() > 0.05


@pytest.mark.parametrize(
    "option", ["clipnorm", "clipvalue", "loss_scale_factor", "weight_decay"]
)
def test_other_options_of_keras_are_refused_by_name(option):
    with refused(f"does not support {option}. .*(Give|Use) "):
        AdamWeightDecay(**{option: 1.0})
    with pytest.raises(ValueError, match="not recognized"):
        AdamWeightDecay(amsgrad=True)


@pytest.mark.parametrize(
    "learning_rate",
    [0.25, WarmupSchedule(2e-5, 100, 10, "cosine")],
    ids=["number", "schedule"],
)
def test_config_is_stored_as_json(learning_rate):
    optimizer = AdamWeightDecay(
        learning_rate, 0.5, None, ["a", "b$"], "other", 0.8, 0.98, 1e-7
    )
    text = json.dumps(keras.saving.serialize_keras_object(optimizer))
    copy = keras.saving.deserialize_keras_object(json.loads(text))
    assert isinstance(copy, AdamWeightDecay)
    assert copy.get_config() == optimizer.get_config()
    assert copy.get_config() | {"learning_rate": 0} == {
        "name": "other",
        "learning_rate": 0,
        "weight_decay_rate": 0.5,
        "clip_norm": None,
        "exclude_from_weight_decay": ["a", "b$"],
        "beta_1": 0.8,
        "beta_2": 0.98,
        "epsilon": 1e-7,
        "use_ema": False,
        "ema_momentum": 0.99,
        "ema_overwrite_frequency": None,
        "gradient_accumulation_steps": None,
    }
    np.testing.assert_array_equal(copy.learning_rate, optimizer.learning_rate)


def test_released_defaults():
    config = AdamWeightDecay().get_config()
    assert config["learning_rate"] == pytest.approx(5e-5)
    assert (config["weight_decay_rate"], config["clip_norm"]) == (0.01, 1.0)
    assert (config["beta_1"], config["beta_2"]) == (0.9, 0.999)
    assert WarmupSchedule(1, 10).get_config() == {
        "learning_rate": 1.0,
        "num_train_steps": 10,
        "num_warmup_steps": 0,
        "decay": "released",
    }


@pytest.mark.parametrize("frozen", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_first_fit_traces_the_step_once(frozen):
    model = make("classifier")
    model.bert.embeddings.trainable = not frozen
    traced = []
    call = model.bert.call
    model.bert.call = lambda *args, **kwargs: traced.append(1) or call(*args, **kwargs)
    model.compile(AdamWeightDecay(1e-4), CLASSIFIER_LOSS)
    inputs = {name: np.ones((4, 8), np.int32) for name in INPUTS}
    model.fit(inputs, {"logits": np.ones(4, np.int32)}, batch_size=2, verbose=0)
    assert sum(traced) == 1
    assert int(model.optimizer.iterations) == 2
