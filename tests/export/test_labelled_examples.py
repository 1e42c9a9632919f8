"""The dev examples that a run stores, and the metric that an export compares."""

import hashlib
import json
import os
import pathlib

import export_models
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import squad_data
import tensorflow as tf
from model_file_checks import FILES, extra_file, need_packages, report_of
from reference import conlleval
from reference import squad as oracle
from refusals import refused
from tables_of_rows import write_rows

import bert_tf
from bert_tf.export import api, check, dev_examples
from bert_tf.export.served import load_served
from bert_tf.export.serving_settings import ServingSettings
from bert_tf.runs import dev_split
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.splits import RowCounts
from bert_tf.tasks.task import DEV_EXAMPLES, DataLocation

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "é", "Ž"]
LABELS = export_models.LABELS


def rows_of(kind, count, seed=1):
    """Returns labelled examples for a kind of model, as JSON values."""
    rng = np.random.default_rng(seed)

    def text(longest=20):
        return " ".join(rng.choice(WORDS, rng.integers(0, longest)))

    rows = []
    for _ in range(count):
        row = {name: text() for name in export_models.text_names(kind)}
        if kind == "span":
            row["context"] = f"a  b {text(60)}"
            row["answers"] = [] if rng.random() < 0.3 else ["b", row["context"][:5]]
        elif kind == "tagging":
            count_of_words = rng.integers(1, 30)
            row = {
                "tokens": rng.choice(WORDS, count_of_words).tolist(),
                "tags": rng.choice(export_models.TAGS, count_of_words).tolist(),
            }
        elif kind == "choice":
            row["choices"] = [
                f"{word} {text()}" for word in WORDS[: rng.integers(2, 8)]
            ]
            row["label"] = int(rng.integers(len(row["choices"])))
        elif kind == "regression":
            row["label"] = float(rng.normal())
        elif kind == "multi_label":
            row["label"] = [label for label in LABELS if rng.random() < 0.5]
        else:
            row["label"] = str(rng.choice(LABELS))
        rows.append(row)
    return rows


def metric_of(kind, outputs, rows):
    """Returns the metric by other libraries, in percent."""
    labels = [row.get("label") for row in rows]
    if kind == "span":
        paragraphs = [
            {
                "qas": [
                    {
                        "id": str(n),
                        "answers": [{"text": text} for text in row["answers"]],
                    }
                ]
            }
            for n, row in enumerate(rows)
        ]
        answers = {str(n): text.decode() for n, text in enumerate(outputs["answer"])}
        return "f1", oracle.metrics_v2({"data": [{"paragraphs": paragraphs}]}, answers)[
            "f1"
        ]
    if kind == "regression":
        correlation = scipy.stats.spearmanr(outputs["score"], labels).statistic
        return "spearman", 100 * correlation
    if kind == "multi_label":
        # 0.4 is the threshold of the model.
        true = [[name in row for name in LABELS] for row in labels]
        f1 = sklearn.metrics.f1_score(
            true, outputs["probabilities"] >= 0.4, average="micro"
        )
        return "micro_f1", 100 * f1
    if kind == "tagging":
        pairs = [
            (row["tags"], [tag.decode() for tag in tags[: len(row["tags"])]])
            for row, tags in zip(rows, outputs["tags"], strict=True)
        ]
        return "f1", conlleval.overall(conlleval.count(pairs))[2]
    if kind == "choice":
        return "accuracy", 100 * sklearn.metrics.accuracy_score(
            labels, outputs["index"]
        )
    found = [text.decode() for text in outputs["label"]]
    return "accuracy", 100 * sklearn.metrics.accuracy_score(labels, found)


@pytest.mark.parametrize(
    "kind",
    export_models.slow_except(
        "classification", medium=["span"], kinds=export_models.KINDS[:7]
    ),
)
def test_the_metric_of_stored_examples_is_reported(tmp_path, kind):
    export_models.write_checkpoint(kind, tmp_path)
    rows = rows_of(kind, 70)
    write_rows(tmp_path / kind / DEV_EXAMPLES, rows)
    folder = export_models.export(kind, tmp_path)
    report = report_of(folder)["metric"]
    card = extra_file(folder, "model_card.md")
    stored = (tmp_path / kind / DEV_EXAMPLES).read_bytes()
    assert hashlib.sha256(stored).hexdigest() in card and tf.__version__ in card
    model = tf.saved_model.load(folder)
    signature = model.signatures["words" if kind == "tagging" else "serving_default"]
    names = export_models.text_names(kind)
    columns = {name: [row[name] for row in rows] for name in names if name in rows[0]}
    if kind == "tagging":
        columns = {"words": [row["tokens"] for row in rows]}
    for name in {"words", "choices"} & set(columns):
        columns[name] = tf.ragged.constant(columns[name]).to_tensor()
    name, value = metric_of(kind, export_models.call(signature, **columns), rows)
    assert 0 < abs(value) < 100
    assert report["name"] == name and report["num_examples"] == 70
    assert report["exported"] == pytest.approx(value, abs=1e-4)
    assert report["model"] == pytest.approx(value, abs=1e-4)
    labels = [str(row.get("label")) for row in rows]
    constant = 100 * max(map(labels.count, labels)) / 70 if name == "accuracy" else None
    assert report["baseline"] == pytest.approx(constant)


