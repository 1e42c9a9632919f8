"""After bad input, a program prints a helpful line, exits with 2 and leaves no file."""

import pathlib
import shutil

import pytest
from run_programs import (
    assert_each_refused,
    assert_refused,
    run_lines,
    run_well,
    write_rows,
)
from tiny_bert import VOCABULARY, write_architecture

MODULE = "bert_tf.run_scripts.run_classifier"
SIZES = "--max_seq_length=8 --train_batch_size=4 --num_train_epochs=1"
DATA = f"--task_name=sst-2 --data_dir=good {SIZES} --output_dir=out"
MODEL = f"{DATA} --vocab_file=vocab.txt --bert_config_file=config.json"
BASE = f"{MODEL} --do_train --do_eval"


@pytest.fixture(autouse=True)
def folder(here):
    write_architecture(here)
    write_rows("long.txt", *VOCABULARY, "d")
    write_rows("other.txt", *VOCABULARY[::-1])
    write_rows("not_json", "{")
    for name, label in (("good", "1"), ("bad", "7")):
        pathlib.Path(name).mkdir()
        rows = ["sentence\tlabel", *("a b\t1", "b\t0") * 4, f"a\t{label}"]
        for split in ("train", "dev"):
            write_rows(f"{name}/{split}.tsv", *rows)


# Changed flags of run_classifier.py, and words of the message.
CASES = [
    ("--task_name=nothing", "'nothing' is not one of cola, sst-2"),
    ("--max_seq_length=17", "--max_seq_length=17", "max_position_embeddings (16)"),
    ("--vocab_file=long.txt", "long.txt has 10 entries", "vocab_size is 9"),
    ("--data_dir=bad", "train.tsv, line 10: the label '7' is not one of 0, 1"),
    ("--data_dir=nowhere", "There is no file", "train.tsv"),
    ("--bert_config_file=missing.json", "There is no file", "missing.json"),
    ("--bert_config_file=not_json", "not_json is not JSON"),
    ("--init_checkpoint=good", "holds no checkpoint", "weights.json"),
    (
        "--train_batch_size=32",
        "9 training examples in 1.0 epochs do not fill one batch of 32",
    ),
    ("--data_dir=", "There is no train data. Give --data_dir, or a train file"),
    ("--tfds_name=glue/sst2", "--data_dir and --tfds_name"),
    (
        "--test_file=a --predict_file=b",
        "--test_file and --predict_file are the same",
    ),
    ("--init_head", "--init_head needs --init_checkpoint"),
    ("--learning_rate=x", "learning_rate=x"),
    ("--learning_rate=-1", "--learning_rate must be above 0. Received: -1.0"),
    ("--learn=1", "Unknown command line flag 'learn'"),
    ("--use_tpu", "TPUs not found in the cluster. Check --tpu_name"),
    (
        "--distribution_strategy=multi_worker_mirrored",
        "needs the environment variable TF_CONFIG",
        '"worker": ["host1:port"',
    ),
    (
        "--gradient_accumulation_steps=3",
        "A batch of 4 examples does not divide evenly among 1 replicas in 3 acc",
    ),
    (
        "--early_stopping_evals=2",
        "early_stopping_evals needs evaluations during training",
    ),
    (
        "--num_gpus=2",
        "--num_gpus=2 needs",
        "Received: --distribution_strategy=one_device",
    ),
    ("--profile_steps=5", "--profile_steps needs two whole numbers", "Received: 5"),
    ("--nodo_train --nodo_eval", "Nothing to do"),
    ("--nodo_train", "There are no weights to use"),
    (
        "--warmup_proportion=2",
        "--warmup_proportion must be in [0, 1]. Received: 2.0",
    ),
    (
        "--max_train_examples=-1",
        "--max_train_examples must be at least 0. Received: -1",
    ),
    ("--head=bilstm --lstm_size=1000000000", "--lstm_size must be from 2 to 8192"),
    (
        "--task_name=custom --labels=a,,b",
        "labels has an empty label. Received: 'a,,b'",
    ),
    (
        "--task_name=custom --label_separator=';'",
        "has no effect without --task_type",
    ),
    ("--xnli_language=de", "--xnli_language has no effect without --task_name=xnli"),
    ("--output_dir=long.txt", "long.txt is a file. Give the path of a new folder"),
    ("--init_checkpoint=", "--init_checkpoint is empty"),
    ("--export_dir=out/best/x", "out/best/x would contain files of the run"),
]


@pytest.mark.medium
def test_run_classifier_refuses_bad_input():
    assert_each_refused(MODULE, BASE, CASES)
    train = f"{DATA} --do_train --do_eval"
    no_model = [
        ("--vocab_file=vocab.txt", "The architecture is unknown"),
        ("--bert_config_file=config.json", "The vocabulary is unknown"),
    ]
    assert_each_refused(MODULE, train, no_model)

    # After a complete run, the same command trains no further step, other settings are
    # refused, and evaluation without training works.
    first, same, eval_only = run_well(MODULE, BASE, BASE, f"{MODEL} --do_eval")
    assert first.out == same.out == eval_only.out
    assert "Continuing from step 2" in same.err
    (other,) = run_lines(MODULE, f"{BASE} --learning_rate=0.1")
    assert_refused(
        other, "learning_rate=5e-05", "learning_rate=0.1", "--overwrite=True"
    )

    # The casing and the vocabulary must equal the casing and vocabulary of the initial
    # checkpoint.
    following = "--init_checkpoint=out --output_dir=next"
    casing, vocabulary = run_lines(
        MODULE,
        f"{BASE} {following} --nodo_lower_case",
        f"{BASE} {following} --vocab_file=other.txt",
    )
    assert_refused(casing, "--do_lower_case=False was given", "do_lower_case=True")
    assert_refused(
        vocabulary, "other.txt has the SHA-256", "was trained with the vocabulary"
    )

    # --overwrite starts from the beginning. The initial checkpoint gives the
    # architecture and the vocabulary.
    shutil.copytree("out", "first")
    (replaced,) = run_well(
        MODULE,
        f"{DATA} --do_train --init_checkpoint=first --learning_rate=0.1 --overwrite",
    )
    assert "Continuing" not in replaced.err
