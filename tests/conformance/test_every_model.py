"""Tests properties that users rely on, for every model."""

import dataclasses
import functools
import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import variables_by_name

SMALL = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=16,
    type_vocab_size=2,
    initializer_range=0.3,
)
CONFIGS = {
    "bidirectional": SMALL,
    "two_blocks": dataclasses.replace(SMALL, num_hidden_layers=2),
    "causal": dataclasses.replace(SMALL, attention="causal"),
    "gelu_exact": dataclasses.replace(SMALL, hidden_act="gelu_exact"),
    "relu": dataclasses.replace(SMALL, hidden_act="relu"),
    "epsilon": dataclasses.replace(SMALL, layer_norm_eps=1e-5),
}
KINDS = {
    "encoder": modeling.BertEncoder,
    "pretrainer": modeling.BertPretrainer,
    "mlm only": functools.partial(modeling.BertPretrainer, next_sentence=False),
    "classifier": functools.partial(modeling.BertClassifier, num_labels=3),
    "regressor": functools.partial(modeling.BertClassifier, num_labels=1),
    "span": modeling.BertSpanPredictor,
    "tagger": functools.partial(modeling.BertTagger, num_labels=4),
    "choice": modeling.BertMultipleChoice,
}
WITHOUT_POOLER = ("mlm only", "span", "tagger")
B, C, S, P = 3, 2, 8, 4


def build(kind: str, config: str = "bidirectional", **arguments) -> keras.Model:
    return KINDS[kind](CONFIGS[config], seed=7, **arguments)


@functools.cache
def shared(kind: str, config: str = "bidirectional", **arguments):
    """Returns a model that no test changes, and its outputs for `inputs_for(kind)`."""
    model = build(kind, config, **arguments)
    return model, model(inputs_for(kind))


def inputs_for(kind: str, length: int = S) -> dict[str, tf.Tensor]:
    """Random inputs of S tokens, padded to `length`.

    The last example has S - 1 tokens.
    """
    generator = np.random.default_rng(1)
    shape = (B, C, S) if kind == "choice" else (B, S)
    ids = generator.integers(1, 40, shape)
    mask = np.ones(shape, np.int64)
    mask[-1, ..., -1] = 0
    columns = {"input_ids": ids, "input_mask": mask, "segment_ids": ids % 2}
    padding = [(0, 0)] * (len(shape) - 1) + [(0, length - S)]
    result = {
        name: tf.constant(np.pad(c, padding), tf.int32) for name, c in columns.items()
    }
    if kind in ("pretrainer", "mlm only"):
        result["masked_lm_positions"] = tf.constant(
            [[1, 3, 4, 6], [2, 3, 0, 0], [1, 5, 6, 0]]
        )
    return result


def arrays(outputs) -> dict[str, np.ndarray]:
    """Converts each output to a float32 array.

    A list of arrays is stacked on axis 0.
    """
    return {
        name: np.stack([np.asarray(v, np.float32) for v in value])
        if isinstance(value, list)
        else np.asarray(value, np.float32)
        for name, value in outputs.items()
    }


def assert_same(one, two, atol=1e-5) -> None:
    one, two = arrays(one), arrays(two)
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(
            one[name], two[name], atol=atol, rtol=1e-5, err_msg=name
        )


with_all_kinds = pytest.mark.parametrize("kind", KINDS)
# Every kind of model with the bidirectional config, and one kind with every config.
with_kinds_and_configs = pytest.mark.parametrize(
    ("kind", "config"),
    [
        *((kind, "bidirectional") for kind in KINDS),
        *(("mlm only", config) for config in CONFIGS if config != "bidirectional"),
    ],
)


@with_kinds_and_configs
def test_saving_and_loading_keeps_config_weights_and_outputs(kind, config, tmp_path):
    model, outputs = shared(kind, config)
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)
    assert type(loaded) is type(model)
    assert loaded.config.to_dict() == model.config.to_dict()
    assert list(variables_by_name(loaded)) == list(variables_by_name(model))
    assert_same(loaded(inputs_for(kind)), outputs, atol=0)