@pytest.mark.parametrize(
    ("task", "name", "metric"),
    [
        ("cola", "matthews_correlation", sklearn.metrics.matthews_corrcoef),
        ("mrpc", "f1", sklearn.metrics.f1_score),
        ("sst-2", "accuracy", sklearn.metrics.accuracy_score),
        ("custom", "accuracy", sklearn.metrics.accuracy_score),
    ],
)
def test_a_task_of_glue_has_the_metric_that_selects_its_weights(task, name, metric):
    model = bert_tf.BertClassifier(export_models.CONFIG, num_labels=2, seed=3)
    tokenizer = bert_tf.BertTokenizer(export_models.VOCABULARY)
    facts = {
        "task": task,
        "task_type": "classification",
        "labels": ["0", "1"],
        "pair": False,
        "max_seq_length": 12,
    }
    served = export_models.served(model, tokenizer, **facts)
    predicted = np.array([0, 1, 1, 0, 1, 1])
    outputs = {
        "probabilities": np.eye(2, dtype=np.float32)[predicted],
        "label": np.array([b"0", b"1"], object)[predicted],
    }
    correct = [0, 1, 0, 1, 1, 1]
    expected = 100 * metric(correct, predicted)
    found = served.metric(outputs, list(map(str, correct)))
    assert found == (name, pytest.approx(expected))


@pytest.mark.medium
def test_another_metric_is_refused_even_if_all_outputs_are_close_enough(
    tmp_path, monkeypatch
):
    data = write_rows(tmp_path / "dev.jsonl", rows_of("classification", 40))
    monkeypatch.setitem(check.LIMITS, "float32", check.Limits(np.inf, 100, 0.5))
    export_models.save_with_bias(monkeypatch, [9, 0, 0])
    message = r"has the accuracy .* on 40 examples .* Nothing was exported"
    with pytest.raises(check.ExportCheckError, match=message):
        export_models.export("classification", tmp_path, dev_data=data)
    assert not os.listdir(tmp_path / "served")


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        (
            "classification",
            {"text": "a", "label": "X"},
            "the label 'X' is not one of x",
        ),
        ("regression", {"text": "a", "label": "much"}, "Write a finite number"),
        (
            "span",
            {"question": "a", "context": "b", "answers": "b"},
            "must be a list of texts",
        ),
        (
            "choice",
            {"context": "a", "choices": ["b"], "label": 0},
            "line 2: at least two choices",
        ),
        ("embedding", {"text": "a"}, "have no metric"),
    ],
)
def test_malformed_examples_are_refused(tmp_path, kind, line, message):
    data = write_rows(tmp_path / "dev.jsonl", [*rows_of(kind, 1), line])
    with refused(message):
        export_models.export(kind, tmp_path, dev_data=data)
    assert not (tmp_path / "served").exists()


def test_columns_of_a_table_are_found_by_name(tmp_path):
    path, _ = export_models.write_checkpoint("pair", tmp_path)
    (tmp_path / "dev.tsv").write_text(
        "text_b\ttext_a\tlabel\nb c\ta\tx\n\té\tž\n", "utf-8"
    )
    found = list(
        load_served(bert_tf.load(path)).read_examples(str(tmp_path / "dev.tsv"))
    )
    assert found == [(("a", "b c"), "x"), (("é", ""), "ž")]


def test_version_1_needs_answers_and_files_of_squad_are_read(tmp_path):
    facts = {**export_models.SPAN_FACTS, "version_2_with_negative": False}
    model, _ = export_models.model_of("span")
    path = export_models.save(model, tmp_path / "span", **facts)
    served = load_served(bert_tf.load(path))
    row = {"question": "a", "context": "b", "answers": []}
    with refused("must be a list of texts"):
        list(served.read_examples(write_rows(tmp_path / "dev.jsonl", [row])))
    known = {
        "id": "1",
        "question": "who?",
        "answers": [{"text": "a b", "answer_start": 0}],
    }
    paragraph = {
        "context": "a  b c",
        "qas": [known, {"id": "2", "question": "unknown"}],
    }
    squad = squad_data.write(
        tmp_path / "dev.JSON", {"data": [{"paragraphs": [paragraph]}]}
    )
    assert list(served.read_examples(str(squad))) == [(("who?", "a  b c"), ("a b",))]


