"""Training settings at the edges of their ranges: one line, exit code 2, and no output folder."""

import json

import pytest
import tensorflow as tf
from run_programs import assert_refused, run_mains

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "."]
CONFIG = {
    "vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2,
}  # fmt: skip
PRETRAIN, CLASSIFY = "bert_tf.run_scripts.run_pretraining", "bert_tf.run_scripts.run_classifier"
COMMON = {
    "bert_config_file": "config.json", "vocab_file": "vocab.txt", "output_dir": "out",
    "max_seq_length": "8", "train_batch_size": "4", "do_train": "true",
}  # fmt: skip
FLAGS = {
    PRETRAIN: {**COMMON, "input_file": "records", "num_train_steps": "9", "num_warmup_steps": "0"},
    CLASSIFY: {**COMMON, "task_name": "sst-2", "data_dir": ".", "num_train_epochs": "1"},
}
# Program, changed flags, words of the message.
ROWS = (
    (PRETRAIN, {"num_train_steps": "0"}, "num_train_steps must be at least 1. Received: 0"),
    (PRETRAIN, {"num_train_steps": "99999999999"}, "num_train_steps must be at most 2147483647"),
    (PRETRAIN, {"num_warmup_steps": "-1"}, "num_warmup_steps must be at least 0. Received: -1"),
    (PRETRAIN, {"num_warmup_steps": "10"}, "num_warmup_steps must be from 0 to --num_train"),
    (PRETRAIN, {"time_budget_secs": "nan"}, "time_budget_secs must be from 0 to"),
    (PRETRAIN, {"train_batch_size": "1000000000000"}, "train_batch_size must be at most 1048576"),
    (CLASSIFY, {"learning_rate": "nan"}, "learning_rate must be above 0"),
    (CLASSIFY, {"learning_rate": "1e300"}, "learning_rate must be from"),
    (CLASSIFY, {"clip_norm": "0"}, "clip_norm must be above 0. Received: 0.0"),
    (CLASSIFY, {"weight_decay_rate": "-1"}, "weight_decay_rate must be from 0 to"),
    (CLASSIFY, {"layer_decay": "nan"}, "layer_decay must be from 0 to 1. Received: nan"),
    (CLASSIFY, {"ema_decay": "1"}, "ema_decay must be from 0 to"),
    (CLASSIFY, {"adam_beta_2": "1"}, "adam_beta_2 must be from 0 to"),
    (CLASSIFY, {"seed": "-1"}, "seed must be at least 0. Received: -1"),
    (CLASSIFY, {"profile_steps": "5,5"}, "profile_steps must be two steps, the first smaller"),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as records:
        records.write(b"")
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("sentence\tlabel\n" + "a b\t1\nb\t0\n" * 4)
    return tmp_path


def test_values_at_the_edges_are_refused(folder):
    commands = [
        (program, [f"--{name}={value}" for name, value in {**FLAGS[program], **changes}.items()])
        for program, changes, _ in ROWS
    ]
    results = run_mains(commands, cwd=folder, secs=60)
    for (_, _, words), result in zip(ROWS, results, strict=True):
        assert_refused(result, words)
    assert not (folder / "out").exists()
