"""`Predictor` and predict.py: decoded predictions, batches, tables, refused input."""

import concurrent.futures
import csv
import datetime
import gzip
import json
import pathlib
import shutil

import export_models
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf
from run_programs import assert_refused, run_main
from tensorflow.core.protobuf import saved_model_pb2

import bert_tf

TEXTS = ["a b c", "", "c " * 40, "h", "a b c", "zz é 猫", "e f\tg"]


def outputs_of(folder, *columns):
    """Returns the outputs of the signature for one row at a time."""
    model = tf.saved_model.load(folder)
    signature = model.signatures["serving_default"]
    names = export_models.text_names(folder.split("/")[-3])
    rows = zip(*columns, strict=True)
    inputs = [dict(zip(names, ([text] for text in row), strict=True)) for row in rows]
    found = [
        signature(**{n: tf.constant(t) for n, t in each.items()}) for each in inputs
    ]
    return [{name: value.numpy()[0] for name, value in each.items()} for each in found]


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_labels_come_best_first_in_the_order_of_the_texts(exported, batch_size):
    predictor = bert_tf.Predictor(exported("classification"), batch_size)
    assert predictor.names == ("text",)
    found = predictor(TEXTS)
    for each, expected in zip(
        found, outputs_of(exported("classification"), TEXTS), strict=True
    ):
        assert (
            each["label"]
            == expected["label"].decode()
            == next(iter(each["probabilities"]))
        )
        values = list(each["probabilities"].values())
        assert values == sorted(values, reverse=True)
        by_label = [each["probabilities"][label] for label in export_models.LABELS]
        np.testing.assert_allclose(by_label, expected["probabilities"], atol=1e-5)
        assert each["probability"] == values[0]
    assert predictor([]) == []
    assert predictor(TEXTS[0])["label"] == found[0]["label"]


def test_each_kind_is_decoded(exported):
    second = TEXTS[::-1]
    pairs = bert_tf.Predictor(exported("pair"))(TEXTS, second)
    for each, expected in zip(
        pairs, outputs_of(exported("pair"), TEXTS, second), strict=True
    ):
        assert each["label"] == expected["label"].decode()
    several = bert_tf.Predictor(exported("multi_label"))(TEXTS)
    for each in several:  # a label contains a comma
        chosen = {name for name, value in each["probabilities"].items() if value >= 0.4}
        assert set(each["labels"]) == chosen
    scores = bert_tf.Predictor(exported("regression"))(TEXTS)
    expected = [each["score"] for each in outputs_of(exported("regression"), TEXTS)]
    np.testing.assert_allclose([each["score"] for each in scores], expected, atol=1e-5)
    vectors = bert_tf.Predictor(exported("embedding"))(TEXTS)
    expected = [each["embedding"] for each in outputs_of(exported("embedding"), TEXTS)]
    np.testing.assert_allclose(
        [each["embedding"] for each in vectors], expected, atol=1e-5
    )
    predictor = bert_tf.Predictor(exported("span"))
    assert predictor.names == ("question", "context")
    questions = ["a b"] * len(TEXTS)
    answers = predictor(questions, TEXTS)
    names = [
        "answer",
        "start",
        "end",
        "score",
        "probability",
        "no_answer",
        "null_score_diff",
    ]
    assert list(answers[0]) == names
    for each, wanted, text in zip(
        answers, outputs_of(exported("span"), questions, TEXTS), TEXTS, strict=True
    ):
        assert each["answer"] == wanted["answer"].decode()
        assert text.encode()[each["start"] : each["end"]].decode() == each["answer"]
        assert each["no_answer"] == (each["answer"] == "")
    masks = bert_tf.Predictor(exported("fill_mask"))(
        ["a [MASK] b [MASK]", "a", "[MASK]"]
    )
    assert [len(each["masks"]) for each in masks] == [2, 0, 1]
    for mask in masks[0]["masks"]:
        values = list(mask["probabilities"].values())
        assert values == sorted(values, reverse=True) and len(values) == 10


