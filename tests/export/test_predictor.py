"""`Predictor` and predict.py: decoded predictions, batches, tables, refused input."""

import concurrent.futures
import csv
import datetime
import gzip
import json
import os
import shutil
import signal
import threading

import export_models
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import tensorflow as tf
from model_file_checks import check_predictions, extra_file, saved_model
from model_file_checks import predictor as predictor_of
from refusals import refused
from run_programs import assert_refused, read_lines, run_main, run_mains
from tables_of_rows import write_rows
from tensorflow.core.protobuf import saved_model_pb2

import bert_tf

TEXTS = ["a b c", "", "c " * 40, "h", "a [MASK] c", "zz é 猫", "[MASK] e f\tg [MASK]"]
PREDICT = "bert_tf.run_scripts.predict"


def decoded(kind, outputs):
    """Returns the prediction for the outputs of one text."""
    values = {
        name: value.decode() if isinstance(value, bytes) else value.tolist()
        for name, value in outputs.items()
    }
    if kind == "fill_mask":
        masks = zip(outputs["tokens"].tolist(), values["probabilities"], strict=True)
        pairs = [([token.decode() for token in each], p) for each, p in masks]
        best = [dict(zip(*pair, strict=True)) for pair in pairs]
        return {"masks": [{"probabilities": each} for each in best]}
    if kind == "choice":
        return {**values, "probability": max(values["probabilities"], default=0.0)}
    if kind == "tagging":
        lists = {
            name: [each.decode() if isinstance(each, bytes) else each for each in value]
            for name, value in values.items()
        }
        names = ("entities", "entity_types", "entity_start", "entity_end")
        rows = zip(*(lists.pop(name) for name in names), strict=True)
        keys = ("text", "type", "start", "end")
        return {
            "entities": [dict(zip(keys, row, strict=True)) for row in rows],
            **lists,
        }
    if "probabilities" not in values:
        return values

    by_label = dict(zip(export_models.LABELS, values["probabilities"], strict=True))
    best = dict(sorted(by_label.items(), key=lambda pair: -pair[1]))
    if kind == "multi_label":  # a label contains a comma
        labels = [label for label in by_label if by_label[label] >= 0.4]
        assert values["labels"] == ";".join(labels)
        return {"labels": labels, "probabilities": best}
    label = values["label"]
    return {"label": label, "probability": by_label[label], "probabilities": best}


@export_models.EACH_KIND
def test_predictions_are_the_decoded_outputs_of_each_text(exported, kind):
    predictor = predictor_of(exported(kind))
    assert list(predictor.names) == export_models.text_names(kind)
    columns = export_models.inputs_of(kind, TEXTS)
    if kind == "choice":
        columns["choices"] = [*export_models.CHOICES, [], ["", ""]]
        assert predictor.list_names == ("choices",)
    found = predictor(*columns.values())
    by_two = predictor_of(exported(kind), batch_size=2)
    check_predictions(by_two(*columns.values()), found, 1e-5)

    model = saved_model(exported(kind))
    rows = list(zip(*columns.values(), strict=True))
    for row, prediction in zip(rows, found, strict=True):
        inputs = {name: [text] for name, text in zip(columns, row, strict=True)}
        if row[-1] == []:
            inputs["choices"] = tf.zeros([1, 0], tf.string)
        outputs = export_models.call(model.signatures["serving_default"], **inputs)
        expected = decoded(kind, {name: value[0] for name, value in outputs.items()})
        if kind not in ("span", "tagging"):  # see test_text_limit.py
            expected["truncated"] = prediction["truncated"]
        check_predictions(prediction, expected, 1e-5)
        if isinstance(expected.get("probabilities"), dict):
            assert list(prediction["probabilities"]) == list(expected["probabilities"])
    check_predictions(predictor(*rows[0]), found[0], 1e-5)
    assert predictor(*([] for _ in columns)) == []


def test_an_answer_has_its_values_in_order(exported):
    assert list(predictor_of(exported("span"))("a", "b c")) == [
        "answer", "start", "end", "score", "probability", "no_answer", "null_score_diff",
    ]  # fmt: skip