@with_all_kinds
def test_frozen_layers_stay_frozen_after_loading(kind, tmp_path):
    model = build(kind)
    encoder = getattr(model, "bert", model)
    encoder.embeddings.trainable = False
    encoder.layer_0.trainable = False
    encoder.layer_0.attention.query.trainable = True
    names = [variable.path for variable in model.trainable_variables]
    assert any("layer_0/attention/query/kernel" in name for name in names)
    assert not any("embeddings" in name for name in names)
    model.save(tmp_path / "model.keras")
    larger = keras.Model(symbolic := inputs_for_functional(kind), model(symbolic))
    larger.save(tmp_path / "larger.keras")
    for loaded in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(model),
        keras.saving.load_model(tmp_path / "larger.keras"),
    ):
        trained = [variable.path for variable in loaded.trainable_variables]
        assert trained == names


def inputs_for_functional(kind):
    """Returns symbolic inputs for the model of this kind."""
    return {
        name: keras.Input([None] * (value.shape.rank - 1), dtype="int32", name=name)
        for name, value in inputs_for(kind).items()
        if name in ("input_ids", "input_mask", "segment_ids")
    }


def test_two_encoders_may_be_parts_of_one_model():
    symbolic = inputs_for_functional("encoder")
    encoders = [modeling.BertEncoder(build("encoder").config) for _ in range(2)]
    pooled = [encoder(symbolic)["pooled_output"] for encoder in encoders]
    model = keras.Model(symbolic, keras.layers.Concatenate()(pooled))
    paths = [weight.path for weight in model.weights]
    assert len(set(paths)) == len(paths)


@with_all_kinds
def test_from_config_reverses_get_config(kind):
    model, _ = shared(kind, dtype="mixed_bfloat16")
    rebuilt = type(model).from_config(model.get_config())
    assert rebuilt.get_config() == model.get_config()
    assert rebuilt.dtype_policy.name == "mixed_bfloat16"


@with_kinds_and_configs
def test_eager_graph_and_xla_outputs_are_equal(kind, config):
    """Batch and length are constants in XLA, and dynamic in the graph."""
    model, expected = shared(kind, config)
    inputs = inputs_for(kind)
    assert_same(tf.function(model, jit_compile=True)(inputs), expected)

    spec = {
        n: tf.TensorSpec([None] * v.shape.rank, tf.int32) for n, v in inputs.items()
    }
    graph = tf.function(model, input_signature=[spec])
    assert_same(graph(inputs), expected)
    fewer = {name: value[:2] for name, value in inputs.items()}
    assert_same(graph(fewer), model(fewer))