def test_masks_after_the_longest_sequence_are_reported(exported, caplog):
    predictor = bert_tf.Predictor(exported("fill_mask"))
    texts = ["[MASK] " * 300, "a [MASK] b"]
    found = predictor(texts)
    answers = sum(len(each["masks"]) for each in found)
    assert 1 < answers < 301
    message = f"warning: {301 - answers} of 301 [MASK] have no prediction"
    assert message in caplog.text
    caplog.clear()
    predictor(texts[1])
    bert_tf.Predictor(exported("classification"))(texts)
    assert not caplog.text


def test_threads_get_the_answers_of_one_thread(exported):
    predictor = bert_tf.Predictor(exported("classification"))
    requests = [["a b c"[: 1 + number % 5]] * (1 + number % 3) for number in range(40)]
    expected = [predictor(each) for each in requests]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(predictor, requests))
    for a, b in zip(expected, found, strict=True):
        assert [each["label"] for each in a] == [each["label"] for each in b]


def test_a_changed_graph_is_refused_unless_it_is_trusted(exported, tmp_path):
    folder = shutil.copytree(exported("classification"), tmp_path / "copy")
    model = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    model.meta_graphs[0].meta_info_def.tensorflow_version = "1"
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    with pytest.raises(
        bert_tf.InputError, match=r"saved_model\.pb was changed after the export"
    ):
        bert_tf.Predictor(folder)
    assert bert_tf.Predictor(folder, trust=True)("a")["label"] in export_models.LABELS


def test_wrong_input_is_refused(exported):
    predictor, pairs = (
        bert_tf.Predictor(exported(kind)) for kind in ("classification", "pair")
    )
    cases = {
        "takes a list of texts for each of text. Received: 2 values": (
            predictor,
            (["a"], ["b"]),
        ),
        "text_a, text_b. Received: 1 values of the types list": (pairs, (["a"],)),
        "the same number of texts. Received: 1 and 2": (pairs, (["a"], ["b", "c"])),
        "A text must be a str. Received: 5": (predictor, ([5],)),
    }
    for message, (call, texts) in cases.items():
        with pytest.raises(bert_tf.InputError, match=message):
            call(*texts)
    assert predictor(["\ud800 a"])[0]["label"]  # a lone surrogate


def test_the_program_prints_the_predictions_of_each_kind(exported):
    texts = TEXTS[:-1]  # without a tab
    given = [f"--text={text}" for text in texts]
    labels, number, by_flags, by_lines, masks, vector, scores = run_main(
        "bert_tf.run_scripts.predict",
        [f"--model={exported('multi_label')}", *given],
        [f"--model={exported('regression')}", *given, "--batch_size=2"],
        [f"--model={exported('span')}", "--question=a b", "--context=c d e f"],
        [f"--model={exported('span')}", "--text=a b ||| c d e f", "--format=jsonl"],
        [f"--model={exported('fill_mask')}", "--text=a [MASK] b"],
        [f"--model={exported('embedding')}", "--text=a", "--format=jsonl"],
        [
            f"--model={exported('fill_mask')}",
            "--score",
            "--text=a b c",
            "--format=text",
        ],
    )
    several = [
        each["labels"] for each in bert_tf.Predictor(exported("multi_label"))(texts)
    ]
    lines = [
        f"{';'.join(each)}\t{text}" for each, text in zip(several, texts, strict=True)
    ]
    assert labels.out.splitlines() == lines  # a label contains a comma
    served = [
        each["labels"].decode() for each in outputs_of(exported("multi_label"), texts)
    ]
    assert served == [line.rpartition("\t")[0] for line in lines]
    card = pathlib.Path(
        exported("multi_label"), "assets.extra/model_card.md"
    ).read_text()
    assert "| separator of several labels | semicolon |\n" in card
    rows = [line.split("\t") for line in number.out.splitlines()]
    expected = [
        each["score"] for each in bert_tf.Predictor(exported("regression"))(texts)
    ]
    np.testing.assert_allclose([float(score) for score, _ in rows], expected, atol=1e-4)
    assert [text for _, text in rows] == texts
    answer = json.loads(by_lines.out)
    assert (
        by_flags.out
        == f"{answer['answer']}\t{answer['probability']:.4f}\ta b ||| c d e f\n"
    )
    token, text = masks.out.rstrip("\n").split("\t")
    assert text == "a [MASK] b" and float(token.split(" ")[1]) <= 1
    assert len(json.loads(vector.out)["embedding"]) == 8
    score, num_tokens, text = scores.out.rstrip("\n").split("\t")
    assert float(score) < 0 and (num_tokens, text) == ("3", "a b c")


