"""After bad input, a program prints a helpful line, exits with 2 and leaves no file."""

import pytest
from run_programs import as_flags, assert_each_refused, assert_refused, run_main
from tiny_bert import VOCABULARY, write_architecture

MODULE = "bert_tf.run_scripts.run_classifier"
FLAGS = {
    "task_name": "sst-2", "data_dir": "good", "output_dir": "out",
    "vocab_file": "vocab.txt", "bert_config_file": "config.json", "max_seq_length": "8",
    "train_batch_size": "4", "num_train_epochs": "1", "do_train": "true",
    "do_eval": "true",
}  # fmt: skip
PATHS = (
    "data_dir",
    "output_dir",
    "vocab_file",
    "bert_config_file",
    "init_checkpoint",
    "export_dir",
)


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path)
    (tmp_path / "long.txt").write_text("\n".join([*VOCABULARY, "d"]) + "\n")
    (tmp_path / "other.txt").write_text("\n".join(VOCABULARY[::-1]) + "\n")
    (tmp_path / "not_json").write_text("{")
    for name, label in (("good", "1"), ("bad", "7")):
        (tmp_path / name).mkdir()
        lines = ["sentence\tlabel", *("a b\t1", "b\t0") * 4, f"a\t{label}"]
        for split in ("train", "dev"):
            (tmp_path / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def command(folder, **changes):
    values = {**FLAGS, **changes}
    paths = {name: folder / values[name] for name in PATHS if values.get(name)}
    return as_flags({**values, **paths})


# Changed flags of run_classifier.py, and words of the message.
CLASSIFIER_CASES = [
    ({"task_name": "nothing"}, "'nothing' is not one of cola, sst-2"),
    ({"max_seq_length": "17"}, "--max_seq_length=17", "max_position_embeddings (16)"),
    ({"vocab_file": "long.txt"}, "long.txt has 10 entries", "vocab_size is 9"),
    ({"data_dir": "bad"}, "train.tsv, line 10: the label '7' is not one of 0, 1"),
    ({"data_dir": "nowhere"}, "There is no file", "train.tsv"),
    ({"bert_config_file": "missing.json"}, "There is no file", "missing.json"),
    ({"bert_config_file": "not_json"}, "not_json is not JSON"),
    ({"bert_config_file": None}, "The architecture is unknown"),
    ({"vocab_file": None}, "The vocabulary is unknown"),
    ({"init_checkpoint": "good"}, "holds no checkpoint", "weights.json"),
    (
        {"train_batch_size": "32"},
        "9 training examples in 1.0 epochs do not fill one batch of 32",
    ),
    ({"data_dir": None}, "There is no train data. Give --data_dir, or a train file"),
    ({"tfds_name": "glue/sst2"}, "--data_dir and --tfds_name"),
    (
        {"test_file": "a", "predict_file": "b"},
        "--test_file and --predict_file are the same",
    ),
    ({"init_head": "true"}, "--init_head needs --init_checkpoint"),
    ({"learning_rate": "x"}, "learning_rate=x"),
    ({"learning_rate": "-1"}, "--learning_rate must be above 0. Received: -1.0"),
    ({"learn": "1"}, "Unknown command line flag 'learn'"),
    ({"use_tpu": "true"}, "TPUs not found in the cluster. Check --tpu_name"),
    (
        {"distribution_strategy": "multi_worker_mirrored"},
        "needs the environment variable TF_CONFIG",
        '"worker": ["host1:port"',
    ),
    (
        {"gradient_accumulation_steps": "3"},
        "A batch of 4 examples does not divide evenly among 1 replicas in 3 acc",
    ),
    (
        {"early_stopping_evals": "2"},
        "early_stopping_evals needs evaluations during training",
    ),
    (
        {"num_gpus": "2"},
        "--num_gpus=2 needs",
        "Received: --distribution_strategy=one_device",
    ),
    ({"profile_steps": "5"}, "--profile_steps needs two whole numbers", "Received: 5"),
    ({"do_train": "false", "do_eval": "false"}, "Nothing to do"),
    ({"do_train": "false"}, "There are no weights to use"),
    (
        {"warmup_proportion": "2"},
        "--warmup_proportion must be in [0, 1]. Received: 2.0",
    ),
    (
        {"max_train_examples": "-1"},
        "--max_train_examples must be at least 0. Received: -1",
    ),
    (
        {"head": "bilstm", "lstm_size": "1000000000"},
        "--lstm_size must be from 2 to 8192",
    ),
    (
        {"task_name": "custom", "labels": "a,,b"},
        "labels has an empty label. Received: 'a,,b'",
    ),
    (
        {"task_name": "custom", "label_separator": ";"},
        "has no effect without --task_type",
    ),
    ({"xnli_language": "de"}, "--xnli_language has no effect without --task_name=xnli"),
    ({"output_dir": "long.txt"}, "long.txt is a file. Give the path of a new folder"),
    ({"init_checkpoint": ""}, "--init_checkpoint is empty"),
    ({"export_dir": "out/best/x"}, "out/best/x would contain files of the run"),
]


def test_run_classifier_refuses_bad_input(folder):
    assert_each_refused(MODULE, command, folder, CLASSIFIER_CASES)

    def run(*changes):
        return run_main(MODULE, *(command(folder, **each) for each in changes))

    # After a complete run, the same command trains no further step, other settings are
    # refused, --overwrite starts from the beginning, and evaluation without training
    # works.
    first, same, other, eval_only, restarted = run(
        {}, {}, {"learning_rate": "0.1"}, {"do_train": "false"},
        {"learning_rate": "0.1", "overwrite": "true"},
    )  # fmt: skip
    assert (first.code, same.code, eval_only.code, restarted.code) == (0, 0, 0, 0), (
        first
    )
    assert_refused(
        other, "learning_rate=5e-05", "learning_rate=0.1", "--overwrite=True"
    )
    assert first.out == same.out == eval_only.out
    assert "Continuing from step 2" in same.err

    # The casing and the vocabulary must equal the casing and vocabulary of the initial
    # checkpoint.
    next_run = {"init_checkpoint": "out", "output_dir": "next"}
    casing, vocabulary, matching = run(
        {**next_run, "do_lower_case": "false"},
        {**next_run, "vocab_file": "other.txt"},
        {**next_run, "vocab_file": None, "bert_config_file": None},
    )
    assert_refused(casing, "--do_lower_case=False was given", "do_lower_case=True")
    assert_refused(
        vocabulary, "other.txt has the SHA-256", "was trained with the vocabulary"
    )
    assert matching.code == 0, matching