@with_kinds_and_configs
def test_outputs_of_an_example_do_not_depend_on_the_rest_of_the_batch(kind, config):
    model, outputs = shared(kind, config)
    inputs, batched = inputs_for(kind), arrays(outputs)
    for row in range(B):
        single = arrays(
            model({name: value[row : row + 1] for name, value in inputs.items()})
        )
        for name, value in batched.items():
            axis = 1 if name == "encoder_outputs" else 0
            np.testing.assert_allclose(
                np.take(value, [row], axis), single[name], atol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_predictions_do_not_depend_on_the_batch_if_both_have_the_same_number(size):
    """`keras.ops.add` takes a tensor [size, 1] for a bias of a tensor [size, size]."""
    model, inputs = shared("mlm only")[0], inputs_for("mlm only")
    inputs = {name: value[:size] for name, value in inputs.items()}
    everywhere = model({**inputs, "masked_lm_positions": None})[
        "masked_lm_logits"
    ].numpy()
    positions = inputs["masked_lm_positions"][:, :size].numpy()
    logits = model({**inputs, "masked_lm_positions": positions})["masked_lm_logits"]
    np.testing.assert_allclose(
        logits, np.take_along_axis(everywhere, positions[..., None], 1), atol=1e-5
    )


@with_kinds_and_configs
def test_padding_does_not_change_outputs(kind, config):
    model, outputs = shared(kind, config)
    short, long = arrays(outputs), arrays(model(inputs_for(kind, S + 5)))
    for name, value in short.items():
        truncated = long[name]
        for axis, size in enumerate(value.shape):
            truncated = np.take(truncated, range(size), axis)
        np.testing.assert_allclose(truncated, value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["encoder", "mlm only", "span", "tagger"])
def test_causal_outputs_do_not_depend_on_later_tokens(kind):
    """A change of the last token changes earlier outputs of bidirectional models."""
    for config, changes in (("causal", False), ("bidirectional", True)):
        model, inputs = shared(kind, config)[0], inputs_for(kind)
        inputs.pop("masked_lm_positions", None)
        ids = inputs["input_ids"].numpy()
        ids[0, -1] = ids[0, -1] % 39 + 1
        before, after = (
            arrays(model(inputs)),
            arrays(model({**inputs, "input_ids": ids})),
        )
        for name in before:
            if name != "pooled_output":
                first = (0, slice(0, S - 1)) if name != "encoder_outputs" else (
                    slice(None), 0, slice(0, S - 1)
                )  # fmt: skip
                difference = np.abs(before[name][first] - after[name][first]).max()
                if name != "embedding_output":
                    assert (difference > 1e-4) == changes, (name, difference)
                if not changes:
                    assert difference == 0, name


@with_all_kinds
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_float32_weights_and_accurate_outputs(kind, policy):
    (exact, expected), (mixed, outputs) = shared(kind), shared(kind, dtype=policy)
    for one, two in zip(
        variables_by_name(exact).values(),
        variables_by_name(mixed).values(),
        strict=True,
    ):
        assert two.dtype == "float32"
        np.testing.assert_array_equal(one, two)
    for name, value in outputs.items():
        if name.endswith("logits"):
            assert value.dtype == tf.float32, name
    # bfloat16 has 8 bits of mantissa, float16 has 11. Rounding errors accumulate over a
    # few dozen sums, so each error is compared with the largest output.
    rounded = arrays(outputs)
    for name, value in arrays(expected).items():
        error = np.abs(rounded[name] - value).max() / np.abs(value).max()
        assert error < (0.08 if policy == "mixed_bfloat16" else 0.01), (name, error)


@with_all_kinds
def test_gradients_reach_every_used_weight_and_are_finite(kind):
    model, inputs = shared(kind)[0], inputs_for(kind)
    with tf.GradientTape() as tape:
        outputs = model(inputs, training=True)
        loss = tf.add_n([tf.reduce_sum(tf.square(tf.cast(v, tf.float32)))
                         for v in tf.nest.flatten(outputs)])  # fmt: skip
    variables = variables_by_name(model)
    gradients = tape.gradient(loss, [v.value for v in variables.values()])
    unused = {name for name, g in zip(variables, gradients, strict=True) if g is None}
    without_pooler = kind in WITHOUT_POOLER
    pooler = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    assert unused == (pooler if without_pooler else set())
    for name, gradient in zip(variables, gradients, strict=True):
        if gradient is not None:
            assert np.isfinite(tf.convert_to_tensor(gradient).numpy()).all(), name


@with_all_kinds
def test_other_keys_are_ignored(kind):
    model, outputs = shared(kind)
    extended = {
        **inputs_for(kind),
        "label_ids": tf.constant([1, 0, 1]),
        "weights": tf.constant([0.5]),
    }
    assert_same(model(extended), outputs, atol=0)


@with_all_kinds
def test_an_empty_batch_gives_empty_outputs(kind):
    model, outputs = shared(kind)
    empty = {name: value[:0] for name, value in inputs_for(kind).items()}
    full = arrays(outputs)
    for name, value in arrays(model(empty)).items():
        axis = 1 if name == "encoder_outputs" else 0
        assert value.shape[axis] == 0, name
        assert (
            np.delete(value.shape, axis).tolist()
            == np.delete(full[name].shape, axis).tolist()
        )


@with_all_kinds
def test_missing_inputs_are_completed(kind):
    """Without a mask, ids that are 0 are padding.

    Without segment ids, all of them are 0.
    """
    model, inputs = shared(kind)[0], inputs_for(kind)
    ids = inputs["input_ids"].numpy()
    ids[inputs["input_mask"].numpy() == 0] = 0
    positions = {n: v for n, v in inputs.items() if n == "masked_lm_positions"}
    full = {
        "input_ids": ids,
        "input_mask": np.int32(ids > 0),
        "segment_ids": np.zeros_like(ids),
    }
    expected = model({**full, **positions})
    assert_same(model({"input_ids": ids, **positions}), expected, atol=0)
    assert_same(
        model({**full, **positions, "input_mask": None, "segment_ids": None}),
        expected,
        atol=0,
    )


@functools.cache
def with_large_ids(kind):
    """Returns a mixed model, inputs with ids above 1000, and the outputs for them."""
    config = dataclasses.replace(SMALL, vocab_size=1100)
    model = KINDS[kind](config, seed=7, dtype="mixed_bfloat16")
    inputs = inputs_for(kind)
    inputs["input_ids"] += 1001
    return model, inputs, model(inputs)


@with_all_kinds
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "float64"])
def test_other_dtypes_give_the_same_outputs(kind, dtype):
    """Under a mixed policy, float32 ids above 256 must not become bfloat16."""
    model, inputs, expected = with_large_ids(kind)
    if dtype == "uint8":
        inputs = inputs_for(kind)
        expected = model(inputs)
    others = {name: tf.cast(value, dtype) for name, value in inputs.items()}
    assert_same(model(others), expected, atol=0)