def test_other_signatures_of_texts_can_be_called(exported):
    scores = bert_tf.Predictor(exported("fill_mask"), signature="score")(TEXTS)
    model = tf.saved_model.load(exported("fill_mask"))
    expected = model.signatures["score"](text=tf.constant(TEXTS))
    columns = (expected[name] for name in ("score", "num_tokens"))
    for each, score, count in zip(scores, *columns, strict=True):
        assert each == {
            "score": pytest.approx(float(score), abs=1e-4),
            "num_tokens": int(count),
        }
    tagger = bert_tf.Predictor(exported("tagging"), signature="words")
    (short, empty, long) = tagger([["a", "é"], [], ["b"] * 30])
    assert [len(each["tags"]) for each in (short, empty, long)] == [2, 0, 30]
    assert tagger(["b"] * 30)["tags"] == long["tags"]
    with pytest.raises(
        bert_tf.InputError, match=r"signature 'ids' .* It has: serving_def"
    ):
        bert_tf.Predictor(exported("classification"), signature="ids")


def test_a_table_keeps_its_columns_and_its_format(exported, tmp_path):
    texts = TEXTS[:-1]  # a cell of a .tsv file cannot contain a tab
    rows = [{"id": f"x{n}", "text": text, "label": "?"} for n, text in enumerate(texts)]
    model = f"--model={exported('classification')}"
    expected = [
        each["label"] for each in bert_tf.Predictor(exported("classification"))(texts)
    ]
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows), tmp_path / "in.parquet"
    )
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for ending, dialect in ((".csv", "excel"), (".tsv", "excel-tab")):
        with open(tmp_path / f"in{ending}", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), dialect=dialect)
            writer.writeheader(), writer.writerows(rows)
    endings = ("csv", "tsv", "jsonl", "parquet")
    results = run_main(
        "bert_tf.run_scripts.predict",
        *(
            [
                model,
                f"--input_file={tmp_path}/in.{ending}",
                f"--output_file={tmp_path}/out.{ending}",
            ]
            for ending in endings
        ),
        [model, f"--input_file={tmp_path}/in.csv"],
    )
    assert [each.code for each in results] == [0] * 5, results
    assert results[-1].out == (tmp_path / "out.csv").read_text()
    with open(tmp_path / "out.csv", newline="") as file:
        tables = {"csv": list(csv.DictReader(file))}
    with open(tmp_path / "out.tsv", newline="") as file:
        tables["tsv"] = list(
            csv.DictReader(file, dialect="excel-tab", quoting=csv.QUOTE_NONE)
        )
    tables["jsonl"] = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    tables["parquet"] = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for table in tables.values():
        assert [{name: each[name] for name in rows[0]} for each in table] == rows
        assert [each["predicted_label"] for each in table] == expected
        assert all(0 < float(each["probability"]) <= 1 for each in table)