def test_stored_examples_are_used_for_the_own_task_only(tmp_path, without_export_check):
    kind = "classification"
    export_models.write_checkpoint(kind, tmp_path)
    write_rows(tmp_path / kind / DEV_EXAMPLES, [{"text": "a", "label": "none"}])
    with refused("the label 'none'"):
        export_models.export(kind, tmp_path)
    export_models.export(kind, tmp_path, task="embedding")
    with refused("task must be classification, for which"):
        export_models.export(kind, tmp_path, "other", task="regression")


@pytest.mark.parametrize(
    "format",
    ["saved_model", *(pytest.param(f, marks=pytest.mark.medium) for f in FILES)],
)
def test_an_export_has_texts_of_the_data_only_on_request(
    tmp_path, without_export_check, format
):
    if format in FILES:
        need_packages(format)
    path, _ = export_models.write_checkpoint("classification", tmp_path)
    settings = ServingSettings(format=format)
    served = str(tmp_path / "served")
    with refused("example_texts=2 needs a run for the task classification"):
        api.export(path, served, settings, example_texts=2)

    # The word is not in the vocabulary.
    rows = [{"text": f"a qzxwjq{n}", "label": LABELS[n // 4]} for n in range(8)]
    write_rows(pathlib.Path(path, DEV_EXAMPLES), rows)
    for count, expected in ((0, []), (3, [0, 4, 1])):
        version = api.export(path, served, settings, example_texts=count)
        paths = [each for each in pathlib.Path(version).rglob("*") if each.is_file()]
        with_texts = [each for each in paths if b"qzxwjq" in each.read_bytes()]
        assert [each.name for each in with_texts] == ["examples.jsonl"] * bool(count)
        lines = [line for each in with_texts for line in each.read_text().splitlines()]
        assert [json.loads(line) for line in lines] == [rows[n] for n in expected]


def test_more_examples_than_there_are_are_all_in_order_of_the_labels(tmp_path):
    rows = [{"text": f"{n}", "label": LABELS[n // 4]} for n in range(8)]
    path = write_rows(tmp_path / DEV_EXAMPLES, rows)
    found = dev_examples.read(path, 20)
    assert [*found] == [rows[n] for n in (0, 4, 1, 5, 2, 6, 3, 7)]


def store(folder, task, examples):
    chosen = sorted(dev_split.choose_examples(len(examples)))
    dev_split.write_examples(
        str(folder), [task.as_row(examples[number]) for number in chosen]
    )


@pytest.mark.parametrize("count", [3, 256, 1000])
def test_stored_examples_are_raw_and_spread_over_the_split(tmp_path, count):
    rows = [
        {"sentence": f" {n}  É\u2028 ", "label": LABELS[n % 3]} for n in range(count)
    ]
    data = tmp_path / "dev.jsonl"
    write_rows(data, rows)
    location = DataLocation(dev_file=str(data))
    task = custom_task(TextColumns(), labels=LABELS)
    (split,) = task.splits("dev", location)
    store(tmp_path, task, list(task.read(split, RowCounts())))
    lines = (tmp_path / DEV_EXAMPLES).read_text("utf-8").split("\n")
    stored = [json.loads(line) for line in lines[:-1]]
    assert len(stored) == min(count, 256)
    numbers = [int(row["text"].split()[0]) for row in stored]
    assert numbers[0] == 0 and numbers[-1] == count - 1
    gaps = np.diff(numbers)
    assert not len(gaps) or 1 <= gaps.min() <= gaps.max() <= gaps.min() + 1
    expected = [
        {"text": rows[n]["sentence"], "label": rows[n]["label"]} for n in numbers
    ]
    assert stored == expected


def test_stored_questions_have_the_original_context(tmp_path):
    data = squad_data.random_data(seed=2, count=9, version_2=True)
    path = squad_data.write(tmp_path / "dev.json", data)
    tokenizer, _ = squad_data.tokenizers(True)
    task = squad_data.make_task(tokenizer, {}, {"version_2_with_negative": True})
    (split,) = task.splits("dev", DataLocation(test_file=str(path)))
    store(tmp_path, task, list(task.read(split, RowCounts())))
    lines = (tmp_path / DEV_EXAMPLES).read_text("utf-8").split("\n")[:-1]
    paragraphs = [each for article in data["data"] for each in article["paragraphs"]]
    expected = [
        {"question": qa["question"], "context": each["context"],
         "answers": [answer["text"] for answer in qa["answers"]]}
        for each in paragraphs for qa in each["qas"]
    ]  # fmt: skip
    assert [json.loads(line) for line in lines] == json.loads(
        json.dumps(expected).replace("\\ud800", "?")
    )
