"""Checkpoints of other libraries give the outputs of the library that wrote them.

`golden/foreign_checkpoints` of the test data contains them, and states how they were
written. `CASES` lists them; `test_model_garden.py` and `test_keras_hub.py` test others.
"""

import dataclasses
import shutil

import h5py
import ml_dtypes
import numpy as np
import pytest
import pytorch_files
from golden_checkpoints import (
    GOLDEN,
    HUGGING_FACE,
    assert_same_arrays,
    datasets,
    inputs_of,
    write_shards,
)
from json_files import read_json, write_json
from pytorch_files import legacy_file, state_of, zip_file
from refusals import refused
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf import modeling
from bert_tf.conversion import assign, hugging_face_weights, read_weights
from bert_tf.conversion.pytorch_file import read_tensors

ENCODER = (
    modeling.BertEncoder,
    {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"},
)
PRETRAINING = (
    modeling.BertPretrainer,
    {
        "masked_lm_logits": "prediction_logits",
        "next_sentence_logits": "seq_relationship_logits",
    },
)
LOGITS = {"logits": "logits"}
# The model and its outputs, with their names in the golden file, by folder.
CASES = {
    "pytorch_model_bin/legacy_pretraining": PRETRAINING,
    "pytorch_model_bin/zip_pretraining": PRETRAINING,
    "pytorch_model_bin/zip_classifier": (modeling.BertClassifier, LOGITS),
    "pytorch_model_bin/zip_encoder_half": ENCODER,
    "flax_safetensors/FlaxBertModel": ENCODER,
    "tf_model_h5/TFBertForNextSentencePrediction": (
        modeling.BertPretrainer,
        {"next_sentence_logits": "logits"},
    ),
    "tf_safetensors/TFBertForQuestionAnswering": (
        modeling.BertSpanPredictor,
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    **{
        f"{folder}/TFBert{name}": case
        for folder in ("tf_model_h5", "tf_safetensors")
        for name, case in {
            "Model": ENCODER,
            "ForPreTraining": PRETRAINING,
            "ForMaskedLM": (
                modeling.BertPretrainer,
                {"masked_lm_logits": "logits"},
            ),
            "ForSequenceClassification": (modeling.BertClassifier, LOGITS),
            "ForTokenClassification": (modeling.BertTagger, LOGITS),
            "ForMultipleChoice": (modeling.BertMultipleChoice, LOGITS),
        }.items()
    },
}


def largest_differences(folder, case):
    """Returns the largest difference of each output, and the report of the weights."""
    model_class, of_head = case
    names = {"hidden_states": "hidden_states", **of_head}
    expected = np.load(folder / "expected.npz")
    contents = read_weights(str(folder))
    sizes = {}
    if model_class in (modeling.BertClassifier, modeling.BertTagger):
        sizes = {"num_labels": len(contents.facts["labels"])}
    model = model_class(contents.config, **sizes)
    report = assign(model, contents)

    inputs = inputs_of(expected)
    flat = {
        name: np.reshape(array, (-1, array.shape[-1])) for name, array in inputs.items()
    }
    encoded = getattr(model, "bert", model)(flat)
    states = [encoded["embedding_output"], *encoded["encoder_outputs"]]
    outputs = {**encoded, **model(inputs), "hidden_states": np.stack(states)}
    differences = {
        name: float(np.abs(outputs[name] - expected[other]).max())
        for name, other in names.items()
    }
    return differences, report


@pytest.mark.parametrize("path", CASES)
def test_outputs_equal_those_of_the_original_library(foreign, path):
    differences, report = largest_differences(foreign / path, CASES[path])
    print(path, differences)  # for docs/results.md: pytest -rP
    assert max(differences.values()) < 5e-6
    assert (report.unused, report.unknown) == ((), ())
    # Classes without these parts do not store them.
    optional = ("bert/pooler/", "cls/predictions/", "cls/seq_relationship/")
    assert all(name.startswith(optional) for name in report.missing)
    assert bool(report.missing) == (
        "MaskedLM" in path or "NextSentence" in path or "Answering" in path
        or "Token" in path
    )  # fmt: skip


# The weights of `tensors`, as they are read from the file of transformers.
PRETRAINED = read_weights(str(HUGGING_FACE / "pretraining")).arrays
ONES = np.ones(2, np.float32)


@pytest.fixture
def tensors():
    return load_file(HUGGING_FACE / "pretraining/model.safetensors")


def copy_without_weights(source, target):
    """Copies the small files of a checkpoint."""
    target.mkdir(exist_ok=True)
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        if (source / name).exists():
            shutil.copy(source / name, target)
    return target


@pytest.fixture
def folder(tmp_path):
    """A folder with the config of `tensors`."""
    return copy_without_weights(HUGGING_FACE / "pretraining", tmp_path / "model")


@pytest.mark.parametrize("write", [zip_file, legacy_file])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, "bfloat16"])
def test_tensors_of_each_dtype_and_form_are_equal_to_the_bit(
    folder, tensors, write, dtype
):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    stored = {name: array.astype(kind) for name, array in tensors.items()}
    stored["bert.embeddings.position_ids"] = np.arange(40)[None]
    (folder / "pytorch_model.bin").write_bytes(write(*state_of(stored)))
    for name, array in read_tensors(str(folder / "pytorch_model.bin")).items():
        is_float = "position_ids" not in name
        assert array.dtype == (np.float32 if is_float else np.int64)
        np.testing.assert_array_equal(array, stored[name].astype(array.dtype))
    contents = read_weights(str(folder))
    assert (contents.unknown, contents.arrays.keys()) == ((), PRETRAINED.keys())


