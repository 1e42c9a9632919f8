"""Damaged and wrong checkpoints and configs: one line, exit code 2, no output."""

import os
import shutil
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from json_files import edit_json
from refusals import refused, refused_with
from run_programs import assert_refused, run_mains
from tiny_bert import VOCABULARY

import bert_tf
from bert_tf.config import BertConfig
from bert_tf.conversion import CheckpointContents, convert, read_weights, write_weights
from bert_tf.modeling import BertEncoder, arrays_by_name

CONFIG = BertConfig(9, 8, 1, 2, 8, max_position_embeddings=16, type_vocab_size=2)
NAMES = {"own": "bert-tf", "hf": "hugging_face", "google": "google"}
EMBEDDINGS = "embeddings.word_embeddings.weight"
DATA = "bert_model.ckpt.data-00000-of-00001"
SHARDS = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """A folder with one valid checkpoint of each dialect."""
    parent = tmp_path_factory.mktemp("valid")
    contents = CheckpointContents(
        "a "
        "model", "bert-tf", arrays_by_name(BertEncoder(CONFIG, seed=1)), CONFIG,
        VOCABULARY,
        True, {"labels": ["no", "yes"]},
    )  # fmt: skip
    for name, dialect in NAMES.items():
        write_weights(contents, str(parent / name), dialect)
    zip_folder(parent / "google", parent / "zip.zip")
    return parent