@with_all_kinds
def test_weight_paths_are_unique_and_hierarchical(kind):
    model = build(kind, "two_blocks", name="model")
    paths = [weight.path for weight in model.weights]
    assert len(set(paths)) == len(paths) == len(variables_by_name(model))
    encoder = "model" if kind == "encoder" else "model/bert"
    blocks = [path for path in paths if path.startswith(f"{encoder}/layer_")]
    assert len(blocks) == 16 * model.config.num_hidden_layers
    assert {
        f"{encoder}/{path}"
        for path in (
            "embeddings/word_embeddings", "embeddings/norm/gamma", "pooler/bias",
            "layer_1/attention/query/kernel", "layer_0/attention_norm/gamma",
            "layer_0/output/kernel",
        )
    } <= set(paths)  # fmt: skip
    model(inputs_for(kind))
    assert [weight.path for weight in model.weights] == paths


@with_all_kinds
def test_weights_files_checkpoints_and_h5_files_restore_all_weights(kind, tmp_path):
    model = build(kind)
    values = {name: np.array(v) for name, v in variables_by_name(model).items()}

    def perturb(changed):
        for variable in variables_by_name(changed).values():
            variable.assign(variable + 1)

    def assert_restored(restored):
        for name, variable in variables_by_name(restored).items():
            np.testing.assert_array_equal(variable, values[name], err_msg=name)

    saved = tf.train.Checkpoint(model=model).save(str(tmp_path / "checkpoint"))
    model.save_weights(tmp_path / "model.weights.h5")
    model.save(tmp_path / "model.h5")
    perturb(model)
    tf.train.Checkpoint(model=model).restore(saved).assert_consumed()
    assert_restored(model)
    perturb(model)
    model.load_weights(tmp_path / "model.weights.h5")
    assert_restored(model)
    objects = {type(model).__name__: type(model)}
    assert_restored(
        keras.saving.load_model(tmp_path / "model.h5", custom_objects=objects)
    )


@with_all_kinds
def test_export_has_int32_inputs_of_any_size(kind, tmp_path):
    """Before the first call of the model.

    The exported model is called with other sizes.
    """
    model, inputs = build(kind), inputs_for(kind)
    inputs.pop("masked_lm_positions", None)
    model.export(tmp_path / "any", verbose=False)
    exported = tf.saved_model.load(tmp_path / "any")
    _, specs = exported.signatures["serving_default"].structured_input_signature
    assert {
        name: (spec.dtype, spec.shape.as_list()) for name, spec in specs.items()
    } == {name: (tf.int32, [None] * value.shape.rank) for name, value in inputs.items()}
    for size in (B, 1):
        part = {name: value[:size, ..., : S - size] for name, value in inputs.items()}
        outputs = exported.signatures["serving_default"](**part)
        assert_same(outputs, without_lists(model(part)))


@pytest.mark.medium
def test_export_after_a_call_and_with_a_given_signature(tmp_path):
    model, inputs = build("classifier"), inputs_for("classifier")
    model(inputs)
    model.compile("sgd", loss="mse")
    model.fit(inputs, np.zeros((B, 3)), verbose=0)
    model.export(tmp_path / "any", verbose=False)
    exported = tf.saved_model.load(tmp_path / "any")
    assert_same(exported.serve(inputs), model(inputs))
    for form in (
        tf.TensorSpec((B, S), tf.int64, "input_ids"),
        keras.InputSpec("int64", (B, S)),
    ):
        model.export(
            tmp_path / "given", verbose=False, input_signature=[{"input_ids": form}]
        )
        exported = tf.saved_model.load(tmp_path / "given")
        _, specs = exported.signatures["serving_default"].structured_input_signature
        assert [(s.dtype, s.shape.as_list()) for s in specs.values()] == [
            (tf.int64, [B, S])
        ]