def test_strides_ties_and_nesting(folder, tensors):
    """A transposed kernel, a tied weight, and parts of a storage."""
    kernel = "bert.pooler.dense.weight"
    words = "bert.embeddings.word_embeddings.weight"
    state, storages = state_of(tensors)
    place = list(tensors).index(kernel)
    storages[str(place)] = np.ascontiguousarray(tensors[kernel].T)
    size = len(tensors[kernel])
    stored = pytorch_files.storage(str(place), tensors[kernel])
    state[kernel] = pytorch_files.tensor(stored, (size, size), (1, size))
    state["cls.predictions.decoder.weight"] = state[words]
    state["bert.pooler.part"] = pytorch_files.tensor(stored, (3, 2), (2 * size, 2), 5)
    nested = {
        "state_dict": state,
        "loss": state[kernel],
        "done": [True, ()],
        "model": {},
    }
    (folder / "best.pt").write_bytes(zip_file(nested, storages))

    read = read_tensors(str(folder / "best.pt"))
    np.testing.assert_array_equal(read[kernel], tensors[kernel])
    np.testing.assert_array_equal(
        read["bert.pooler.part"], tensors[kernel].T.reshape(-1)[5:].reshape(-1)[
            np.arange(3)[:, None] * 2 * size + np.arange(2) * 2
        ],
    )  # fmt: skip
    assert read["cls.predictions.decoder.weight"] is read[words]

    assert_same_arrays(read_weights(str(folder / "best.pt")).arrays, PRETRAINED)


@pytest.mark.parametrize(
    "prefix",
    ["module.", "_orig_mod.", "model.", "base_model.model.", "module._orig_mod.model."],
)
def test_names_with_the_prefixes_of_wrappers(folder, tensors, prefix):
    wrapped = {f"{prefix}{name}": array for name, array in tensors.items()}
    writers = {"tf_model.h5": write_h5, "model.bin": write_bin}
    for name, write in writers.items():
        write(folder / name, wrapped)
        assert_same_arrays(read_weights(str(folder / name)).arrays, PRETRAINED)
    save_file(wrapped, folder / "model.safetensors")
    assert_same_arrays(read_weights(str(folder)).arrays, PRETRAINED)

    write_bin(folder / "model.bin", {**tensors, **wrapped, f"{prefix}cls.x": ONES})
    assert read_weights(str(folder / "model.bin")).unknown == ("cls.x",)
    key = "bert.pooler.dense.bias"
    write_bin(folder / "model.bin", {**wrapped, key: tensors[key] + 1})
    with refused(f"two weights for {key}"):
        read_weights(str(folder / "model.bin"))


@pytest.mark.parametrize("part", ["query.base_layer.weight", "query.lora_A.weight"])
def test_adapters_that_are_not_merged_are_refused(folder, tensors, part):
    name = f"base_model.model.bert.encoder.layer.0.attention.self.{part}"
    save_file({**tensors, name: ONES}, folder / "model.safetensors")
    with refused("has an adapter of peft, .* merge_and_unload"):
        read_weights(str(folder))


