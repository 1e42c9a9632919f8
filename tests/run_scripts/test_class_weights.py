"""--class_weights in run_classifier.py and run_ner.py."""

import pytest
from run_programs import (
    assert_refused,
    commands,
    newest,
    read_lines,
    results_of,
    run_main,
)
from tiny_bert import write_architecture

CLASSIFIER, NER = "bert_tf.run_scripts.run_classifier", "bert_tf.run_scripts.run_ner"
TRAIN = {"do_train": True, "do_eval": True}


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path)
    rows = ["a b,pos", "b,neg", "b a,neg", "b b,neg"] * 4
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.csv").write_text(
            "\n".join(["sentence,label", *rows]) + "\n"
        )
        (tmp_path / f"{name}.conll").write_text("a B-A\nb O\nb O\n. O\n\n" * 8)
    return tmp_path


command = commands(
    task_name="custom",
    max_seq_length=8,
    train_batch_size=4,
    num_train_epochs=4,
    learning_rate=3e-2,
    optimizer="adamw",
)


def test_run_classifier_weighs_the_loss_and_no_results(folder):
    first, other, none, only_pos, eval_only = run_main(
        CLASSIFIER,
        command(folder, **TRAIN, class_weights="balanced", num_train_epochs=1),
        command(folder, **TRAIN, class_weights="pos=3", num_train_epochs=1),
        command(folder, **TRAIN, num_train_epochs=1),
        command(
            folder,
            **TRAIN,
            do_predict=True,
            class_weights="neg=0",
            output_dir=folder / "p",
        ),
        command(folder, do_eval=True, class_weights="neg=0", output_dir=folder / "p"),
    )
    assert first.code == 0, first
    assert "class weights: neg 0.6667, pos 2." in first.err
    assert_refused(
        other, "class_weights='balanced'", "this run has --class_weights={'pos': 3.0}"
    )
    assert_refused(
        none, "--class_weights='balanced', but this run has no --class_weights"
    )
    assert "class_weights" not in newest(folder / "out", "weights.json").read_text()

    # Without a loss for neg, all predictions are pos. The results count neg as ever.
    assert only_pos.code == 0, only_pos
    rows = read_lines(folder / "p/predictions.jsonl")
    assert {row["predicted"] for row in rows} == {"pos"} and len(rows) == 16
    results = results_of(folder / "p")
    assert results["eval_accuracy"] == 0.25 and results["eval_loss"] > 0.7
    assert eval_only.code == 0 and eval_only.out.splitlines()[:-1]
    assert "class weights" not in eval_only.err


def test_run_ner_weighs_the_words(folder):
    done, unknown = run_main(
        NER,
        command(folder, task_name=None, **TRAIN, do_predict=True, class_weights="O=0"),
        command(
            folder,
            task_name=None,
            **TRAIN,
            class_weights="PER=2",
            output_dir=folder / "new",
        ),
    )
    assert done.code == 0, done
    assert "class weights: O 0, B-A 4, I-A 0." in done.err
    lines = (folder / "out/predictions.conll").read_text().splitlines()
    assert {line.split()[-1] for line in lines if line} == {"B-A"}
    assert_refused(
        unknown, "--class_weights has the label 'PER'", "Give labels of O, B-A, I-A."
    )
    assert not (folder / "new").exists()
