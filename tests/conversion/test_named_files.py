"""The file that the user names is read, or refused; no other one is read instead."""

import shutil
import stat
import zipfile

import h5py
import pytest
from golden_checkpoints import HUGGING_FACE, datasets, write_zip
from json_files import read_json
from refusals import refused
from tiny_bert import SPECIAL, small_config

import bert_tf
from bert_tf.conversion import convert, read_weights


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("epoch3.weights.h5", "weights of Keras, but not the architecture"),
        ("ema.safetensors", "put the file into a folder of its own"),
    ],
)
def test_another_file_with_weights_is_not_replaced_by_that_of_the_folder(
    tmp_path, name, message
):
    folder = tmp_path / "model"
    shutil.copytree(HUGGING_FACE / "encoder", folder)
    (folder / name).write_bytes((folder / "model.safetensors").read_bytes())
    with refused(message):
        read_weights(str(folder / name))
    assert read_weights(str(folder / "model.safetensors")).source == str(folder)


def test_weights_in_a_folder_of_a_zip_file_do_not_count(tmp_path):
    """sentence-transformers writes further layers to folders, such as 2_Dense."""
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for file in (HUGGING_FACE / "encoder").iterdir():
            archive.write(file, file.name)
        archive.writestr("2_Dense/pytorch_model.bin", b"")
    assert read_weights(f"{tmp_path}/model.zip").arrays


def test_links_in_a_zip_file_are_refused(tmp_path):
    link = zipfile.ZipInfo("vocab.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    write_zip(tmp_path / "model.zip", {link: "/etc/passwd"})
    with refused(r"vocab.txt, which leads outside"):
        read_weights(f"{tmp_path}/model.zip")


def test_two_encoders_in_one_h5_file_are_refused(test_data, tmp_path):
    source = test_data / "golden/foreign_checkpoints/tf_model_h5/TFBertModel"
    folder = tmp_path / "two"
    shutil.copytree(source, folder)
    gamma = next(n for n in datasets(folder / "tf_model.h5") if "LayerNorm/gamma" in n)
    with h5py.File(folder / "tf_model.h5", "a") as file:
        file.copy(file["bert"], "second")
        file[f"second/{gamma.removeprefix('bert/')}"][...] += 1
    with refused("has two weights for"):
        read_weights(str(folder))


def test_a_lower_case_model_of_unknown_casing_becomes_a_lower_case_preset(tmp_path):
    vocabulary = [*SPECIAL, "good", "film"]
    config = small_config(vocab_size=len(vocabulary))
    tokenizer = bert_tf.BertTokenizer(vocabulary)
    source = tmp_path / "google"
    bert_tf.save_checkpoint(bert_tf.BertEncoder(config), tokenizer, source, "google")
    (source / "tokenizer_config.json").unlink()
    convert(str(source), str(tmp_path / "preset"), "keras_hub")
    written = read_json(tmp_path / "preset/tokenizer.json")["config"]
    assert written == {"lowercase": True, "strip_accents": True}


def test_what_a_preset_computes_differently_is_logged(tmp_path, caplog):
    config = small_config(vocab_size=9, hidden_act="gelu_exact")
    model = bert_tf.BertClassifier(config, num_labels=2)
    facts = {"labels": ["a", "b"], "task_type": "multi_label"}
    bert_tf.save_checkpoint(model, None, tmp_path / "preset", "keras_hub", **facts)
    assert "computes another model: hidden_act gelu_exact" in caplog.text
    assert "keras-hub does not store that the task is multi_label" in caplog.text
    assert not (tmp_path / "preset/tokenizer.json").exists()
