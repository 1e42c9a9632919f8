"""--class_weights in run_classifier.py and run_ner.py."""

import pathlib

import pytest
from run_programs import (
    assert_refused,
    newest,
    read_lines,
    results_of,
    run_lines,
    run_well,
    write_rows,
)
from tiny_bert import write_architecture

CLASSIFIER, NER = "bert_tf.run_scripts.run_classifier", "bert_tf.run_scripts.run_ner"
BASE = (
    "--data_dir=. --output_dir=out --vocab_file=vocab.txt "
    "--bert_config_file=config.json --max_seq_length=8 --train_batch_size=4 "
    "--num_train_epochs=4 --learning_rate=3e-2 --optimizer=adamw"
)
CUSTOM = f"{BASE} --task_name=custom"


@pytest.fixture(autouse=True)
def folder(here):
    write_architecture(here)
    for name in ("train", "dev", "test"):
        rows = ["a b,pos", "b,neg", "b a,neg", "b b,neg"] * 4
        write_rows(f"{name}.csv", "sentence,label", *rows)
        write_rows(f"{name}.conll", *["a B-A", "b O", "b O", ". O", ""] * 8)


@pytest.mark.medium
def test_run_classifier_weighs_the_loss_and_no_results():
    train = f"{CUSTOM} --do_train --do_eval"
    trained, eval_only = run_well(
        CLASSIFIER,
        f"{train} --do_predict --class_weights=neg=0",
        f"{CUSTOM} --do_eval --class_weights=neg=0",
    )
    assert "class weights: neg 0, pos 4." in trained.err
    assert "class_weights" not in newest("out", "weights.json").read_text()

    # Without a loss for neg, all predictions are pos. The results count neg as ever.
    rows = read_lines("out/predictions.jsonl")
    assert {row["predicted"] for row in rows} == {"pos"} and len(rows) == 16
    results = results_of("out")
    assert results["eval_accuracy"] == 0.25 and results["eval_loss"] > 0.7
    assert eval_only.out.splitlines()[:-1]
    assert "class weights" not in eval_only.err

    other, none = run_lines(CLASSIFIER, f"{train} --class_weights=balanced", train)
    assert_refused(
        other, "class_weights={'neg': 0.0}", "this run has --class_weights='balanced'"
    )
    assert_refused(
        none, "--class_weights={'neg': 0.0}, but this run has no --class_weights"
    )


@pytest.mark.medium
def test_run_ner_weighs_the_words():
    train = f"{BASE} --do_train --do_eval"
    (done,) = run_well(NER, f"{train} --do_predict --class_weights=O=0")
    assert "class weights: O 0, B-A 4, I-A 0." in done.err
    lines = pathlib.Path("out/predictions.conll").read_text().splitlines()
    assert {line.split()[-1] for line in lines if line} == {"B-A"}
    (unknown,) = run_lines(NER, f"{train} --class_weights=PER=2 --output_dir=new")
    assert_refused(
        unknown, "--class_weights has the label 'PER'", "Give labels of O, B-A, I-A."
    )
    assert not pathlib.Path("new").exists()