def without_lists(outputs):
    return {n: v for n, v in outputs.items() if not isinstance(v, list)}


@with_all_kinds
def test_models_work_inside_functional_models(kind, tmp_path):
    (model, outputs), inputs = shared(kind), inputs_for(kind)
    # Without a dtype, a Keras input is float32.
    symbolic = {n: keras.Input(v.shape[1:], name=n) for n, v in inputs.items()}
    larger = keras.Model(symbolic, without_lists(model(symbolic)))
    expected = without_lists(outputs)
    assert_same(larger(inputs), expected, atol=0)
    assert {n: v.dtype for n, v in larger.output.items()} == {
        n: keras.backend.standardize_dtype(v.dtype) for n, v in expected.items()
    }
    larger.save(tmp_path / "larger.keras")
    assert_same(
        keras.saving.load_model(tmp_path / "larger.keras")(inputs), expected, atol=0
    )


@with_all_kinds
def test_clones_have_the_same_config_and_other_weights(kind):
    model, outputs = shared(kind)
    clone = keras.models.clone_model(model)
    assert clone.get_config() == model.get_config()
    kernels = [variables_by_name(m)["bert/pooler/dense/kernel"] for m in (model, clone)]
    assert np.abs(kernels[0] - kernels[1]).max() > 0
    for one, two in zip(model.weights, clone.weights, strict=True):
        two.assign(one)
    assert_same(clone(inputs_for(kind)), outputs, atol=0)


def leaves(shapes):
    """Returns the shapes in a dict of shapes and lists of shapes."""
    values = shapes.values()
    return [
        each
        for value in values
        for each in (value if isinstance(value, list) else [value])
    ]


@with_all_kinds
def test_output_shapes_are_known_without_a_call(kind):
    inputs, (model, outputs) = inputs_for(kind), shared(kind)
    shapes = {name: tuple(value.shape) for name, value in inputs.items()}
    expected = keras.tree.map_structure(lambda x: tuple(x.shape), outputs)
    assert model.compute_output_shape(shapes) == expected
    unknown = model.compute_output_shape(
        {name: (None, *s[1:]) for name, s in shapes.items()}
    )
    assert [s[0] for s in map(tuple, leaves(unknown))] == [None] * len(leaves(expected))
    mixed, _ = shared(kind, dtype="mixed_bfloat16")
    symbolic = mixed(inputs_for_functional(kind))
    dtypes = {value.dtype for value in keras.tree.flatten(symbolic)}
    assert dtypes == {"bfloat16" if kind == "encoder" else "float32"}


@with_all_kinds
def test_what_the_models_do_not_support_is_refused_by_name(kind):
    with pytest.raises(
        InputError, match=r"Received: a dict\. Give BertConfig\.from_dict"
    ):
        KINDS[kind](SMALL.to_dict())
    with pytest.raises(InputError, match=r"Received: int8\. .*tflite_precisions"):
        shared(kind)[0].quantize("int8")
    with pytest.raises(InputError, match="Received: int8_from_float32"):
        build(kind, dtype="int8_from_float32")


@with_all_kinds
def test_summary_shows_shapes(kind):
    lines: list[str] = []
    shared(kind, "two_blocks")[0].summary(
        print_fn=lambda text, **_: lines.append(text), expand_nested=True
    )
    rows = [line for line in "\n".join(lines).split("\n") if line.startswith("│")]
    shown = {
        row.split("│")[1].strip("└ ").split(" ")[0]: row.split("│")[2].strip()
        for row in rows
    }
    assert (
        shown["embeddings"]
        == shown["layer_0"]
        == shown["layer_1"]
        == "(None, None, 16)"
    )
    assert shown["pooler"] == "(None, 16)"
    expected = {
        "encoder": {},
        "pretrainer": {
            "predictions": "(None, None, 40)",
            "seq_relationship": "(None, 2)",
        },
        "mlm only": {"predictions": "(None, None, 40)"},
        "classifier": {"dropout": "(None, 16)", "head": "(None, 3)"},
        "regressor": {"dropout": "(None, 16)", "head": "(None, 1)"},
        "span": {"head": "(None, 2)"},
        "tagger": {"dropout": "(None, 16)", "head": "(None, 4)"},
        "choice": {"dropout": "(None, 16)", "head": "(None, 1)"},
    }[kind]
    assert expected.items() <= shown.items()
    assert "?" not in shown.values()


