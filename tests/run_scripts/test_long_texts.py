"""--long_texts=windows in run_classifier.py, and the export of its models."""

import numpy as np
import pytest
import tensorflow as tf
from run_programs import (
    assert_each_refused,
    assert_refused,
    read_lines,
    results_of,
    run_lines,
    run_well,
    write_rows,
)
from tiny_bert import CONFIG, VOCABULARY, write_architecture

import bert_tf
from bert_tf.export.served import load_served

CLASSIFIER = "bert_tf.run_scripts.run_classifier"
PLAIN = (
    "--task_name=custom --data_dir=. --output_dir=out --max_seq_length=8 "
    "--train_batch_size=4 --learning_rate=3e-2 --optimizer=adamw --num_train_epochs=2"
)
BASE = f"{PLAIN} --vocab_file=vocab.txt --bert_config_file=config.json"
WINDOWS = "--long_texts=windows --doc_stride=3 --max_windows=2"


def text(number):
    """Returns a text whose last token is its label: "b" for pos.

    Most are longer than 8 tokens.
    """
    return " ".join(["a"] * (5 * number % 24) + ["b" if number % 3 else "."])


@pytest.fixture(autouse=True)
def folder(here):
    write_architecture(here)
    rows = [f"{text(n)}\t{'pos' if n % 3 else 'neg'}" for n in range(24)]
    for name in ("train", "dev", "test"):
        write_rows(f"{name}.tsv", "sentence\tlabel", *rows, "\tneg")


def predicted(folder):
    return np.loadtxt(f"{folder}/test_results.tsv", ndmin=2)


@pytest.mark.medium
def test_a_run_averages_windows_and_its_export_too():
    train = f"{BASE} --do_train --do_eval --do_predict"
    trained, _, truncated = run_well(
        CLASSIFIER,
        f"{train} {WINDOWS}",
        f"{PLAIN} --do_predict --init_checkpoint=out --output_dir=same",
        f"{train} --check_only --output_dir=cut",
    )
    (other,) = run_lines(CLASSIFIER, f"{train} {WINDOWS} --max_windows=3")
    assert_refused(other, "with --max_windows=2", "this run has --max_windows=3")
    several = sum(len(text(n).split()) > 6 for n in range(24))
    line = next(each for each in trained.err.splitlines() if each.startswith("train ("))
    assert (
        f": 25 examples, {several} with several windows, 1 with an empty text, " in line
    )
    count = int(line.split(" windows, ")[-2].split()[-1].replace(",", ""))
    # At most two windows of a text in training, of which an epoch reads each once.
    assert count == 25 + several
    assert results_of("out")["global_step"] == int(count / 4 * 2)
    rows = read_lines("out/predictions.jsonl")
    texts = [*map(text, range(24)), ""]
    assert [row["sentence"] for row in rows] == texts
    np.testing.assert_allclose(predicted("same"), predicted("out"), atol=1e-6)
    assert f"{several} truncated, 1 with an empty text" in truncated.err
    assert f"{several / 25:.1%} of the examples are truncated" in truncated.err

    # The model of the export; tests/export compares its SavedModel with it.
    served = load_served(bert_tf.load("out"))
    found = served.from_texts(tf.constant(texts))["probabilities"]
    np.testing.assert_allclose(found, predicted("out"), atol=1e-6)


def test_a_frozen_encoder_reads_windows():
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig(**CONFIG))
    bert_tf.save_checkpoint(encoder, bert_tf.BertTokenizer(VOCABULARY), "model")
    (done,) = run_well(
        CLASSIFIER,
        f"{PLAIN} {WINDOWS} --do_train --do_eval --init_checkpoint=model "
        "--approach=features --feature_layers=last --class_weights=balanced",
    )
    # Of 25 texts, 9 are neg: 25 / (2 * 9) and 25 / (2 * 16).
    assert "class weights: neg 1.389, pos 0.7812." in done.err
    assert 0 < results_of("out")["eval_loss"] < 5


def test_flags_without_effect_and_pairs_are_refused():
    alone = "has no effect without --long_texts=windows"
    cases = [
        ("--doc_stride=3", f"--doc_stride {alone}"),
        ("--max_windows=3", f"--max_windows {alone}"),
        (f"{WINDOWS} --doc_stride=0", "--doc_stride must be at least 1. Received: 0."),
        (
            f"{WINDOWS} --max_windows=0",
            "--max_windows must be at least 1. Received: 0.",
        ),
        (
            f"{WINDOWS} --text_b_column=label --label_column=x",
            "--long_texts=windows needs",
        ),
        (f"{WINDOWS} --task_name=mrpc", "the task mrpc, which has pairs of texts."),
    ]
    assert_each_refused(CLASSIFIER, f"{BASE} --do_train", cases)