def zip_folder(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(os.listdir(folder)):
            archive.write(folder / name, f"model/{name}")


# Each function returns a change of a checkpoint: a function of its folder.


def put(name, content):
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def edit(name, **values):
    """Changes values in a JSON file; None removes a key."""
    return lambda folder: edit_json(folder / name, **values)


def flip(name, position):
    def change(folder):
        content = bytearray((folder / name).read_bytes())
        content[position] ^= 1
        (folder / name).write_bytes(content)

    return change


def cut(name, end):
    return lambda folder: (folder / name).write_bytes(
        (folder / name).read_bytes()[:end]
    )


def link(name, target):
    def change(folder):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return change


def tensors(**arrays):
    """Adds tensors to a file of Hugging Face, or replaces them."""

    def change(folder):
        path = folder / "model.safetensors"
        safetensors.numpy.save_file(safetensors.numpy.load_file(path) | arrays, path)

    return change


def tensor(dtype, value):
    """Replaces the word embeddings in a file of Hugging Face."""
    array = np.zeros((9, 8), dtype)
    array[3, 2] = value
    return tensors(**{EMBEDDINGS: array})


def labels(*names):
    """Adds the head of a classifier to a file of Hugging Face."""

    head = {"weight": np.ones((2, 8), "f4"), "bias": np.ones(2, "f4")}
    id2label = {str(i): name for i, name in enumerate(names)}

    def change(folder):
        tensors(**{f"classifier.{name}": array for name, array in head.items()})(folder)
        edit_json(folder / "config.json", id2label=id2label)

    return change


def damaged_run(folder):
    """Makes the folder that of a run with a damaged checkpoint."""
    for path in folder.iterdir():
        path.unlink()
    (folder / "checkpoints/step-00000001").mkdir(parents=True)
    (folder / "checkpoints/step-00000001/state.json").write_text("")


def cut_zip(path):
    path.write_bytes(path.read_bytes()[:-30])


# A row: a name in NAMES, "shards" or "zip", the change, words of the message.
CHECKPOINTS = [
    ("hf", edit("config.json", hidden_act="nothing"), "the hidden_act 'nothing'"),
    ("hf", put("config.json", ""), "config.json is not JSON"),
    ("hf", edit("config.json", hidden_act="quick_gelu"), "hidden_act 'quick_gelu'",
     "Supported are gelu, "),
    ("hf", edit("config.json", pruned_heads={"0": [1]}), "pruned_heads"),
    ("hf", edit("config.json", model_type="distilbert"), "distilbert"),
    ("hf", edit("config.json", position_embedding_type="relative_key"), "relative_key"),
    ("hf", edit("config.json", add_cross_attention=True), "cross-attention"),
    ("hf", edit("config.json", layer_norm_eps=0), "layer_norm_eps must be above 0"),
    ("shards", edit(SHARDS, weight_map={"a": "../outside.safetensors"}),
     "'../outside.safetensors'",
     "Only names without a folder"),
    ("hf", labels("a", "a"), "config.json: id2label must have one different label",
     "'a' for 1"),
    ("hf", cut("model.safetensors", 500),
     "model.safetensors is not a valid safetensors file"),
    ("hf", tensor(np.int32, 1), "bert/embeddings/word_embeddings has the dtype int32"),
    ("hf", tensor(np.float32, np.nan),
     "NaN or infinite values in bert/embeddings/word_embeddings"),
    ("shards", edit(SHARDS, weight_map={"a": "b.safetensors"}), "/b.safetensors"),
    ("own", edit("weights.json", format=3), 'must contain "format": 2. Received: 3'),
    ("own", edit("bert_config.json", hidden_act="relu"), "bert_config.json",
     "was replaced"),
    ("own", link("vocab.txt", "../secret"), "vocab.txt is a link to",
     "outside of its folder"),
    ("own", damaged_run,
     "is the folder of a training run, but holds no undamaged checkpoint"),
    ("google", flip(DATA, 50),
     "bert_model.ckpt cannot be read as a TensorFlow checkpoint"),
    ("google", cut(DATA, 100), "bert_model.ckpt.data-* is incomplete", "Copy it again"),
    ("google", lambda folder: (folder / DATA).unlink(),
     "be read as a TensorFlow checkpoint"),
    ("google", put("checkpoint", 'model_checkpoint_path: "../other/x.ckpt"'),
     "in another folder"),
    ("google", edit("tokenizer_config.json", do_lower_case="false"),
     "tokenizer_config.json: do_lower_case must be true or"),
    ("zip", cut_zip, "cannot be read as a zip file"),
]  # fmt: skip


@pytest.fixture
def folder(valid, tmp_path):
    (tmp_path / "secret").write_text("a private file")
    (tmp_path / "other").mkdir()
    for suffix in ("index", "data-00000-of-00001"):
        source = valid / f"google/bert_model.ckpt.{suffix}"
        shutil.copy(source, tmp_path / f"other/x.ckpt.{suffix}")
    shutil.copy(valid / "hf/model.safetensors", tmp_path / "outside.safetensors")
    return tmp_path


def copy(valid, name, target):
    if name == "zip":
        return shutil.copy(valid / "zip.zip", target)
    shutil.copytree(valid / ("hf" if name == "shards" else name), target)
    if name == "shards":
        (target / "model.safetensors").rename(target / "x.safetensors")
    return target


@pytest.mark.parametrize("row", CHECKPOINTS, ids=lambda row: f"{row[0]}: {row[2]:.40}")
def test_reading_refuses_damaged_checkpoints(valid, folder, row):
    name, change, *words = row
    source = folder / ("a.zip" if name == "zip" else "a")
    copy(valid, name, source)
    change(source)
    with refused_with(*words):
        read_weights(str(source), slots=True)


def test_sizes_are_compared_with_the_weights_before_a_model_is_built(
    valid, folder, monkeypatch
):
    """Otherwise this takes minutes."""
    monkeypatch.setattr("bert_tf.modeling.BertEncoder", None)
    copy(valid, "hf", folder / "a")
    edit("config.json", num_hidden_layers=999)(folder / "a")
    for read in (
        bert_tf.load,
        lambda path: convert(path, str(folder / "out"), "bert-tf"),
    ):
        with refused("lacks weights of this encoder, such as bert"):
            read(str(folder / "a"))


# A row: program, flags, words of the message. {name} stands for a changed checkpoint.
CHANGED = {
    "nan": ("hf", tensor(np.float32, np.nan)),
    "repeated": ("google", put("vocab.txt", "\n".join([*VOCABULARY[:-1], "[SEP]"]))),
    "valid": ("own", lambda folder: None),
}
PROGRAMS = [
    ("convert_checkpoint", ["--from=nowhere.zip"], "There is no file nowhere.zip"),
    ("convert_checkpoint", ["--from={repeated}"], "line 9 repeats [SEP] of line"),
    ("convert_checkpoint", ["--from={valid}", "--vocab_file=reversed.txt"],
     "was trained with the vocabulary", "Leave out --vocab_file"),
    ("extract_features", ["--init_checkpoint={valid}", "--bert_config_file=heads.json"],
     "The given config has num_attention_heads=1, but", "Leave out --bert_config_file"),
    ("run_classifier", ["--init_checkpoint={nan}"],
     "NaN or infinite values in bert/embeddings/w"),
    ("export_model", ["--checkpoint={nan}"],
     "NaN or infinite values in bert/embeddings/word"),
]  # fmt: skip
OTHER_FLAGS = {
    "convert_checkpoint": ["--to=out"],
    "extract_features": ["--input_file=texts", "--output_file=out", "--layers=-1"],
    "run_classifier": [
        "--task_name=sst-2", "--data_dir=.", "--output_dir=out", "--do_train=true",
        "--max_seq_length=8", "--train_batch_size=2", "--num_train_epochs=1",
    ],
    "export_model": ["--export_dir=out"],
}  # fmt: skip


@pytest.mark.medium
def test_programs_refuse_damaged_checkpoints(valid, folder):
    for name, (dialect, change) in CHANGED.items():
        change(copy(valid, dialect, folder / name))
    (folder / "texts").write_text("a b\n")
    (folder / "train.tsv").write_text("sentence\tlabel\na b\t1\nb\t0\n")
    shutil.copy(valid / "own/bert_config.json", folder / "heads.json")
    edit_json(folder / "heads.json", num_attention_heads=1)
    (folder / "reversed.txt").write_text("\n".join(VOCABULARY[::-1]) + "\n")
    paths = {name: folder / name for name in CHANGED}
    commands = [
        (f"bert_tf.run_scripts.{program}",
         [*OTHER_FLAGS[program], *(flag.format(**paths) for flag in flags)])
        for program, flags, *_ in PROGRAMS
    ]  # fmt: skip
    results = run_mains(commands, cwd=folder, secs=60)
    for (_, _, *words), result in zip(PROGRAMS, results, strict=True):
        assert_refused(result, *words)
    assert not (folder / "out").exists()
