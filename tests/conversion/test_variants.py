"""Variants of public checkpoints: each is read correctly or refused with a reason.

`reference/hugging_face_variants.npz` contains the tensors of a small
`BertForPreTraining` and the outputs that transformers 5.23 computes from these tensors
with each of several configs.
"""

import dataclasses
import pathlib
import re
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from golden_checkpoints import inputs_of, write_zip
from json_files import read_json, write_json
from refusals import refused

from bert_tf.config import BertConfig
from bert_tf.conversion import assign, convert, read_config, read_weights, write_weights
from bert_tf.modeling import BertClassifier, BertPretrainer

STORED = np.load(
    pathlib.Path(__file__).parents[1] / "reference/hugging_face_variants.npz"
)
TENSORS = {
    n.removeprefix("tensor:"): STORED[n]
    for n in STORED.files
    if n.startswith("tensor:")
}
CONFIG = {
    "architectures": ["BertForPreTraining"], "model_type": "bert", "vocab_size": 24,
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 10, "hidden_act": "gelu", "type_vocab_size": 2,
}  # fmt: skip
ACTIVATIONS = sorted(
    {name.split(":")[1] for name in STORED.files if name.startswith("expected:")}
    - {"eps", "causal"}
)
CHANGES = {
    **{name: {"hidden_act": name} for name in ACTIVATIONS},
    "eps": {"layer_norm_eps": 1e-2},
    "causal": {"is_decoder": True},
}
WORDS, DECODER = (
    "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.weight",
)


def folder(path, tensors=TENSORS, **changes) -> str:
    path.mkdir(exist_ok=True)
    write_json(path / "config.json", {**CONFIG, **changes})
    safetensors.numpy.save_file(dict(tensors), path / "model.safetensors")
    return str(path)


def rewritten(path, tensors=TENSORS, **changes):
    """Returns the contents of a folder, and `config.json` after it is written again."""
    contents = read_weights(folder(path / "source", tensors, **changes))
    write_weights(contents, str(path / "written"), "hugging_face")
    return contents, read_json(path / "written/config.json")


def assert_expected(source, name="gelu", atol=1e-5) -> None:
    weights = read_weights(source)
    assert not weights.unknown
    model = BertPretrainer(weights.config)
    assert not assign(model, weights).missing
    outputs = model(inputs_of(STORED))
    for key, value in outputs.items():
        np.testing.assert_allclose(
            value, STORED[f"expected:{name}:{key}"], atol=atol, err_msg=key
        )


@pytest.mark.parametrize("name", CHANGES)
def test_outputs_of_each_config_equal_those_of_transformers(tmp_path, name):
    _, config = rewritten(tmp_path, **CHANGES[name])
    for each in ("source", "written"):
        assert_expected(str(tmp_path / each), name)
    # transformers must accept the name of the activation.
    assert config["hidden_act"] in ACTIVATIONS