def test_masks_after_the_longest_sequence_are_reported(exported, caplog):
    predictor = predictor_of(exported("fill_mask"))
    texts = ["[MASK] " * 300, "a [MASK] b"]
    found = predictor(texts)
    answers = sum(len(each["masks"]) for each in found)
    assert 1 < answers < 301
    message = f"warning: {301 - answers} of 301 [MASK] have no prediction"
    assert message in caplog.text
    caplog.clear()
    predictor(texts[1])
    predictor_of(exported("classification"))(texts)
    assert not caplog.text


def test_threads_get_the_answers_of_one_thread(exported):
    predictor = predictor_of(exported("classification"))
    requests = [["a b c"[: 1 + number % 5]] * (1 + number % 3) for number in range(40)]
    expected = [predictor(each) for each in requests]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(predictor, requests))
    check_predictions(found, expected)


def test_a_process_that_was_forked_from_one_with_a_model_is_refused(exported):
    path = exported("classification")
    predictor = bert_tf.Predictor(path)
    for call in (lambda: predictor("a"), lambda: bert_tf.Predictor(path)):
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # TensorFlow would wait forever
            code = 1
            try:
                with refused("after the fork: gunicorn"):
                    call()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


def test_a_changed_graph_is_refused_unless_it_is_trusted(exported, tmp_path):
    folder = shutil.copytree(exported("classification"), tmp_path / "copy")
    model = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    model.meta_graphs[0].meta_info_def.tensorflow_version = "1"
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    with refused(r"saved_model\.pb was changed after the export"):
        bert_tf.Predictor(folder)
    assert bert_tf.Predictor(folder, trust=True)("a")["label"] in export_models.LABELS


@pytest.mark.parametrize(
    ("kind", "texts", "message"),
    [
        ("classification", [["a"], ["b"]], "for each of text. Received: 2 values"),
        ("classification", [[5]], "A text must be a str. Received: 5"),
        ("span", [["a"]], "question, context. Received: 1 values of the types list"),
        ("span", [["a"], ["b", "c"]], "the same number of texts. Received: 1 and 2"),
        (
            "choice",
            [["a"]],
            r"context, choices \(a list of lists\). Received: 1 values",
        ),
        ("choice", ["a", "b"], "types str, str"),
        ("choice", [["a"], ["b"]], "must be a list of str. Received: 'b'"),
    ],
)
def test_wrong_input_is_refused(exported, kind, texts, message):
    with refused(message):
        predictor_of(exported(kind))(*texts)


def test_a_lone_surrogate_is_accepted(exported):
    assert predictor_of(exported("classification"))(["\ud800 a"])[0]["label"]


