"""Checkpoints and SavedModels of the Model Garden: equal to its outputs.

`golden/foreign_checkpoints` of the test data contains them, and states how they were
made.
"""

import io
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from golden_checkpoints import (
    GOOGLE,
    assert_same_arrays,
    google_config,
    inputs_of,
    write_zip,
)
from refusals import refused
from tensorflow.core.protobuf import saved_model_pb2, trackable_object_graph_pb2
from tiny_bert import SPECIAL

from bert_tf import load, modeling, save_checkpoint
from bert_tf.conversion import assign, convert, read_weights

# The folder, the model, the name of each output in `expected.npz`.
CASES = {
    "model_garden_heads/classifier/ckpt-1": (
        modeling.BertClassifier,
        {"pooled_output": "pooled_output_of_encoder", "logits": "logits"},
    ),
    "model_garden_heads/classifier_own_pooler/ckpt-1": (
        modeling.BertClassifier,
        {"logits": "logits"},
    ),
    "model_garden_heads/token_classifier/ckpt-1": (
        modeling.BertTagger,
        {"pooled_output": "pooled_output_of_encoder", "logits": "logits"},
    ),
    "model_garden_heads/pretrainer_training/ckpt-1": (
        modeling.BertPretrainer,
        {
            "masked_lm_logits": "mlm_logits",
            "next_sentence_logits": "next_sentence",
            "pooled_output": "trained_pooled_output",
        },
    ),
    "model_garden_pretrainer_v2/ckpt-1": (
        modeling.BertPretrainer,
        {
            "masked_lm_logits": "mlm_logits",
            "pooled_output": "pooled_output_of_next_sentence",
        },
    ),
    "tfhub/encoder": (modeling.BertEncoder, {"pooled_output": "pooled_output"}),
    "tfhub/encoder_with_mlm": (
        modeling.BertPretrainer,
        {"pooled_output": "pooled_output", "masked_lm_logits": "mlm_logits"},
    ),
}


def golden_of(path):
    """Returns the expected outputs, next to a checkpoint or in its folder."""
    folder = path if path.is_dir() else path.parent
    return np.load(folder / "expected.npz")


def outputs_of(contents, model_class, expected):
    """Returns the outputs of encoder and head, and the report of the weights."""
    labels = {}
    if model_class in (modeling.BertClassifier, modeling.BertTagger):
        labels = {"num_labels": expected["logits"].shape[-1]}
    model = model_class(contents.config, **labels)
    report = assign(model, contents)

    inputs = inputs_of(expected)
    encoded = getattr(model, "bert", model)(inputs)
    if model_class is modeling.BertPretrainer:
        inputs["masked_lm_positions"] = expected["masked_lm_positions"]
    return {**encoded, **model(inputs)}, report


@pytest.mark.parametrize("path", CASES)
def test_outputs_equal_those_of_the_model_garden(foreign, path):
    model_class, names = CASES[path]
    expected = golden_of(foreign / path)
    contents = read_weights(str(foreign / path))
    outputs, report = outputs_of(contents, model_class, expected)

    for name, garden in {"sequence_output": "sequence_output", **names}.items():
        np.testing.assert_allclose(
            outputs[name], expected[garden], atol=5e-6, err_msg=name
        )
    assert (report.unused, report.unknown) == ((), ())
    output_layer = [n for n in report.missing if n.startswith("cls/seq_relationship/")]
    assert list(report.missing) == output_layer
    assert len(output_layer) == 2 * ("next_sentence_logits" not in names) * (
        model_class is modeling.BertPretrainer
    )


def write_garden_checkpoint(folder, arrays):
    """Writes an object-based checkpoint whose variables have the given full names."""
    variables = {
        f"v{i}": tf.Variable(array, name=name)
        for i, (name, array) in enumerate(arrays.items())
    }
    return tf.train.Checkpoint(**variables).write(str(folder / "two"))


def test_a_head_of_two_outputs_is_what_the_model_needs(foreign, tmp_path):
    """A tagger and a span labeler have the same names, and two outputs each."""
    source = foreign / "model_garden_heads/token_classifier"
    shutil.copy(source / "bert_config.json", tmp_path)
    reader = tf.train.load_checkpoint(str(source / "ckpt-1"))
    kernel = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32)
    bias = np.float32([0.5, -1])

    # The same encoder with another head.
    arrays = {
        name: reader.get_tensor(key)
        for name, key in full_names(source / "ckpt-1").items()
    }
    name = "predictions/transform/logits"
    arrays |= {f"{name}/kernel": kernel, f"{name}/bias": bias}
    path = write_garden_checkpoint(tmp_path, arrays)

    contents = read_weights(path)
    expected = golden_of(source)
    logits = expected["sequence_output"] @ kernel + bias
    span, report = outputs_of(contents, modeling.BertSpanPredictor, expected)
    assert (report.missing, report.unused) == ((), ())
    # Places of padding have no start or end.
    real = expected["input_mask"] == 1
    for number, name in enumerate(("start_logits", "end_logits")):
        np.testing.assert_allclose(
            span[name].numpy()[real], logits[..., number][real], atol=5e-6
        )

    tagger = load(path).model(modeling.BertTagger)
    outputs = tagger(inputs_of(expected))["logits"]
    np.testing.assert_allclose(outputs, logits, atol=5e-6)
    with refused("classifies tokens or texts, or predicts"):
        convert(path, str(tmp_path / "converted"), "hugging_face")
    save_checkpoint(tagger, None, tmp_path / "tagger", dialect="hugging_face")
    assert "cls/tagger/output_weights" in read_weights(f"{tmp_path}/tagger").arrays


