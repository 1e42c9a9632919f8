"""run_classifier.py with the flags of its tasks: files, dev sets, other runs."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from json_files import read_json
from run_programs import (
    assert_each_refused,
    assert_refused,
    newest,
    read_lines,
    results_of,
    run_lines,
    run_well,
    write_rows,
)
from tiny_bert import CONFIG, VOCABULARY, write_architecture

import bert_tf

GOLDEN = pathlib.Path(__file__).parent.parent / "golden/huggingface"
MODULE = "bert_tf.run_scripts.run_classifier"
NLI = ["contradiction", "entailment", "neutral"]


MODEL = "--vocab_file=vocab.txt --bert_config_file=config.json"
SIZES = "--max_seq_length=8 --train_batch_size=4 --num_train_epochs=1"
CUSTOM = f"--task_name=custom {MODEL} {SIZES} --output_dir=out"
MNLI = f"--task_name=mnli --data_dir=. {MODEL} {SIZES} --output_dir=out"


@pytest.fixture(autouse=True)
def folder(here):
    write_architecture(here)


def write_nli():
    """Writes the files of MNLI and AX."""
    rng = np.random.default_rng(0)
    counts = {"train": 24, "dev_matched": 6, "dev_mismatched": 9}
    counts |= {"test_matched": 4, "test_mismatched": 5}
    pathlib.Path("MNLI").mkdir()
    pathlib.Path("AX").mkdir()
    for name, count in counts.items():
        rows = ["index\tsentence1\tsentence2\tgold_label"]
        for number in range(count):
            texts = [" ".join(rng.choice(["a", "b", "bc"], 3)) for _ in range(2)]
            rows.append("\t".join([str(number), *texts, NLI[number % 3]]))
        if name.startswith("test"):  # has no labels
            rows = [row.rpartition("\t")[0] for row in rows]
        write_rows(f"MNLI/{name}.tsv", *rows)
    write_rows("AX/AX.tsv", "index\tsentence1\tsentence2", "0\ta b\tb a", "1\ta\tb")


@pytest.mark.medium
def test_mnli_has_two_dev_sets_and_its_run_predicts_ax():
    write_nli()
    mnli, _, again = run_well(
        MODULE,
        f"{MNLI} --do_train --do_eval --do_predict --learning_rate=1e-4",
        # The model, its vocabulary and its length are those of the run.
        "--output_dir=out --data_dir=. --task_name=AX --do_predict",
        f"{MNLI} --init_checkpoint=out --output_dir=again --do_train --check_only",
    )
    assert "learning_rate=0.0001 is high for the released optimizer" in mnli.err
    results = results_of("out")
    names = "eval_accuracy eval_loss loss global_step eval_accuracy_mismatched"
    assert {*names.split()} <= results.keys()
    assert results["global_step"] == 6
    counts = {"test_results.tsv": 4, "test_results_mismatched.tsv": 5}
    counts |= {"test_results_ax.tsv": 2, "MNLI-m.tsv": 5, "MNLI-mm.tsv": 6, "AX.tsv": 3}
    for name, count in counts.items():
        assert len(pathlib.Path("out", name).read_text().splitlines()) == count, name
    assert "The head is that of" in again.err
    # RTE has other labels.
    (other,) = run_lines(
        MODULE, f"{MNLI} --task_name=rte --do_predict --test_file=AX/AX.tsv"
    )
    assert_refused(other, "was trained with", "labels=")


@pytest.mark.medium
def test_a_trained_run_gives_the_defaults_for_predictions():
    write_rows("topics.csv", "sentence,label", *('a b,"x,y"', "b,x", "a,") * 4)
    rest = "--task_name=custom --predict_file=topics.csv --do_predict"
    trained, elsewhere, _ = run_well(
        MODULE,
        f"{CUSTOM} --train_file=topics.csv --dev_file=topics.csv --do_train --do_eval "
        "--task_type=multi_label --threshold=0.3",
        f"{rest} --output_dir=new --init_checkpoint=out",
        f"{rest} --output_dir=out --threshold=0.999",
    )
    assert "have the same content" in trained.err
    assert "--checkpoint=out " in elsewhere.out
    assert len(read_lines("new/predictions.jsonl")) == 12
    strict = read_lines("out/predictions.jsonl")
    assert all(line["predicted"] == [] for line in strict)


def test_a_folder_of_hugging_face_predicts_the_labels_of_its_config():
    labels = ["bad", "fair", "good"]
    shutil.copytree(GOLDEN / "sequence_classification", "model")
    config = {**read_json("model/config.json"), "id2label": dict(enumerate(labels))}
    write_rows("model/config.json", json.dumps(config))
    words = [*VOCABULARY, *(f"w{number}" for number in range(150 - len(VOCABULARY)))]
    write_rows("model/vocab.txt", *words)
    write_rows("test.csv", "sentence", "a b w9", "w30 w17")
    run_well(
        MODULE,
        "--task_name=custom --do_predict --init_checkpoint=model "
        "--predict_file=test.csv --output_dir=out --max_seq_length=16",
    )
    rows, loaded = read_lines("out/predictions.jsonl"), bert_tf.load("model")
    inputs = loaded.tokenizer.encode([row["sentence"] for row in rows], seq_length=16)
    best = np.argmax(loaded.model(bert_tf.BertClassifier)(inputs)["logits"], -1)
    assert [row["predicted"] for row in rows] == [labels[index] for index in best]


@pytest.mark.medium
def test_more_epochs_and_examples_are_refused_by_the_names_of_their_flags():
    write_nli()
    (done,) = run_well(MODULE, f"{MNLI} --do_train --max_train_examples=8")
    assert "is high for" not in done.err  # the learning rate
    epochs, examples, misspelled = run_lines(
        MODULE,
        f"{MNLI} --do_train --max_train_examples=8 --num_train_epochs=2",
        f"{MNLI} --do_train --max_train_examples=12",
        "--output_dir=new --task_name=MRPCC --do_train",
    )
    assert_refused(
        epochs,
        "num_train_steps=2, but this run has num_train_steps=4, "
        "which --num_train_epochs",
        "To train its model further, give another --output_dir and "
        "--init_checkpoint=out",
    )
    assert_refused(
        examples, "--max_train_examples=8, but this run has --max_train_examples=12."
    )
    assert_refused(misspelled, "'mrpcc' is not one of cola", "Did you mean mrpc?")


@pytest.mark.medium
def test_tables_of_other_forms_are_named_by_flags(test_data):
    source = test_data / "data/public_cases/unnamed_columns_latin1.csv"
    pathlib.Path("rows.txt").write_bytes(source.read_bytes().split(b"\n", 1)[1])
    own = f"{CUSTOM} --do_train --train_batch_size=2"
    columns = f"{own} --train_file={source} --text_a_column=v2 --label_column=v1"
    _, unnamed = run_well(
        MODULE,
        f"{columns} --encoding=latin-1 --do_predict --test_file={source}",
        f"{own} --train_file=rows.txt --text_a_column=1 --label_column=0 --noheader "
        "--input_format=csv --encoding=latin-1 --check_only --output_dir=unnamed",
    )
    rows = read_lines("out/predictions.jsonl")
    for row, expected in zip(
        rows, [["Go, now", "ham"], ["Win 10 £", "spam"]], strict=True
    ):
        assert {*expected} <= {*row.values()}, row
    assert "Flags and data are valid." in unnamed.out
    assert "train (rows.txt): labels: ham 1, spam 1\n" in unnamed.err
    refused, other, glue = run_lines(
        MODULE, columns, f"{columns} --encoding=cp1250", f"{MNLI} --do_train --noheader"
    )
    assert_refused(
        refused, "is not UTF-8", "give its encoding, such as --encoding=latin-1"
    )
    assert_refused(other, "contains a run with training examples of the content=")
    assert_refused(glue, "--encoding, --header are for --task_name=custom")


@pytest.mark.medium
def test_one_table_is_split_by_a_hash_of_its_texts():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["a", "b", "bc"], 6)) for _ in range(150)]
    rows = [
        (f"{number}", text, "xy"["bc" in text])
        for number, text in enumerate([*texts, *texts[:50]])
    ]
    write_rows("all.csv", "id,sentence,label", *map(",".join, rows))
    train = f"{CUSTOM} --train_file=all.csv --do_train --do_eval --do_predict"
    shares = "--eval_fraction=0.2 --test_fraction=0.3"
    run_well(MODULE, f"{train} {shares}")
    predicted = read_lines("out/predictions.jsonl")
    tested = {row["sentence"] for row in predicted}
    # All rows of a text are in the same split, and keep their other columns.
    expected = [(number, text) for number, text, _ in rows if text in tested]
    assert [(row["id"], row["sentence"]) for row in predicted] == expected
    assert 0.15 < len(tested) / len(set(texts)) < 0.45
    sizes = [
        len(list(tf.data.TFRecordDataset(f"out/{name}.tf_record")))
        for name in ("train", "eval", "predict")
    ]
    assert sum(sizes) == 200 and 15 < sizes[1] < 70
    run_well(
        MODULE,
        "--output_dir=out --task_name=custom --train_file=all.csv --test_fraction=0.3 "
        "--do_predict",
    )
    again = read_lines("out/predictions.jsonl")
    assert [row["id"] for row in again] == [row["id"] for row in predicted]

    new = f"{train} {shares} --output_dir=x"
    cases = [
        (
            f"{train} --eval_fraction=0.3 --test_fraction=0.3",
            "contains a run with training examples of the content=",
        ),
        (
            f"{new} --dev_file=d.csv",
            "--eval_fraction and --dev_file give the same split",
        ),
        (
            f"{new} --eval_fraction=0.5 --test_fraction=0.5",
            "must be at least 0, and less than 1 together. Received: 0.5 and 0.5.",
        ),
        (f"{MNLI} --do_train --eval_fraction=0.1", "are for --task_name=custom"),
        (
            f"{new} --text_a_column=t --label_column=l",
            "has no column 't' (--text_a_column), 'l' (--label_column)",
        ),
    ]
    assert_each_refused(MODULE, "", cases)


@pytest.mark.slow
def test_labels_that_are_numbers_have_the_order_of_numbers_or_of_a_model():
    labels = ("1", "2", "10")
    rows = [(f"{n}", "a b bc"[: 1 + n % 6], labels[n % 3]) for n in range(24)]
    write_rows("stars.csv", "id,review,stars", *map(",".join, rows))
    data = "--train_file=stars.csv --text_a_column=review --label_column=stars"
    known = f"--task_name=custom {SIZES} {data} --do_train"
    first, _, _, further, _ = run_well(
        MODULE,
        f"{CUSTOM} {data} --do_train --do_predict --predict_file=stars.csv",
        f"{CUSTOM} {data} --do_train --output_dir=other --labels=10,1,2 "
        "--stop_at_step=2",
        f"{CUSTOM} {data} --do_train --output_dir=other",
        f"{known} --init_checkpoint=other --output_dir=further",
        f"{known} --teacher=other --init_layers=0 --output_dir=student",
    )
    orders = {"out": ["1", "2", "10"]}
    orders |= {name: ["10", "1", "2"] for name in ("other", "further", "student")}
    for name, order in orders.items():
        assert read_json(newest(name, "weights.json"))["labels"] == order, name
    assert "The head is that of" in further.err
    line = "test_results.tsv has a column for each label, in this order: 1, 2, 10."
    assert line in first.err

    # The file has labels, so its predictions have metrics.
    predicted = read_lines("out/predictions.jsonl")
    assert [(row["id"], row["review"], row["stars"]) for row in predicted] == rows
    assert [*predicted[0]] == ["id", "review", "stars", "predicted", "probability"]
    columns = np.loadtxt("out/test_results.tsv").argmax(axis=1)
    best = [labels[column] for column in columns]
    assert [row["predicted"] for row in predicted] == best
    accuracy = np.mean([row["predicted"] == row["stars"] for row in predicted])
    scores = results_of("out", "test_results.txt")
    assert scores["test_accuracy"] == pytest.approx(accuracy)
    assert {"test_loss", "test_macro_f1", "global_step"} <= scores.keys()
    assert pathlib.Path("out/test_report.txt").read_text().startswith("accuracy ")
    assert f"custom: accuracy {accuracy:.4f} on the test split" in first.out


def test_a_metric_without_a_definition_is_no_reason_for_another_learning_rate():
    write_rows("none.csv", "sentence,label", "a,", "b,")
    write_rows("equal.csv", "sentence,label", "a,2", "b,2")
    cases = [
        ("multi_label", ["x"], "none", "has no label, so micro_f1 is not defined"),
        ("regression", [], "equal", "has equal scores, so spearman is not defined"),
    ]
    for kind, labels, dev, words in cases:
        model = bert_tf.BertClassifier(bert_tf.BertConfig(**CONFIG), num_labels=1)
        tokenizer = bert_tf.BertTokenizer(VOCABULARY)
        facts = {"labels": labels, "task_type": kind}
        bert_tf.save_checkpoint(model, tokenizer, f"{kind}_model", **facts)
        (done,) = run_well(
            MODULE,
            f"--task_name=custom --do_eval --max_seq_length=8 --dev_file={dev}.csv "
            f"--init_checkpoint={kind}_model --output_dir={kind}",
        )
        assert f"{dev}.csv {words}" in done.err
        assert "lower learning rate" not in done.err
        assert read_json(f"{kind}/results.json")["baseline"] is None
