"""After bad input, a program prints one helpful line, exits with 2 and leaves no output file."""

import json
import os

import pytest
from run_programs import assert_refused, run_main, run_mains

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "."]
CONFIG = {
    "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "no_mask.txt").write_text("\n".join(v for v in VOCABULARY if v != "[MASK]") + "\n")
    (tmp_path / "long.txt").write_text("\n".join([*VOCABULARY, "d"]) + "\n")
    (tmp_path / "other.txt").write_text("\n".join(VOCABULARY[::-1]) + "\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "not_json").write_text("{")
    (tmp_path / "text").write_text("not a record")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "heads.json").write_text(json.dumps({**CONFIG, "num_attention_heads": 3}))
    for name, label in (("good", "1"), ("bad", "7")):
        (tmp_path / name).mkdir()
        lines = ["sentence\tlabel", *("a b\t1", "b\t0") * 4, f"a\t{label}"]
        for split in ("train", "dev"):
            (tmp_path / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_run_classifier_refuses_bad_input(folder):
    flags = {
        "task_name": "sst-2", "data_dir": "good", "output_dir": "out", "vocab_file": "vocab.txt",
        "bert_config_file": "config.json", "max_seq_length": "8", "train_batch_size": "4",
        "num_train_epochs": "1", "do_train": "true", "do_eval": "true",
    }  # fmt: skip
    folders = ("data_dir", "output_dir", "vocab_file", "bert_config_file", "init_checkpoint")

    def command(**changes):
        values = {**flags, **changes}
        return [
            f"--{name}={folder / value if name in folders else value}"
            for name, value in values.items()
            if value is not None
        ]

    cases = {
        ("--task_name=nothing is unknown", "cola, sst-2, mrpc", "xnli, custom"): {
            "task_name": "nothing"
        },
        ("--max_seq_length=17", "max_position_embeddings (16)"): {"max_seq_length": "17"},
        ("long.txt has 10 entries", "vocab_size is 9"): {"vocab_file": "long.txt"},
        ("no_mask.txt", "[MASK]"): {"vocab_file": "no_mask.txt"},
        ("train.tsv, line 10: the label '7' is not one of 0, 1",): {"data_dir": "bad"},
        ("There is no file", "train.tsv"): {"data_dir": "nowhere"},
        ("There is no file", "missing.json"): {"bert_config_file": "missing.json"},
        ("not_json is not JSON",): {"bert_config_file": "not_json"},
        ("hidden_size (8) must be a multiple of num_attention_heads (3)",): {
            "bert_config_file": "heads.json"
        },
        ("The architecture is unknown",): {"bert_config_file": None},
        ("The vocabulary is unknown",): {"vocab_file": None},
        ("holds no checkpoint", "weights.json"): {"init_checkpoint": "good"},
        ("learning_rate must be above 0. Received: -1.0",): {"learning_rate": "-1"},
        ("9 training examples in 1.0 epochs do not fill one batch of 32",): {
            "train_batch_size": "32"
        },
        ("--data_dir is required",): {"data_dir": None},
        ("learning_rate=x",): {"learning_rate": "x"},
        ("Unknown command line flag 'learn'",): {"learn": "1"},
        ("TPUs not found in the cluster. Check --tpu_name",): {"use_tpu": "true"},
        ("needs the environment variable TF_CONFIG", '"worker": ["host1:port"', "Received: ''"): {
            "distribution_strategy": "multi_worker_mirrored"
        },
        ("A batch of 4 examples does not divide evenly among 1 replicas in 3 accumulation",): {
            "gradient_accumulation_steps": "3"
        },
        ("early_stopping_evals needs evaluations during training",): {"early_stopping_evals": "2"},
        ("--num_gpus=2 needs", "Received: --distribution_strategy=one_device"): {"num_gpus": "2"},
        ("--use_tpu=true is the same", "Received: --distribution_strategy=mirrored"): {
            "use_tpu": "true",
            "distribution_strategy": "mirrored",
        },
        ("--profile_steps needs two whole numbers", "Received: 5"): {"profile_steps": "5"},
        ("Nothing to do",): {"do_train": "false", "do_eval": "false"},
        ("--train_batch_size must be at least 1. Received: 0",): {"train_batch_size": "0"},
        ("num_train_epochs must be above 0 and at most 1,000,000. Received: inf",): {
            "num_train_epochs": "inf"
        },
        ("eval_batch_size must be at least 1. Received: 0",): {"eval_batch_size": "0"},
        ("labels has '1' twice. Give each label once.",): {
            "task_name": "custom",
            "labels": "0,1,1",
        },
        ("There are no weights to use",): {"do_train": "false"},
    }
    results = run_main(
        "bert_tf.run_scripts.run_classifier", *(command(**case) for case in cases.values())
    )
    for words, result in zip(cases, results, strict=True):
        assert_refused(result, *words)
    assert not (folder / "out").exists()

    # After a complete run, the same command trains no further step, other settings are refused,
    # --overwrite starts from the beginning, and evaluation without training works.
    first, same, other, eval_only, restarted = run_main(
        "bert_tf.run_scripts.run_classifier",
        command(),
        command(),
        command(learning_rate="0.1"),
        command(do_train="false"),
        command(learning_rate="0.1", overwrite="true"),
    )
    assert (first.code, same.code, eval_only.code, restarted.code) == (0, 0, 0, 0), first
    assert_refused(other, "learning_rate=5e-05", "learning_rate=0.1", "--overwrite=True")
    assert first.out == same.out == eval_only.out
    assert "Continuing from step 2" in same.err

    # The casing and the vocabulary must equal the casing and vocabulary of the initial checkpoint.
    casing, vocabulary, matching = run_main(
        "bert_tf.run_scripts.run_classifier",
        command(init_checkpoint="out", output_dir="next", do_lower_case="false"),
        command(init_checkpoint="out", output_dir="next", vocab_file="other.txt"),
        command(init_checkpoint="out", output_dir="next", vocab_file=None, bert_config_file=None),
    )
    assert_refused(casing, "--do_lower_case=False was given", "do_lower_case=True")
    assert_refused(vocabulary, "other.txt has the SHA-256", "was trained with the vocabulary")
    assert matching.code == 0, matching


def test_run_pretraining_refuses_bad_input(folder):
    flags = {
        "input_file": "text", "output_dir": "out", "bert_config_file": "config.json",
        "max_seq_length": "8", "do_train": "true",
    }  # fmt: skip
    folders = ("input_file", "output_dir", "bert_config_file", "vocab_file")

    def command(**changes):
        values = {**flags, **changes}
        return [f"--{n}={folder / v if n in folders else v}" for n, v in values.items()]

    cases = {
        ("No record file matches", "nowhere"): {"input_file": "nowhere*"},
        ("text is not a TFRecord file",): {},
        ("empty is empty",): {"input_file": "empty"},
        ("--max_seq_length=17", "max_position_embeddings (16)"): {"max_seq_length": "17"},
        ("long.txt has 10 entries", "vocab_size is 9"): {"vocab_file": "long.txt"},
        ("--num_warmup_steps must be from 0 to --num_train_steps (5). Received: 10000",): {
            "num_train_steps": "5",
            "num_warmup_steps": "10000",
        },
        ("Nothing to do",): {"do_train": "false"},
    }
    results = run_main(
        "bert_tf.run_scripts.run_pretraining", *(command(**c) for c in cases.values())
    )
    for words, result in zip(cases, results, strict=True):
        assert_refused(result, *words)
    assert not (folder / "out").exists()


def test_export_and_predict_refuse_bad_input(folder):
    no_checkpoint, no_flag, no_model = run_mains(
        [
            (
                "bert_tf.run_scripts.export_model",
                [f"--checkpoint={folder}/good", f"--export_dir={folder}/out"],
            ),
            ("bert_tf.run_scripts.export_model", [f"--export_dir={folder}/out"]),
            ("bert_tf.run_scripts.predict", [f"--model={folder}/good", "--text=a"]),
        ]
    )
    assert_refused(no_checkpoint, "holds no checkpoint")
    assert_refused(no_flag, "--checkpoint is required")
    assert_refused(no_model, "is not an exported model and contains no version of one")
    assert not os.path.exists(folder / "out")