@with_all_kinds
def test_pure_bfloat16_stores_weights_in_bfloat16(kind):
    (exact, expected), rounded = shared(kind), build(kind, dtype="bfloat16")
    for one, two in zip(exact.weights, rounded.weights, strict=True):
        assert two.dtype == "bfloat16"
        two.assign(one)
    expected, outputs = arrays(expected), rounded(inputs_for(kind))
    for name, value in outputs.items():
        if name.endswith("logits"):
            assert value.dtype == tf.float32, name
        # The bound is that of mixed_bfloat16, and half as much for the rounded weights.
        error = np.abs(arrays(outputs)[name] - expected[name]).max()
        assert error < 0.12 * np.abs(expected[name]).max(), (name, error)


# The output that is fitted, the shape of its labels, and whether these are classes.
FIT = {
    "encoder": ("pooled_output", (B, 16), False),
    "pretrainer": ("masked_lm_logits", (B, P), True),
    "mlm only": ("masked_lm_logits", (B, P), True),
    "classifier": ("logits", (B,), True),
    "regressor": ("logits", (B, 1), False),
    "span": ("start_logits", (B,), True),
    "tagger": ("logits", (B, S), True),
    "choice": ("logits", (B,), True),
}
# One kind in each test run, and all kinds with --slow.
with_fit_kinds = pytest.mark.parametrize(
    "kind",
    [k if k == "classifier" else pytest.param(k, marks=pytest.mark.slow) for k in FIT],
)


def fit(kind, model, optimizer=None, rows=range(B), epochs=6, **arguments):
    """Fits one batch of rows of the inputs; returns the loss of each epoch."""
    name, shape, has_classes = FIT[kind]
    loss = keras.losses.MeanSquaredError()
    if has_classes:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = optimizer or keras.optimizers.Adam(1e-2)
    model.compile(optimizer, loss={name: loss}, **arguments)
    shape, dtype = (len(rows), *shape[1:]), np.int32 if has_classes else np.float32
    inputs = {n: value.numpy()[list(rows)] for n, value in inputs_for(kind).items()}
    labels = {name: np.ones(shape, dtype)}
    # In another order, the examples have other dropout masks.
    options = {"epochs": epochs, "batch_size": len(rows), "shuffle": False}
    return model.fit(inputs, labels, verbose=0, **options).history["loss"]


@with_fit_kinds
@pytest.mark.parametrize(
    ("policy", "jit_compile"),
    [
        ("float32", False),
        pytest.param("mixed_bfloat16", True, marks=pytest.mark.medium),
    ],
)
def test_keras_fit_reduces_the_loss(kind, policy, jit_compile):
    losses = fit(kind, build(kind, dtype=policy), jit_compile=jit_compile)
    assert losses[-1] < 0.7 * losses[0]


@with_fit_kinds
@pytest.mark.parametrize("frozen", ["encoder", "block"])
def test_fit_does_not_change_frozen_weights(kind, frozen):
    model = build(kind)
    encoder = model if kind == "encoder" else model.bert
    if frozen == "encoder" and kind == "encoder":
        frozen_layers = [encoder.embeddings, *encoder.blocks]
    else:
        frozen_layers = [encoder if frozen == "encoder" else encoder.layer_0]
    for layer in frozen_layers:
        layer.trainable = False
    frozen_paths = {weight.path for layer in frozen_layers for weight in layer.weights}
    before = {weight.path: np.array(weight) for weight in model.weights}
    fit(kind, model)
    changed = {w.path for w in model.weights if np.abs(w - before[w.path]).max() > 0}
    unused = {
        p for p in before if "/pooler/" in p and kind in ("pretrainer", *WITHOUT_POOLER)
    }
    unused |= {p for p in before if "seq_relationship" in p}
    # The gradient of a key bias is 0 up to rounding errors.
    assert (
        changed | unused | {p for p in before if p.endswith("key/bias")}
        >= set(before) - frozen_paths
    )
    assert not changed & frozen_paths