@pytest.mark.medium
def test_the_program_prints_the_predictions_of_each_kind(exported):
    texts = TEXTS[:-1]  # without a tab
    given = [f"--text={text}" for text in texts]
    label, labels, number, by_flags, by_lines, masks, vector, scores = run_main(
        PREDICT,
        [f"--model={exported('classification')}/..", *given],
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
    best = predictor_of(exported("classification"))(texts)
    truncated = sum(each["truncated"] for each in best)
    assert f"warning: {truncated} of {len(texts)} texts have more than" in label.err
    assert truncated and "warning" not in by_flags.err
    for line, each in zip(label.out.splitlines(), best, strict=True):
        name, probability, _ = line.split("\t")
        assert name == each["label"]
        assert float(probability) == pytest.approx(each["probability"], abs=1e-4)
    several = [each["labels"] for each in predictor_of(exported("multi_label"))(texts)]
    lines = [
        f"{';'.join(each)}\t{text}" for each, text in zip(several, texts, strict=True)
    ]
    assert labels.out.splitlines() == lines  # a label contains a comma
    card = extra_file(exported("multi_label"), "model_card.md")
    assert "| separator of several labels | semicolon |\n" in card
    rows = [line.split("\t") for line in number.out.splitlines()]
    expected = [each["score"] for each in predictor_of(exported("regression"))(texts)]
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


def test_predict_reads_pipes_and_names_the_line_with_invalid_utf8(exported, tmp_path):
    model = f"--model={exported('classification')}"
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(
        target=(tmp_path / "pipe").write_bytes, args=[b"a b\nc\n"]
    )
    writer.start()
    (read,) = run_mains([(PREDICT, [model])], stdin=tmp_path / "pipe")
    writer.join()
    assert read.code == 0, read.err
    assert [line.split("\t")[-1] for line in read.out.splitlines()] == ["a b", "c"]
    (tmp_path / "latin").write_bytes("a\r\n\nb\ncafé".encode("latin-1"))
    (latin,) = run_mains([(PREDICT, [model])], stdin=tmp_path / "latin")
    assert_refused(latin, "stdin is not UTF-8: byte 0xe9 in line 4.")


@pytest.mark.medium
def test_other_signatures_of_texts_can_be_called(exported):
    scores = predictor_of(exported("fill_mask"), signature="score")(TEXTS)
    model = saved_model(exported("fill_mask"))
    columns = export_models.call(model.signatures["score"], text=TEXTS)
    rows = zip(
        *(columns[name].tolist() for name in ("score", "num_tokens")), strict=True
    )
    expected = [{"score": score, "num_tokens": count} for score, count in rows]
    is_long = [False, False, True, False, False, False, False]
    assert [each.pop("truncated") for each in scores] == is_long
    check_predictions(scores, expected)
    tagger = bert_tf.Predictor(exported("tagging"), signature="words")
    (short, empty, long) = tagger([["a", "é"], [], ["b"] * 30])
    assert [len(each["tags"]) for each in (short, empty, long)] == [2, 0, 30]
    assert tagger(["b"] * 30)["tags"] == long["tags"]
    with refused(r"signature 'ids' .* It has: serving_def"):
        bert_tf.Predictor(exported("classification"), signature="ids")


def labels_of(exported, texts):
    predictor = predictor_of(exported("classification"))
    return [each["label"] for each in predictor(texts)]


def test_a_table_keeps_its_columns_and_its_format(exported, tmp_path):
    texts = TEXTS[:-1]  # a cell of a .tsv file cannot contain a tab
    rows = [{"id": f"x{n}", "text": text, "label": "?"} for n, text in enumerate(texts)]
    model = f"--model={exported('classification')}"
    expected = labels_of(exported, texts)
    endings = ("csv", "tsv", "jsonl", "parquet")
    for ending in endings:
        write_rows(tmp_path / f"in.{ending}", rows)
    results = run_main(
        PREDICT,
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
    tables["jsonl"] = read_lines(tmp_path / "out.jsonl")
    tables["parquet"] = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for table in tables.values():
        assert [{name: each[name] for name in rows[0]} for each in table] == rows
        assert [each["predicted_label"] for each in table] == expected
        assert all(0 < float(each["probability"]) <= 1 for each in table)


@pytest.mark.medium
def test_tables_of_other_forms(exported, tmp_path):
    model = f"--model={exported('classification')}"
    expected = labels_of(exported, ["é", "h"])
    (tmp_path / "rows.txt").write_bytes("1,é\n2,h,,\n".encode("latin-1"))
    (tmp_path / "in.jsonl.gz").write_bytes(
        gzip.compress('{"text": "é"}\n{"text": "h"}'.encode())
    )
    (tmp_path / "lines.txt").write_bytes("é\nh\n".encode("utf-16"))
    numbers = ["--input_format=csv", "--header=false", "--text_a_column=1"]
    rows, packed, lines, latin = run_main(
        PREDICT,
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
    assert_refused(latin, "rows.txt is not UTF-8", "such as --encoding=latin-1")


@pytest.mark.medium
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
        PREDICT,
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


@pytest.mark.medium
def test_columns_of_a_table_are_named_or_found(exported, tmp_path):
    row = {"q": "a b", "context": "c d e f", "n": 1}
    write_rows(tmp_path / "pairs.jsonl", [row])
    (tmp_path / "wrong.csv").write_text("x,y\na,b\n")
    choices = [{"c": "a", "one": "b", "two": "c"}, {"c": "b", "one": "", "two": "a"}]
    write_rows(tmp_path / "choices.csv", choices)
    span, choice = f"--model={exported('span')}", f"--model={exported('choice')}"
    pair, best, wrong, text = run_main(
        PREDICT,
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