def test_an_adapter_next_to_weights_is_refused(folder, tensors):
    save_file(tensors, folder / "model.safetensors")
    (folder / "adapter_config.json").write_text("{}")
    with refused("has an adapter of peft, .* merge_and_unload"):
        read_weights(str(folder))


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_the_content_of_a_ckpt_file_decides(folder, tensors, key):
    state, storages = state_of(tensors)
    path = folder / "last.ckpt"
    path.write_bytes(zip_file({"epoch": 3, key: state}, storages))
    assert_same_arrays(read_weights(str(path)).arrays, PRETRAINED)
    two = {"state_dict": state, "model_state_dict": state}
    path.write_bytes(legacy_file(two, storages))
    with refused("it has dicts of tensors at state_dict and model_state_dict"):
        read_weights(str(path))
    path.write_bytes(b"model_checkpoint_path")
    with refused(r"last\.ckpt is not the file of a checkpoint"):
        read_weights(str(path))


def test_names_of_2019_beside_bert_config_alone(folder, tensors, tmp_path):
    """The gelu of such a file is the erf form."""
    ends = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = {}
    for name, array in tensors.items():
        for new, former in ends.items():
            name = name.replace(new, former)
        old[name] = array
    (folder / "pytorch_model.bin").write_bytes(legacy_file(*state_of(old)))
    config = read_json(folder / "config.json")
    (folder / "config.json").unlink()
    names = [each.name for each in dataclasses.fields(bert_tf.BertConfig)]
    config = {name: config[name] for name in names if name in config}
    write_json(folder / "bert_config.json", {**config, "hidden_act": "gelu"})
    contents = read_weights(str(folder))
    assert contents.config.hidden_act == "gelu_exact"
    assert_same_arrays(contents.arrays, PRETRAINED)

    # A checkpoint of google-research/bert in the same folder is read instead.
    google = GOLDEN / "google_pretraining/init"
    shutil.copytree(google, folder, dirs_exist_ok=True)
    assert read_weights(str(folder)).dialect == "google"


def write_bin(path, tensors):
    path.write_bytes(zip_file(*state_of(tensors)))


def write_h5(path, tensors):
    with h5py.File(path, "w") as file:
        for name, array in tensors.items():
            file[name] = array


def test_shards_of_bin_files(folder, tensors):
    names = write_shards(folder, tensors, "pytorch_model.bin", write_bin)
    for path in (folder, folder / names[0]):
        assert_same_arrays(read_weights(str(path)).arrays, PRETRAINED)
    (folder / names[1]).unlink()
    with refused(rf"index.json names a file that does not exist: .*/{names[1]}"):
        read_weights(str(folder))


def test_shards_of_h5_files(foreign, tmp_path):
    golden = foreign / "tf_model_h5/TFBertForPreTraining"
    folder = copy_without_weights(golden, tmp_path / "model")
    # Shards have no names of layers.
    found = {
        name.partition("/")[2]: array
        for name, array in datasets(golden / "tf_model.h5").items()
    }
    names = write_shards(folder, found, "tf_model.h5", write_h5)
    expected = read_weights(str(golden)).arrays
    assert_same_arrays(read_weights(str(folder)).arrays, expected)
    (folder / names[0]).unlink()
    with refused("names a file that does not exist: .*/tf_model-00001-of-00002.h5"):
        read_weights(str(folder))


def test_a_folder_prefers_safetensors_then_bin_then_h5(foreign, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(foreign / "tf_model_h5/TFBertForPreTraining", folder)
    assert hugging_face_weights.find_weights(str(folder)) == f"{folder}/tf_model.h5"
    other = foreign / "pytorch_model_bin/zip_pretraining"
    shutil.copy(other / "pytorch_model.bin", folder)
    bin_arrays = read_weights(str(other)).arrays
    assert_same_arrays(read_weights(str(folder)).arrays, bin_arrays)

    # In archives too; a given file is read itself.
    shutil.make_archive(str(tmp_path / "zipped"), "zip", folder)
    assert_same_arrays(read_weights(f"{tmp_path}/zipped.zip").arrays, bin_arrays)
    loaded = bert_tf.load(folder / "tf_model.h5")
    of_h5 = read_weights(str(foreign / "tf_model_h5/TFBertForPreTraining")).arrays
    assert_same_arrays(dict(loaded.weights), of_h5)

    third = foreign / "tf_safetensors/TFBertForPreTraining"
    shutil.copy(third / "model.safetensors", folder)
    safe = read_weights(str(third)).arrays
    assert_same_arrays(read_weights(str(folder)).arrays, safe)
    word = "bert/embeddings/word_embeddings"
    assert not np.array_equal(bin_arrays[word], of_h5[word])


def test_tied_embeddings_of_an_h5_file_are_read_once(foreign):
    contents = read_weights(str(foreign / "tf_model_h5/TFBertForMaskedLM"))
    assert contents.tied_masked_lm and contents.unknown == ()