def full_names(prefix):
    """Returns the key of each variable by full name."""
    reader = tf.train.load_checkpoint(str(prefix))
    serialized = reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(serialized)
    attributes = [each for node in graph.nodes for each in node.attributes]
    return {each.full_name: each.checkpoint_key for each in attributes}


def test_facts_of_a_saved_model(foreign):
    contents = read_weights(str(foreign / "tfhub/encoder"))
    vocabulary = (foreign / "tfhub/encoder/assets/vocab.txt").read_text().split()
    assert contents.vocabulary == vocabulary
    assert contents.config.hidden_act == "gelu"
    assert contents.do_lower_case is True
    cased = read_weights(str(foreign / "tfhub/encoder_with_mlm"))
    assert cased.do_lower_case is False


def test_the_erf_form_of_gelu_is_recognized(foreign, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(foreign / "tfhub/encoder", folder)
    model = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    library = model.meta_graphs[0].graph_def.library
    library.function[0].node_def.add(name="gelu", op="Erf")
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    assert read_weights(str(folder)).config.hidden_act == "gelu_exact"


@pytest.mark.parametrize("name", ["encoder.tar.gz", "encoder.zip"])
@pytest.mark.parametrize("inner", ["", "bert_en_uncased/"])
def test_archives_of_saved_models(foreign, tmp_path, name, inner):
    """TensorFlow Hub packs the files without a folder, Kaggle with one or without."""
    source = foreign / "tfhub/encoder"
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for file in source.rglob("*"):
                archive.write(file, f"{inner}{file.relative_to(source)}")
    else:
        with tarfile.open(path, "w:gz") as tar:
            tar.add(source, inner or ".")
    assert_same_arrays(read_weights(str(path)).arrays, read_weights(str(source)).arrays)


MEMBERS = {
    "parent": lambda: tarfile.TarInfo("model/../../escaped"),
    "root": lambda: tarfile.TarInfo("/tmp/escaped"),
    "symbolic_link": lambda: link(tarfile.SYMTYPE),
    "hard_link": lambda: link(tarfile.LNKTYPE),
}


def link(kind):
    member = tarfile.TarInfo("model/vocab.txt")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize("kind", MEMBERS)
def test_archives_with_names_outside_are_refused(foreign, tmp_path, kind):
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(foreign / "tfhub/encoder", "model")
        tar.addfile(MEMBERS[kind](), io.BytesIO())
    with refused("leads outside of the archive"):
        read_weights(str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["model.tar.gz"]


def test_zip_files_with_names_outside_are_refused(tmp_path):
    write_zip(tmp_path / "model.zip", {"model/../../saved_model.pb": b""})
    with refused(r"saved_model.pb, which leads outside"):
        read_weights(f"{tmp_path}/model.zip")


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.index", ""])
def test_damaged_saved_models_are_refused_in_one_line(foreign, tmp_path, file):
    source = foreign / "tfhub/encoder"
    folder = tmp_path / "encoder"
    shutil.copytree(source, folder)
    path = folder / (file or "variables/variables.data-00000-of-00001")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with refused("."):
        load(folder).tokenizer  # noqa: B018


def test_a_preprocessing_model_is_named_as_such(foreign, tmp_path):
    archive = foreign / "tfhub/preprocess.zip"
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path / "preprocess")
    for path in (archive, tmp_path / "preprocess"):
        with refused("Give the SavedModel of the encoder"):
            read_weights(str(path))


COUNT = google_config().vocab_size - len(SPECIAL)
VOCABULARY = [*SPECIAL, *(f"word{i}" for i in range(COUNT))]


def write_tf1_module(folder):
    """Writes a SavedModel of TensorFlow 1 with the variables of a checkpoint."""
    reader = tf.train.load_checkpoint(str(GOOGLE / "init/bert_model.ckpt"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name in reader.get_variable_to_shape_map():
            if not name.endswith(("adam_m", "adam_v")):
                tf.compat.v1.get_variable(name, initializer=reader.get_tensor(name))
        session.run(tf.compat.v1.global_variables_initializer())
        builder = tf.compat.v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, [])
        builder.save()
    (folder / "assets").mkdir()
    (folder / "assets/vocab.txt").write_text("\n".join(VOCABULARY))


def test_modules_of_tensorflow_1_need_the_config(tmp_path):
    folder = tmp_path / "module"
    write_tf1_module(folder)
    with refused("Give bert_config_file"):
        load(folder)
    checkpoint = load(folder, bert_config_file=GOOGLE / "bert_config.json")
    original = read_weights(str(GOOGLE / "init"))
    assert_same_arrays(checkpoint.weights, original.arrays)
    assert checkpoint.tokenizer.vocabulary == VOCABULARY
