"""run_classifier.py with the flags of its tasks: files, dev sets, other runs."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from run_programs import (
    assert_refused,
    commands,
    newest,
    read_lines,
    results_of,
    run_main,
)
from tiny_bert import VOCABULARY, write_architecture

import bert_tf

GOLDEN = pathlib.Path(__file__).parent.parent / "golden/huggingface"
MODULE = "bert_tf.run_scripts.run_classifier"
NLI = ["contradiction", "entailment", "neutral"]


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "MNLI").mkdir()
    (tmp_path / "AX").mkdir()
    for name, count in (
        ("train", 24), ("dev_matched", 6), ("dev_mismatched", 9), ("test_matched", 4),
        ("test_mismatched", 5),
    ):  # fmt: skip
        header = ["index", "sentence1", "sentence2"]
        header += [] if name.startswith("test") else ["gold_label"]
        lines = ["\t".join(header)]
        for number in range(count):
            texts = [" ".join(rng.choice(["a", "b", "bc"], 3)) for _ in range(2)]
            label = [] if name.startswith("test") else [NLI[number % 3]]
            lines.append("\t".join([str(number), *texts, *label]))
        (tmp_path / "MNLI" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    lines = ["index\tsentence1\tsentence2", "0\ta b\tb a", "1\ta\tb"]
    (tmp_path / "AX/AX.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


command = commands(
    task_name="mnli", max_seq_length=8, train_batch_size=4, num_train_epochs=1
)


def test_mnli_has_two_dev_sets_and_its_run_predicts_ax(folder):
    everything = {"do_train": True, "do_eval": True, "do_predict": True}
    mnli, ax, other, again = run_main(
        MODULE,
        command(folder, **everything, learning_rate=1e-4),
        # The model, its vocabulary and its length are those of the run.
        [
            f"--output_dir={folder}/out",
            f"--data_dir={folder}",
            "--task_name=AX",
            "--do_predict",
        ],
        command(
            folder, task_name="rte", do_predict=True, test_file=folder / "AX/AX.tsv"
        ),
        command(
            folder,
            init_checkpoint=folder / "out",
            output_dir=folder / "again",
            do_train=True,
        ),
    )
    assert mnli.code == 0, mnli
    assert "learning_rate=0.0001 is high for the released optimizer" in mnli.err
    out = folder / "out"
    results = results_of(out)
    names = "eval_accuracy eval_loss loss global_step eval_accuracy_mismatched"
    assert {*names.split()} <= results.keys()
    assert results["global_step"] == 6
    for name, count in (
        ("test_results.tsv", 4),
        ("test_results_mismatched.tsv", 5),
        ("test_results_ax.tsv", 2),
        ("MNLI-m.tsv", 5),
        ("MNLI-mm.tsv", 6),
        ("AX.tsv", 3),
    ):
        assert len((out / name).read_text().splitlines()) == count, name
    assert ax.code == 0, ax
    # RTE has other labels.
    assert_refused(other, "was trained with", "labels=")
    assert again.code == 0, again
    assert "The head is that of" in again.err and "is high for" not in again.err


def test_a_trained_run_gives_the_defaults_for_predictions(folder):
    rows = ["sentence,label", *('a b,"x,y"', "b,x", "a,") * 4]
    (folder / "topics.csv").write_text("\n".join(rows) + "\n")
    flags = {"task_name": "custom", "data_dir": None}
    train = {
        "train_file": folder / "topics.csv",
        "dev_file": folder / "topics.csv",
        "do_train": True,
        "do_eval": True,
        "task_type": "multi_label",
        "threshold": 0.3,
    }
    rest = ["--task_name=custom", f"--predict_file={folder}/topics.csv", "--do_predict"]
    trained, same, elsewhere, other_threshold = run_main(
        MODULE,
        command(folder, **flags, **train),
        [*rest, f"--output_dir={folder}/out"],
        [*rest, f"--output_dir={folder}/new", f"--init_checkpoint={folder}/out"],
        [*rest, f"--output_dir={folder}/out", "--threshold=0.999"],
    )
    for each in (trained, same, elsewhere, other_threshold):
        assert each.code == 0, each
    assert "have the same content" in trained.err
    assert f"--checkpoint={folder}/out " in elsewhere.out
    assert len(read_lines(folder / "new/predictions.jsonl")) == 12
    strict = read_lines(folder / "out/predictions.jsonl")
    assert all(line["predicted"] == [] for line in strict)


def test_a_folder_of_hugging_face_predicts_the_labels_of_its_config(tmp_path):
    model = shutil.copytree(GOLDEN / "sequence_classification", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    config["id2label"] = {"0": "bad", "1": "fair", "2": "good"}
    (model / "config.json").write_text(json.dumps(config))
    words = [*VOCABULARY, *(f"w{number}" for number in range(150 - len(VOCABULARY)))]
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "test.csv").write_text("sentence\na b w9\nw30 w17\n")
    (done,) = run_main(
        MODULE,
        ["--task_name=custom", "--do_predict=true", f"--init_checkpoint={model}",
         f"--predict_file={tmp_path}/test.csv", f"--output_dir={tmp_path}/out",
         "--max_seq_length=16"],
    )  # fmt: skip
    assert done.code == 0, done
    rows = read_lines(tmp_path / "out/predictions.jsonl")
    loaded = bert_tf.load(model)
    inputs = loaded.tokenizer.encode([row["sentence"] for row in rows], seq_length=16)
    best = np.argmax(loaded.model(bert_tf.BertClassifier)(inputs)["logits"], -1)
    assert [row["predicted"] for row in rows] == [
        ("bad", "fair", "good")[i] for i in best
    ]


def test_more_epochs_and_examples_are_refused_by_the_names_of_their_flags(folder):
    (trained,) = run_main(
        MODULE,
        command(folder, do_train=True, max_train_examples=8),
    )
    assert trained.code == 0, trained.err
    epochs, examples, misspelled = run_main(
        MODULE,
        command(folder, do_train=True, max_train_examples=8, num_train_epochs=2),
        command(folder, do_train=True, max_train_examples=12),
        [f"--output_dir={folder}/new", "--task_name=MRPCC", "--do_train=true"],
    )
    assert_refused(
        epochs,
        "num_train_steps=2, but this run has num_train_steps=4, "
        "which --num_train_epochs",
        "To train its model further, give another --output_dir and "
        f"--init_checkpoint={folder}/out",
    )
    assert_refused(
        examples, "--max_train_examples=8, but this run has --max_train_examples=12."
    )
    assert_refused(misspelled, "'mrpcc' is not one of cola", "Did you mean mrpc?")


def test_tables_of_other_forms_are_named_by_flags(folder, test_data):
    source = test_data / "data/public_cases/unnamed_columns_latin1.csv"
    (folder / "rows.txt").write_bytes(source.read_bytes().split(b"\n", 1)[1])
    own = {
        "task_name": "custom",
        "data_dir": None,
        "do_train": True,
        "train_batch_size": 2,
    }
    columns = {"train_file": source, "text_a_column": "v2", "label_column": "v1"}
    numbers = {
        "train_file": folder / "rows.txt",
        "text_a_column": "1",
        "label_column": "0",
    }
    refused, trained, other, unnamed, glue = run_main(
        MODULE,
        command(folder, **own, **columns),
        command(
            folder,
            **own,
            **columns,
            encoding="latin-1",
            do_predict=True,
            test_file=source,
        ),
        command(folder, **own, **columns, encoding="cp1250"),
        command(
            folder,
            **own,
            **numbers,
            input_format="csv",
            encoding="latin-1",
            header=False,
            check_only=True,
            output_dir=folder / "unnamed",
        ),
        command(folder, task_name="mnli", do_train=True, header=False),
    )
    assert_refused(
        refused, "is not UTF-8", "give its encoding, such as --encoding=latin-1"
    )
    assert trained.code == 0, trained.err
    rows = read_lines(folder / "out/predictions.jsonl")
    for row, expected in zip(
        rows, [["Go, now", "ham"], ["Win 10 £", "spam"]], strict=True
    ):
        assert all(value in row.values() for value in expected), row
    assert_refused(other, "contains a run with training examples of the content=")
    assert unnamed.code == 0 and "Flags and data are valid." in unnamed.out, unnamed.err
    assert_refused(glue, "--encoding, --header are for --task_name=custom")


def test_one_table_is_split_by_a_hash_of_its_texts(folder):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["a", "b", "bc"], 6)) for _ in range(150)]
    rows = [("id", "sentence", "label")]
    rows += [
        (f"{n}", text, "xy"["bc" in text])
        for n, text in enumerate([*texts, *texts[:50]])
    ]
    (folder / "all.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    flags = {
        "task_name": "custom", "data_dir": None, "train_file": folder / "all.csv",
        "do_train": True, "do_eval": True, "do_predict": True,
    }  # fmt: skip
    shares = {"eval_fraction": 0.2, "test_fraction": 0.3}
    refused = {**flags, **shares, "output_dir": folder / "x"}
    done, other, both, too_much, glue, missing = run_main(
        MODULE,
        command(folder, **flags, **shares),
        command(folder, **flags, eval_fraction=0.3, test_fraction=0.3),
        command(folder, **refused, dev_file="d.csv"),
        command(folder, **{**refused, "eval_fraction": 0.5, "test_fraction": 0.5}),
        command(folder, do_train=True, eval_fraction=0.1),
        command(folder, **refused, text_a_column="t", label_column="l"),
    )
    assert done.code == 0, done.err
    predicted = read_lines(folder / "out/predictions.jsonl")
    tested = {row["sentence"] for row in predicted}
    # All rows of a text are in the same split, and keep their other columns.
    expected = [(n, text) for n, text, _ in rows[1:] if text in tested]
    assert [(row["id"], row["sentence"]) for row in predicted] == expected
    assert 0.15 < len(tested) / len(set(texts)) < 0.45
    sizes = [
        len(list(tf.data.TFRecordDataset(str(folder / f"out/{name}.tf_record"))))
        for name in ("train", "eval", "predict")
    ]
    assert sum(sizes) == 200 and 15 < sizes[1] < 70
    (alone,) = run_main(
        MODULE,
        [
            f"--output_dir={folder}/out",
            "--task_name=custom",
            f"--train_file={folder}/all.csv",
            "--test_fraction=0.3",
            "--do_predict=true",
        ],
    )
    assert alone.code == 0, alone.err
    again = read_lines(folder / "out/predictions.jsonl")
    assert [row["id"] for row in again] == [row["id"] for row in predicted]
    assert_refused(other, "contains a run with training examples of the content=")
    assert_refused(both, "--eval_fraction and --dev_file give the same split")
    assert_refused(
        too_much, "must be at least 0, and less than 1 together. Received: 0.5 and 0.5."
    )
    assert_refused(glue, "are for --task_name=custom")
    assert_refused(missing, "has no column 't' (--text_a_column), 'l' (--label_column)")


def labels_of(run):
    return json.loads(newest(run, "weights.json").read_text())["labels"]


def test_labels_that_are_numbers_have_the_order_of_numbers_or_of_a_model(folder):
    labels = ("1", "2", "10")
    rows = [("id", "review", "stars")]
    rows += [
        (f"{number}", "a b bc"[: 1 + number % 6], labels[number % 3])
        for number in range(24)
    ]
    (folder / "stars.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    flags = {
        "task_name": "custom", "data_dir": None, "train_file": folder / "stars.csv",
        "text_a_column": "review", "label_column": "stars", "do_train": True,
    }  # fmt: skip
    other = {**flags, "output_dir": folder / "other"}
    known = {**flags, "vocab_file": None, "bert_config_file": None}
    results = run_main(
        MODULE,
        command(folder, **flags, do_predict=True, predict_file=folder / "stars.csv"),
        command(folder, **other, labels="10,1,2", stop_at_step=2),
        command(folder, **other),
        command(
            folder,
            **known,
            init_checkpoint=folder / "other",
            output_dir=folder / "further",
        ),
        command(
            folder,
            **known,
            teacher=folder / "other",
            init_layers="0",
            output_dir=folder / "student",
        ),
    )
    assert [each.code for each in results] == [0] * 5, results
    assert labels_of(folder / "out") == ["1", "2", "10"]
    assert "test_results.tsv has a column for each label, in this order: 1, 2, 10." in (
        results[0].err
    )
    # The file has labels, so its predictions have metrics.
    predicted = read_lines(folder / "out/predictions.jsonl")
    assert [(row["id"], row["review"], row["stars"]) for row in predicted] == rows[1:]
    assert [*predicted[0]] == ["id", "review", "stars", "predicted", "probability"]
    columns = np.loadtxt(folder / "out/test_results.tsv").argmax(axis=1)
    assert [labels[column] for column in columns] == [
        row["predicted"] for row in predicted
    ]
    accuracy = np.mean([row["predicted"] == row["stars"] for row in predicted])
    scores = results_of(folder / "out", "test_results.txt")
    assert scores["test_accuracy"] == pytest.approx(accuracy)
    assert {"test_loss", "test_macro_f1", "global_step"} <= scores.keys()
    assert (folder / "out/test_report.txt").read_text().startswith("accuracy ")
    assert f"custom: accuracy {accuracy:.4f} on the test split" in results[0].out

    for name in ("other", "further", "student"):
        assert labels_of(folder / name) == ["10", "1", "2"], name
    assert "The head is that of" in results[3].err


def test_a_metric_without_a_definition_is_no_reason_for_another_learning_rate(folder):
    (folder / "topics.csv").write_text("sentence,label\n" + "a b,x\nb,\n" * 8)
    (folder / "none.csv").write_text("sentence,label\na,\nb,\n")
    (folder / "scores.csv").write_text("sentence,label\n" + "a b,1\nb,2.5\n" * 8)
    (folder / "equal.csv").write_text("sentence,label\na,2\nb,2\n")
    flags = {"task_name": "custom", "data_dir": None, "do_train": True, "do_eval": True}
    cases = [
        ("multi_label", "topics", "none", "has no label, so micro_f1 is not defined"),
        (
            "regression",
            "scores",
            "equal",
            "has equal scores, so spearman is not defined",
        ),
    ]
    results = run_main(
        MODULE,
        *(
            command(
                folder,
                **flags,
                task_type=task_type,
                train_file=folder / f"{train}.csv",
                dev_file=folder / f"{dev}.csv",
                output_dir=folder / task_type,
            )
            for task_type, train, dev, _ in cases
        ),
    )
    for done, (task_type, _, dev, words) in zip(results, cases, strict=True):
        assert done.code == 0, done
        assert (
            f"{dev}.csv {words}" in done.err and "lower learning rate" not in done.err
        )
        assert (
            json.loads((folder / task_type / "results.json").read_text())["baseline"]
            is None
        )
