"""--long_texts=windows in run_classifier.py, and the export of its models."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from run_programs import (
    assert_each_refused,
    assert_refused,
    commands,
    read_lines,
    results_of,
    run_main,
)
from tiny_bert import CONFIG, VOCABULARY, write_architecture

import bert_tf
from bert_tf.export.served import load_served

CLASSIFIER = "bert_tf.run_scripts.run_classifier"
WINDOWS = {"long_texts": "windows", "doc_stride": 3, "max_windows": 2}
USED = {"do_predict": True}


def text(number):
    """Returns a text whose last token is its label: "b" for pos.

    Most are longer than 8 tokens.
    """
    return " ".join(["a"] * (5 * number % 24) + ["b" if number % 3 else "."])


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path)
    rows = [f"{text(n)}\t{'pos' if n % 3 else 'neg'}" for n in range(24)]
    rows += ["\tneg"]
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text(
            "\n".join(["sentence\tlabel", *rows]) + "\n"
        )
    return tmp_path


command = commands(
    task_name="custom",
    max_seq_length=8,
    train_batch_size=4,
    learning_rate=3e-2,
    optimizer="adamw",
)


def predicted(folder):
    return np.loadtxt(folder / "test_results.tsv", ndmin=2)


def test_a_run_averages_windows_and_its_export_too(folder):
    train = {"do_train": True, "do_eval": True, "do_predict": True}
    trained, same, other, truncated = run_main(
        CLASSIFIER,
        command(folder, **train, **WINDOWS, num_train_epochs=2),
        command(
            folder,
            **USED,
            init_checkpoint=folder / "out",
            output_dir=folder / "same",
            vocab_file=None,
            bert_config_file=None,
        ),
        command(folder, **train, **{**WINDOWS, "max_windows": 3}, num_train_epochs=2),
        command(folder, **train, check_only=True, output_dir=folder / "cut"),
    )
    assert trained.code == 0, trained
    several = sum(len(text(n).split()) > 6 for n in range(24))
    line = next(each for each in trained.err.splitlines() if each.startswith("train ("))
    assert (
        f": 25 examples, {several} with several windows, 1 with an empty text, " in line
    )
    count = int(line.split(" windows, ")[-2].split()[-1].replace(",", ""))
    # At most two windows of a text in training, of which an epoch reads each once.
    assert count == 25 + several
    assert results_of(folder / "out")["global_step"] == int(count / 4 * 2)
    rows = read_lines(folder / "out/predictions.jsonl")
    assert [row["sentence"] for row in rows] == [*map(text, range(24)), ""]
    assert same.code == 0, same
    np.testing.assert_allclose(
        predicted(folder / "same"), predicted(folder / "out"), atol=1e-6
    )
    assert_refused(other, "with --max_windows=2", "this run has --max_windows=3")
    assert truncated.code == 0, truncated
    assert f"{several} truncated, 1 with an empty text" in truncated.err
    assert f"{several / 25:.1%} of the examples are truncated" in truncated.err

    # The model of the export; tests/export compares its SavedModel with it.
    served = load_served(bert_tf.load(str(folder / "out")))
    found = served.from_texts(tf.constant([*map(text, range(24)), ""]))["probabilities"]
    np.testing.assert_allclose(found, predicted(folder / "out"), atol=1e-6)


def test_a_frozen_encoder_reads_windows(folder):
    flags = {**WINDOWS, "approach": "features", "feature_layers": "last"}
    flags["class_weights"] = "balanced"
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig(**CONFIG))
    bert_tf.save_checkpoint(
        encoder, bert_tf.BertTokenizer(VOCABULARY), folder / "model"
    )
    (done,) = run_main(
        CLASSIFIER,
        command(
            folder,
            do_train=True,
            do_eval=True,
            init_checkpoint=folder / "model",
            **flags,
            num_train_epochs=2,
            vocab_file=None,
            bert_config_file=None,
        ),
    )
    assert done.code == 0, done
    # Of 25 texts, 9 are neg: 25 / (2 * 9) and 25 / (2 * 16).
    assert "class weights: neg 1.389, pos 0.7812." in done.err
    assert 0 < results_of(folder / "out")["eval_loss"] < 5


def test_flags_without_effect_and_pairs_are_refused(folder):
    cases = [
        ({"doc_stride": 3}, "--doc_stride has no effect without --long_texts=windows"),
        (
            {"max_windows": 3},
            "--max_windows has no effect without --long_texts=windows",
        ),
        ({**WINDOWS, "doc_stride": 0}, "--doc_stride must be at least 1. Received: 0."),
        (
            {**WINDOWS, "max_windows": 0},
            "--max_windows must be at least 1. Received: 0.",
        ),
        (
            {**WINDOWS, "text_b_column": "label", "label_column": "x"},
            "--long_texts=windows needs",
        ),
        ({**WINDOWS, "task_name": "mrpc"}, "the task mrpc, which has pairs of texts."),
    ]
    training = functools.partial(command, do_train=True)
    assert_each_refused(CLASSIFIER, training, folder, cases)
