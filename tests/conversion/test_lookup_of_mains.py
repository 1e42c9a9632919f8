"""With --init_checkpoint, programs find config, vocabulary and casing."""

import shutil
import zipfile

import numpy as np
import pytest
from json_files import read_json
from run_programs import assert_refused, run_mains
from tiny_bert import SPECIAL, small_config

from bert_tf.config import BertConfig
from bert_tf.modeling import BertEncoder
from bert_tf.pretrained import save_checkpoint
from bert_tf.tokenization import BertTokenizer

# "Ab" is one token in cased text and two tokens in lower-cased text: "a", "##b".
VOCABULARY = [*SPECIAL, "Ab", "a", "##b", "c", "."]
CONFIG = small_config(10, intermediate_size=12, initializer_range=0.5)
TEXT = "Ab c"
# The tokens of TEXT for each value of do_lower_case.
TOKENS = {
    False: ["[CLS]", "Ab", "c", "[SEP]"],
    True: ["[CLS]", "a", "##b", "c", "[SEP]"],
}
# A program whose huggingface_hub returns a local model, so that the tests need no
# network access.
WITH_HUB = """
import sys, types
from bert_tf.run_scripts.extract_features import __file__, run

def snapshot_download(name, revision=None, allow_patterns=None):
    assert (name, revision) == ("owner/name", None), (name, revision)
    return {folder!r}

sys.modules["huggingface_hub"] = types.SimpleNamespace(**vars())
"""


@pytest.fixture(scope="module")
def one_model(tmp_path_factory):
    """Returns a folder with a cased model in two formats, and its output for TEXT."""
    root = tmp_path_factory.mktemp("models")
    encoder = BertEncoder(CONFIG, seed=0)
    tokenizer = BertTokenizer(VOCABULARY, do_lower_case=False)
    save_checkpoint(encoder, tokenizer, root / "cased_L-2_H-8_A-2", "google")
    save_checkpoint(encoder, tokenizer, root / "hugging_face", "hugging_face")
    with zipfile.ZipFile(root / "released.zip", "w") as archive:
        for file in (root / "cased_L-2_H-8_A-2").iterdir():
            archive.write(file, f"cased_L-2_H-8_A-2/{file.name}")
    (root / "in.txt").write_text(TEXT + "\n")
    for split in ("train", "dev"):
        (root / f"{split}.tsv").write_text(
            "sentence\tlabel\n" + "Ab c\t1\nc .\t0\n" * 4
        )
    with_hub = WITH_HUB.format(folder=str(root / "hugging_face"))
    (root / "with_hub.py").write_text(with_hub)
    packed = tokenizer.pack(tokenizer.tokenize([TEXT]), seq_length=4)
    expected = np.asarray(encoder(packed)["sequence_output"])[0]
    return root, expected


def extract(path, out, *flags):
    command = [
        "--input_file=in.txt", f"--output_file={out}", f"--init_checkpoint={path}",
        "--layers=-1", "--max_seq_length=16", *flags,
    ]  # fmt: skip
    return "bert_tf.run_scripts.extract_features", command


TRAIN = [
    "--task_name=sst-2", "--data_dir=.", "--init_checkpoint=released.zip",
    "--do_train=true", "--max_seq_length=8", "--train_batch_size=8",
    "--num_train_epochs=1",
]  # fmt: skip


def assert_extracted(result, out, do_lower_case, expected=None):
    assert result.code == 0, result
    entries = read_json(out)["features"]
    assert [entry["token"] for entry in entries] == TOKENS[do_lower_case]
    if expected is not None:
        values = [entry["layers"][0]["values"] for entry in entries]
        np.testing.assert_allclose(values, expected, atol=2e-6)


def assert_trained(result, out):
    assert result.code == 0, result
    assert "The head starts with random weights" in result.err
    newest = sorted((out / "checkpoints").iterdir())[-1]
    assert read_json(newest / "weights.json")["do_lower_case"] is False
    assert (newest / "vocab.txt").read_text().split() == VOCABULARY
    assert BertConfig.from_json((newest / "bert_config.json").read_text()) == CONFIG


@pytest.mark.medium
def test_programs_read_a_released_zip_and_the_hub(one_model, tmp_path):
    root, expected = one_model
    other_rules = tmp_path / "other_rules"
    shutil.copytree(root / "hugging_face", other_rules)
    settings = '{"do_lower_case": false, "tokenize_chinese_chars": false}'
    (other_rules / "tokenizer_config.json").write_text(settings)
    vocabulary = f"--vocab_file={other_rules}/vocab.txt"
    lower = "--do_lower_case=true"
    _, from_hub = extract("hf://owner/name", tmp_path / "lowered", lower)
    train = [*TRAIN, f"--output_dir={tmp_path}/trained"]
    extracted, lowered, trained, refused, released = run_mains(
        [
            extract("released.zip", tmp_path / "zip"),
            ("with_hub", from_hub),
            ("bert_tf.run_scripts.run_classifier", train),
            extract(other_rules, tmp_path / "x"),
            extract(other_rules, tmp_path / "released_rules", vocabulary),
        ],
        cwd=root,
    )
    assert_refused(
        refused,
        "other_rules has a tokenizer",
        "tokenize_chinese_chars is false",
        "--vocab_file",
    )
    assert_extracted(released, tmp_path / "released_rules", False, expected)
    assert_extracted(extracted, tmp_path / "zip", False, expected)
    assert_extracted(lowered, tmp_path / "lowered", True)
    assert_trained(trained, tmp_path / "trained")