@pytest.mark.medium
@with_fit_kinds
def test_fit_under_a_mirrored_strategy_equals_fit_on_one_device(kind):
    """The program is another process, because it splits the CPU into two devices."""
    program = pathlib.Path(__file__).with_name("mirrored_fit.py")
    done = subprocess.run(
        [sys.executable, program, kind], check=True, text=True, stdout=subprocess.PIPE
    )
    one, two = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(two, one, rtol=1e-4)
    assert one[-1] < one[0]


FLAT = np.random.default_rng(0).normal(size=(10, 16)).astype(np.float32)
HIDDEN = FLAT.reshape(2, 5, 16)
BIAS = np.zeros((2, 1, 1, 5), np.float32)
IDS = np.arange(10).reshape(2, 5)
LAYERS = {
    "Dense": (lambda: modeling.Dense(16, 4, "gelu"), FLAT),
    "LayerNorm": (lambda: modeling.LayerNorm(16), HIDDEN),
    "Dropout": (lambda: modeling.Dropout(0.1), HIDDEN),
    "Embeddings": (lambda: modeling.Embeddings(SMALL), IDS, IDS % 2),
    "SelfAttention": (lambda: modeling.SelfAttention(SMALL), HIDDEN, BIAS),
    "TransformerBlock": (lambda: modeling.TransformerBlock(SMALL), HIDDEN, BIAS),
    "MaskedLMHead": (
        lambda: modeling.MaskedLMHead(SMALL),
        HIDDEN,
        np.ones((40, 16), np.float32),
    ),
    "OutputHead": (lambda: modeling.OutputHead(16, 3), FLAT),
}


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_saves_and_loads(name, tmp_path):
    make, *arguments = LAYERS[name]
    tensors = [keras.Input(batch_shape=a.shape, dtype=str(a.dtype)) for a in arguments]
    model = keras.Model(tensors, make()(*tensors))
    model.save(str(tmp_path / "layer.keras"))
    loaded = keras.saving.load_model(str(tmp_path / "layer.keras"))
    outputs, reloaded = (
        tf.nest.flatten(model(arguments)),
        tf.nest.flatten(loaded(arguments)),
    )
    for one, two in zip(outputs, reloaded, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("size", "encoder", "both_heads"),
    [
        ("base", 109_482_240, 110_106_428),
        ("large", 335_141_888, 336_226_108),
        # In millions: table 1 of Turc et al. 2019 (arXiv 1908.08962).
        ("tiny", None, 4.4),
        ("mini", None, 11.3),
        ("small", None, 29.1),
        ("medium", None, 41.7),
    ],
)
def test_parameter_counts_are_those_of_the_released_models(size, encoder, both_heads):
    config = BertConfig.named(size, 30522)
    one, two = (parameter_counts(config, blocks) for blocks in (1, 2))
    total, of_encoder = one + (config.num_hidden_layers - 1) * (two - one)
    if encoder is None:
        assert round(total / 1e6, 1) == both_heads
    else:
        assert (of_encoder, total) == (encoder, both_heads)


def parameter_counts(config, blocks):
    """Returns the number of parameters of a model, and that of its encoder."""
    # In a graph the variables have shapes, but no memory is allocated for them.
    with tf.Graph().as_default():
        config = dataclasses.replace(config, num_hidden_layers=blocks)
        variables = variables_by_name(modeling.BertPretrainer(config))
        counts = {name: int(np.prod(v.shape)) for name, v in variables.items()}
    encoder = sum(c for name, c in counts.items() if name.startswith("bert/"))
    return np.array([sum(counts.values()), encoder])


def test_attention_maps_are_probabilities_over_unmasked_positions():
    model, outputs = shared("encoder", "two_blocks")
    assert "attention_maps" not in outputs
    inputs = inputs_for("encoder")
    maps = arrays(model(inputs, attention_maps=True))["attention_maps"]
    assert maps.shape == (2, B, 2, S, S)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-5)
    assert not maps[:, -1, :, :, -1].any()