def test_tables_of_other_forms(exported, tmp_path):
    model = f"--model={exported('classification')}"
    expected = [
        each["label"]
        for each in bert_tf.Predictor(exported("classification"))(["é", "h"])
    ]
    (tmp_path / "rows.txt").write_bytes("1,é\n2,h,,\n".encode("latin-1"))
    (tmp_path / "in.jsonl.gz").write_bytes(
        gzip.compress('{"text": "é"}\n{"text": "h"}'.encode())
    )
    (tmp_path / "lines.txt").write_bytes("é\nh\n".encode("utf-16"))
    numbers = ["--input_format=csv", "--header=false", "--text_a_column=1"]
    rows, packed, lines, refused = run_main(
        "bert_tf.run_scripts.predict",
        [model, f"--input_file={tmp_path}/rows.txt", *numbers, "--encoding=latin-1"],
        [model, f"--input_file={tmp_path}/in.jsonl.gz"],
        [model, f"--input_file={tmp_path}/lines.txt", "--encoding=utf-16"],
        [model, f"--input_file={tmp_path}/rows.txt", *numbers],
    )
    assert rows.code == packed.code == lines.code == 0, (
        rows.err,
        packed.err,
        lines.err,
    )
    cells = list(csv.reader(rows.out.splitlines()))
    assert [row[:3] for row in cells] == [
        ["1", "é", expected[0]],
        ["2", "h", expected[1]],
    ]
    records = [json.loads(line) for line in packed.out.splitlines()]
    assert [row["text"] for row in records] == ["é", "h"]
    assert [row["label"] for row in records] == expected
    assert [line.split("\t")[0] for line in lines.out.splitlines()] == expected
    assert_refused(refused, "rows.txt is not UTF-8", "such as --encoding=latin-1")


def test_values_of_a_table_that_differ_from_row_to_row_are_kept(exported, tmp_path):
    """A date, bytes, and tokens of [MASK] that the first batch does not have."""
    when = datetime.datetime(2020, 1, 2)
    rows = [
        {"text": text, "when": when, "raw": b"\xff", "masks": 1}
        for text in ("a [MASK]", "b")
    ]
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows * 600), tmp_path / "in.parquet"
    )
    flags = [f"--model={exported('fill_mask')}", f"--input_file={tmp_path}/in.parquet"]
    lines, table, other = run_main(
        "bert_tf.run_scripts.predict",
        [*flags, "--format=jsonl"],
        [*flags, f"--output_file={tmp_path}/out.parquet"],
        [*flags, f"--output_file={tmp_path}/out.csv"],
    )
    assert lines.code == table.code == 0, (lines.err, table.err)
    assert_refused(other, "out.csv would be a .parquet table")
    found = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [{name: each[name] for name in rows[0]} for each in found] == rows * 600
    expected = [json.loads(line)["predicted_masks"] for line in lines.out.splitlines()]
    assert [json.loads(each["predicted_masks"]) for each in found] == expected
    assert expected[1] == [] and len(expected[0][0]["probabilities"]) > 1


def test_columns_of_a_table_are_named_or_found(exported, tmp_path):
    (tmp_path / "pairs.jsonl").write_text(
        '{"q": "a b", "context": "c d e f", "n": 1}\n'
    )
    (tmp_path / "wrong.csv").write_text("x,y\na,b\n")
    choices = [{"c": "a", "one": "b", "two": "c"}, {"c": "b", "one": "", "two": "a"}]
    (tmp_path / "choices.csv").write_text(
        "c,one,two\n" + "".join(",".join(row.values()) + "\n" for row in choices)
    )
    span, choice = f"--model={exported('span')}", f"--model={exported('choice')}"
    pair, best, wrong, text = run_main(
        "bert_tf.run_scripts.predict",
        [span, f"--input_file={tmp_path}/pairs.jsonl", "--text_a_column=q"],
        [choice, f"--input_file={tmp_path}/choices.csv", "--text_a_column=c",
         "--text_b_column=one,two"],
        [span, f"--input_file={tmp_path}/wrong.csv"],
        [span, "--text=a ||| b", "--text_a_column=q"],
    )  # fmt: skip
    answer = json.loads(pair.out)
    assert (answer["n"], answer["q"]) == (1, "a b") and "answer" in answer, pair
    lines = list(csv.DictReader(best.out.splitlines()))
    assert [line["choice"] for line in lines][1] == "a" and lines[0]["choice"] in (
        "b",
        "c",
    )
    assert_refused(
        wrong, "has no column 'question' (--text_a_column), 'context' (--text_b_column)"
    )
    assert_refused(text, "--text_a_column and --text_b_column are for tables")