def test_bfloat16_is_read_as_float32(tmp_path):
    # NumPy has no bfloat16; the upper 16 bits of a float32 value are a bfloat16 value.
    halves = {
        n: (a.view(np.uint32) >> 16).astype(np.uint16) for n, a in TENSORS.items()
    }
    folder(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(saved_as("BF16", halves))
    arrays = read_weights(str(tmp_path)).arrays
    assert {a.dtype for a in arrays.values()} == {np.dtype(np.float32)}
    expected = tf.bitcast(halves[WORDS], tf.bfloat16)
    np.testing.assert_array_equal(
        arrays["bert/embeddings/word_embeddings"], tf.cast(expected, tf.float32)
    )


def saved_as(dtype, arrays) -> bytes:
    """Returns a safetensors file whose header states a dtype that NumPy lacks."""
    content = safetensors.numpy.save(arrays)
    end = 8 + int.from_bytes(content[:8], "little")
    header = re.sub(rb'"U\d+"', f'"{dtype}"'.encode(), content[8:end])
    return len(header).to_bytes(8, "little") + header + content[end:]


def test_a_dtype_that_numpy_lacks_is_refused(tmp_path):
    folder(tmp_path)
    content = saved_as("F8_E4M3", {WORDS: np.zeros([24, 12], np.uint8)})
    (tmp_path / "model.safetensors").write_bytes(content)
    with refused(r"word_embeddings.weight has the dtype F8_E4M3"):
        read_weights(str(tmp_path))


def test_a_tied_weight_may_be_stored_only_under_the_decoder(tmp_path):
    tensors = {DECODER if n == WORDS else n: a for n, a in TENSORS.items()}
    tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
    assert_expected(folder(tmp_path, tensors))


def encoder_and(*prefixes) -> dict[str, np.ndarray]:
    """Returns the tensors of the encoder, and those with one of `prefixes`."""
    return {n: a for n, a in TENSORS.items() if n.startswith(("bert.", *prefixes))}


def test_a_next_sentence_head_without_masked_lm_is_read_and_written(tmp_path):
    tensors = encoder_and("cls.seq_relationship.")
    changes = {"architectures": ["BertForNextSentencePrediction"]}
    weights, config = rewritten(tmp_path, tensors, **changes)
    report = assign(BertPretrainer(weights.config), weights)
    assert "cls/predictions/output_bias" in report.missing
    assert config["architectures"] == changes["architectures"]
    written = safetensors.numpy.load_file(tmp_path / "written/model.safetensors")
    assert written.keys() == tensors.keys()


def test_a_causal_masked_lm_is_written_as_a_decoder(tmp_path):
    tensors = {
        n: a for n, a in encoder_and("cls.predictions.").items() if "pooler" not in n
    }
    changes = {"architectures": ["BertLMHeadModel"], "is_decoder": True}
    weights, config = rewritten(tmp_path, tensors, **changes)
    assert weights.config.attention == "causal"
    assert {name: config[name] for name in changes} == changes


@pytest.mark.parametrize(
    ("labels", "problem_type", "expected"),
    [
        (2, None, {"labels": ["LABEL_0", "LABEL_1"]}),
        (2, "single_label_classification", {"labels": ["LABEL_0", "LABEL_1"]}),
        (1, None, {"labels": [], "task_type": "regression"}),
        (
            1,
            "multi_label_classification",
            {"labels": ["LABEL_0"], "task_type": "multi_label"},
        ),
    ],
)
def test_a_classifier_states_its_task_type_and_default_labels(
    tmp_path, labels, problem_type, expected
):
    head = {"classifier.weight": np.ones((labels, 12), np.float32)}
    tensors = {**encoder_and(), **head, "classifier.bias": np.zeros(labels, np.float32)}
    changes = {
        "architectures": ["BertForSequenceClassification"],
        "problem_type": problem_type,
    }
    weights, _ = rewritten(tmp_path, tensors, **changes)
    assert weights.facts == expected
    model = BertClassifier(weights.config, num_labels=labels)
    assert not assign(model, weights).missing
    assert read_weights(str(tmp_path / "written")).facts == expected


def test_labels_of_models_without_a_classifier_are_ignored(tmp_path):
    assert read_weights(folder(tmp_path, id2label={"0": "a", "1": "b"})).facts == {}


def test_a_quantization_of_float_weights_is_reported(tmp_path):
    source = folder(tmp_path / "source", quantization_config={"load_in_8bit": True})
    report = convert(source, str(tmp_path / "written"), "bert-tf")
    assert "config.json has a quantization_config, which bert-tf ignores" in report


def test_other_tensors_with_a_bert_config_are_refused(tmp_path):
    tensors = {"roberta.embeddings.x": np.zeros(3, np.float32)}
    with refused(r"not a BERT. It holds .* roberta.embeddings.x"):
        read_weights(folder(tmp_path, tensors))


def test_an_activation_that_transformers_lacks_is_not_written(tmp_path):
    weights = read_weights(folder(tmp_path / "source"))
    config = BertConfig.from_dict({**weights.config.to_dict(), "hidden_act": "elu"})
    other = dataclasses.replace(weights, config=config)
    with refused(r"hidden_act 'elu' has no equivalent in transformers"):
        write_weights(other, str(tmp_path / "written"), "hugging_face")
    assert not (tmp_path / "written").exists()


def test_labels_that_config_json_lacks_get_default_names(tmp_path):
    """The labels of `id2label` keep their numbers if there are gaps."""
    head = {"classifier.weight": np.ones((4, 12), np.float32)}
    tensors = {**encoder_and(), **head, "classifier.bias": np.zeros(4, np.float32)}
    changes = {
        "architectures": ["BertForTokenClassification"],
        "id2label": {"2": "PER", "0": "O"},
    }
    weights = read_weights(folder(tmp_path, tensors, **changes))
    assert weights.facts == {"labels": ["O", "LABEL_1", "PER", "LABEL_3"]}


def test_read_config_reads_released_and_hugging_face_files(tmp_path):
    folder(tmp_path)
    assert read_config(str(tmp_path / "config.json")).hidden_act == "gelu_exact"
    released = {
        n: v for n, v in CONFIG.items() if n not in ("architectures", "model_type")
    }
    write_json(tmp_path / "bert_config.json", released)
    assert read_config(str(tmp_path / "bert_config.json")).hidden_act == "gelu"


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    return read_weights(folder(tmp_path_factory.mktemp("hf"))).arrays


def graph_checkpoint(path, variables) -> str:
    """Writes a checkpoint with TensorFlow 1's saver and returns its prefix."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        created = [create() for create in variables]
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver(created).save(session, str(path / "model.ckpt"))


def variable(name, value, **arguments):
    return lambda: tf.compat.v1.get_variable(
        name, initializer=tf.constant(value), **arguments
    )


def test_other_variables_in_a_checkpoint_are_reported_as_unknown(tmp_path, arrays):
    """Other programs store moments, counters, moving averages or custom heads."""
    words = "bert/embeddings/word_embeddings"
    others = (
        f"{words}/Adam", f"{words}/lamb_m", f"{words}/ExponentialMovingAverage",
        "beta1_power",
        "loss_scale", "cls/mine/kernel", "discriminator/dense/bias",
    )  # fmt: skip
    makers = [variable(name, array) for name, array in arrays.items()]
    makers += [variable(f"{name}/adam_m", array) for name, array in arrays.items()]
    makers += [variable(name, np.float32(1)) for name in others]
    prefix = graph_checkpoint(tmp_path, [*makers, variable("global_step", np.int32(7))])
    weights = read_weights(prefix, slots=True)
    assert weights.global_step == 7
    assert weights.unknown == tuple(sorted(others))
    assert weights.slots.keys() == {f"{name}/adam_m" for name in arrays}
    assert weights.arrays.keys() == arrays.keys()


def test_partitioned_and_half_precision_variables_are_read(tmp_path, arrays):
    words = "bert/embeddings/word_embeddings"

    def partitioned():
        with tf.compat.v1.variable_scope(
            "", partitioner=tf.compat.v1.fixed_size_partitioner(3), use_resource=False
        ):
            initializer = _ArrayInitializer(arrays[words])
            return tf.compat.v1.get_variable(
                words, arrays[words].shape, initializer=initializer
            )

    rest = [variable(n, a.astype(np.float16)) for n, a in arrays.items() if n != words]
    weights = read_weights(graph_checkpoint(tmp_path, [partitioned, *rest]))
    np.testing.assert_array_equal(weights.arrays[words], arrays[words])
    for name, array in weights.arrays.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, arrays[name], rtol=1e-3, atol=1e-6)


class _ArrayInitializer:
    def __init__(self, value):
        self._value = value

    def __call__(self, shape, dtype=None, partition_info=None):
        offset = partition_info.var_offset[0]
        return tf.constant(self._value[offset : offset + shape[0]])


def test_missing_heads_and_pooler_are_reported(tmp_path, arrays):
    encoder = {
        n: a for n, a in arrays.items() if n.startswith("bert/") and "pooler" not in n
    }
    prefix = graph_checkpoint(
        tmp_path, [variable(name, array) for name, array in encoder.items()]
    )
    write_json(tmp_path / "config.json", CONFIG)
    model = BertClassifier(read_config(str(tmp_path / "config.json")), num_labels=2)
    report = assign(model, read_weights(prefix))
    pooler = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
    assert report.missing == (*pooler, "output_weights", "output_bias")


@pytest.mark.parametrize(
    ("name", "inner", "casing"),
    [
        ("x.zip", "cased_L-2_H-12_A-3/", False),
        ("multi_cased_L-2_H-12_A-3.zip", "", False),
        ("x.zip", "model/", None),
    ],
)
def test_casing_follows_the_released_name_of_a_zip_or_its_folder(
    tmp_path, arrays, name, inner, casing
):
    """The folder __MACOSX, which macOS adds to .zip files, is ignored."""
    makers = [variable(n, array) for n, array in arrays.items()]
    graph_checkpoint(tmp_path, makers)
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        for file in tmp_path.glob("model.ckpt.*"):
            archive.write(file, f"{inner}bert_model.ckpt{file.suffix}")
        archive.writestr(f"{inner}vocab.txt", "[PAD]\n")
        archive.writestr(f"__MACOSX/{inner}._bert_model.ckpt.index", "x")
    weights = read_weights(str(tmp_path / name))
    assert weights.do_lower_case is casing
    assert weights.vocabulary == ["[PAD]"]
    assert weights.arrays.keys() == arrays.keys()


def test_errors_in_a_zip_name_the_zip(tmp_path):
    members = {"model/config.json": "{", "model/model.safetensors": ""}
    write_zip(tmp_path / "x.zip", members)
    with refused(r"/x.zip/model/config.json is not JSON"):
        read_weights(str(tmp_path / "x.zip"))
    (tmp_path / "cut.zip").write_bytes(b"PK")
    with refused(r"cut.zip cannot be read as a zip file"):
        read_weights(str(tmp_path / "cut.zip"))


def test_settings_that_google_research_bert_does_not_support_are_reported(tmp_path):
    source = folder(tmp_path / "source", is_decoder=True, layer_norm_eps=1e-5)
    report = convert(source, str(tmp_path / "google"), "google")
    settings = "hidden_act gelu_exact, attention causal, layer_norm_eps 1e-05"
    assert (
        f"does not support these settings and computes another model: {settings}."
        in report
    )
    source = folder(tmp_path / "source", hidden_act="gelu_new")
    assert "another model" not in convert(source, str(tmp_path / "google"), "google")


def test_an_exported_model_is_refused(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with refused("is an exported SavedModel"):
        read_weights(str(tmp_path))
