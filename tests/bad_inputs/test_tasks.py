"""Hostile data files and flags of the fine-tuning programs end in one line with the file."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from ner_data import make_task
from run_programs import assert_refused, run_mains

from bert_tf.errors import InputError
from bert_tf.run_scripts.sweeps.plan import make_plan
from bert_tf.run_scripts.sweeps.store import SweepStore
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.sources.glue import glue_task
from bert_tf.tasks.classification.sources.xnli import xnli
from bert_tf.tasks.squad import ensemble
from bert_tf.tasks.squad.best_answers import AnswerSettings
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import DataLocation

COLUMNS = TextColumns("s")
TASKS = {
    "labels": custom_task(COLUMNS, labels=["a", "b"]),
    "scores": custom_task(COLUMNS, "regression"),
    "topics": custom_task(COLUMNS, "multi_label", ["a", "b"]),
    "sst-2": glue_task("sst-2"),
    "mrpc": glue_task("mrpc"),
    "cola": glue_task("cola"),
    "sts-b": glue_task("sts-b"),
    "xnli": xnli("en"),
    "swag": ChoiceTask(),
    "ner": make_task(),
    "squad": SquadTask(make_task().tokenizer),
}
UTF_16 = "s\tlabel\nx\ta\n".encode("utf-16-le")
MRPC = b"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
STSB = b"sentence1\tsentence2\tscore\n"
XNLI = b"language\tgold_label\tsentence1\tsentence2\n"
SWAG = b"sent1,sent2,ending0,ending1,label\n"
DEEP = b"[" * 99_999
LARGE = b"x" * 30_000_000


def squad(context=b'"a b"', answers=b'[{"text": "a", "answer_start": 0}]', more=b""):
    """Returns a file with one question."""
    question = b'{"id": "1", "question": "who", "answers": ' + answers + more + b"}"
    paragraph = b'{"context": ' + context + b', "qas": [' + question + b"]}"
    return b'{"data": [{"paragraphs": [' + paragraph + b"]}]}"


# The task, the name of a file, its contents, and words of the message.
REFUSED = [
    # Rows of another width than the header line, and repeated names
    ("labels", "train.tsv", b"s\tlabel\nx\ta\tb\n", "line 2: 3 fields, but the header line has 2"),
    ("labels", "train.csv", b"s,label\nx,a\ny,b,c\n", "line 3: 3 fields, but the header line"),
    ("labels", "train.csv", b"label,s,more\na,x\n", "line 2: 2 fields, but the header line has 3"),
    ("labels", "dev.csv", b"s,label,s\nx,a,y\n", "several columns 's'"),
    ("swag", "dev.csv", SWAG + b"a,b,c,d,0,1\n", "line 2: 6 fields, but the header line has 5"),
    ("sst-2", "train.tsv", b"sentence\tlabel\nx\t1\t0\n", "line 2: 3 fields, but the header line"),
    ("sst-2", "dev.tsv", b"sentence\tlabel\tlabel\nx\t1\t0\n", "several columns 'label'"),
    ("mrpc", "train.tsv", MRPC + b"1\t2\t3\tx\ty\tz\n", "line 2: 6 fields, but the header line"),
    ("cola", "dev.tsv", b"i\t1\t*\tx\ni\t1\t*\tx\ty\n", "line 2: 5 fields, but the file has 4"),
    ("xnli", "dev.tsv", XNLI + b"en\tneutral\tx\ty\tz\n", "line 2: 5 fields, but the header line"),
    # Labels
    ("labels", "train.tsv", b"s\tlabel\nx\t \n", "line 2: column 'label' is empty"),
    ("sst-2", "train.tsv", b"sentence\tlabel\nx\t\n", "line 2: the label '' is not one of 0, 1"),
    ("swag", "train.csv", SWAG + b"a,b,c,d,\n", "line 2 has no label"),
    ("topics", "dev.jsonl", b'{"s": "x", "label": ["a", ""]}', "line 1: column 'label' is empty"),
    ("scores", "train.tsv", b"s\tlabel\nx\tnan\n", "line 2: column 'label' has 'nan'"),
    ("sts-b", "train.tsv", STSB + b"x\ty\tnan\n", "line 2: the score 'nan' is not a number"),
    ("labels", "train.tsv", b"s\tlabel\nx\ta\n", "All labels in", "are 'a'"),
    # JSON lines
    ("labels", "train.jsonl", b'{"s": {"t": 1}, "label": "a"}', "'s' has a value of type dict"),
    ("labels", "train.jsonl", b'{"s": "x", "s": "y", "label": "a"}', "line 1", "key 's' occurs"),
    ("labels", "train.jsonl", b'{"s": "\\ud800", "label": "a"}', "line 1", "a lone surrogate"),
    ("labels", "train.jsonl", b'{"s": "x", "label": "\\udc00"}', "line 1", "a lone surrogate"),
    ("swag", "train.jsonl", b'{"context": "a", "context": "b"}', "the key 'context' occurs twice"),
    ("swag", "train.jsonl", b'{"context": "a", "choices": ["b", true], "label": 0}', "choice 1"),
    ("swag", "train.jsonl", b'{"context": "a", "choices": ["b", "c"], "label": true}', "bel True"),
    ("swag", "train.jsonl", b'{"context": "\\udfff", "choices": ["b", "c"]}', "a lone surrogate"),
    ("ner", "train.jsonl", b'{"tokens": ["a"], "tokens": ["b"]}', "the key 'tokens' occurs twice"),
    ("ner", "train.jsonl", b'{"tokens": ["\\ud800"], "tags": ["O"]}', "a lone surrogate"),
    ("ner", "dev.jsonl", b'{"tokens": ["a", 1], "tags": ["O", "O"]}', "must be a list of texts"),
    ("ner", "dev.jsonl", b'{"text": "a b", "entities": [{"start": 0, "end": 9, "label": "X"}]}',
     "0 <= start < end <= 3"),
    ("ner", "dev.jsonl", b'{"text": "a", "entities": [{"start": 0, "end": 1, "label": "X"}, '
     b'{"start": 0, "end": 1, "label": "Y"}]}', "overlaps another entity"),
    # Text in other encodings and with other line ends
    ("labels", "train.tsv", UTF_16, "train.tsv is UTF-16LE", "iconv -f UTF-16LE"),
    ("labels", "train.csv", b"s,label\nx,a\ny\0,b\n", "line 3 contains a NUL character"),
    ("labels", "train.jsonl", UTF_16, "train.jsonl is UTF-16LE"),
    ("sst-2", "train.tsv", b"sentence\tlabel\nx\0\t1\n", "line 2 contains a NUL character"),
    ("ner", "train.conll", "a B-X\n".encode("utf-16-le"), "train.conll is UTF-16LE"),
    ("labels", "train.tsv", b"s\tlabel\rx\ta\ry\tb\r", "has the line ends CR, not LF"),
    ("labels", "train.csv", b"s,label\rx,a\ry,b\r", "has the line ends CR, not LF"),
    ("ner", "train.conll", b"a\tB-X\rb\tO\r\ra\tO\r", "has the line ends CR, not LF"),
    ("swag", "train.csv", SWAG.replace(b"\n", b"\r") + b"a,b,c,d,0", "has the line ends CR"),
    # Structure
    ("labels", "train.csv", b's,label\nx,a\n"' + LARGE, "line 3 is not CSV", "end of data"),
    ("labels", "train.tsv", b"", "train.tsv is empty"),
    ("labels", "train.parquet", b"PAR1" + b"\0" * 100, "cannot be read as Parquet"),
    ("swag", "train.csv", b"", "train.csv is empty"),
    ("sst-2", "train.tsv", b"", "train.tsv is empty"),
    ("ner", "dev.conll", b"a B-X\nb\n", "line 2 has 1 column"),
    ("ner", "dev.conll", b"a B-X\nb -X\n", "line 2: the tag '-X' is malformed"),
    # SQuAD
    ("squad", "train.json", b"", "train.json is not JSON"),
    ("squad", "train.json", b'{"data": 1, "data": []}', "the key 'data' occurs twice"),
    ("squad", "train.json", squad(context=b'"\\ud800"'), "has a lone surrogate"),
    ("squad", "train.json", squad(context=b"true"), "'context' must be a text. Received: true"),
    ("squad", "train.json", squad(more=b', "is_impossible": "no"'), "must be true or false"),
]  # fmt: skip


def read(task, path):
    kind = path.name.split(".")[0]
    location = DataLocation(train_file=str(path), dev_file=str(path), test_file=str(path))
    (split, *_) = task.splits(kind, location)
    split.source.fingerprint()
    return list(task.read(split, Counter()))


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: f"{row[0]}-{row[1]}-{row[3][:30]}")
def test_files_are_refused_with_their_name(tmp_path, row):
    task, name, contents, *words = row
    path = tmp_path / name
    path.write_bytes(contents)
    with pytest.raises(InputError) as error:
        read(TASKS[task], path)
    message = str(error.value)
    assert "\n" not in message and len(message) < 600
    for word in (str(path), *words):
        assert word in message, message


@pytest.mark.parametrize(
    "contents",
    [b"[]", b"{}", b'{"1": [{"text": "a", "probability": true}]}', DEEP, b'{"1": [], "1": []}'],
    ids=["list", "empty", "bool", "deep", "twice"],
)
def test_nbest_files_are_refused_with_their_name(tmp_path, contents):
    path = tmp_path / "nbest_predictions.json"
    path.write_bytes(contents)
    with pytest.raises(InputError, match=r"nbest_predictions\.json"):
        ensemble.average([str(path)], str(tmp_path / "out"), AnswerSettings())
    assert not (tmp_path / "out").exists()


VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "."]
CONFIG = {
    "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2,
}  # fmt: skip
CLASSIFIER = {"task_name": "custom", "data_dir": "data", "text_a_column": "s"}
SQUAD = {"max_query_length": "2", "data_dir": "data"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for name in ("data", "both", "glue"):
        (tmp_path / name).mkdir()
    for path in ("data/train.csv", "both/train.csv", "both/train.tsv"):
        (tmp_path / path).write_text("s,label\n" + "a b,a\nb,b\n" * 4)
    (tmp_path / "data/train.conll").write_text("a B-X\nb O\n\n")
    (tmp_path / "data/train-v1.1.json").write_bytes(squad())
    (tmp_path / "data/swag.csv").write_bytes(SWAG + b"a,b,c,d,0\n")
    (tmp_path / "glue/RTE.tsv").write_bytes(b"index\tprediction\n0\tentailment\tx\n")
    os.mkfifo(tmp_path / "pipe.csv")
    return tmp_path


def fine_tune(program, **flags):
    values = {
        "output_dir": "out", "vocab_file": "vocab.txt", "bert_config_file": "config.json",
        "max_seq_length": "8", "train_batch_size": "4", "num_train_epochs": "1",
        "do_train": "true", "check_only": "true", **flags,
    }  # fmt: skip
    return f"bert_tf.run_scripts.{program}", [f"--{name}={v}" for name, v in values.items()]


def classify(**flags):
    return fine_tune("run_classifier", **{**CLASSIFIER, **flags})


def sweep(*flags):
    words = ["run_classifier.py", *(f"--{name}={value}" for name, value in CLASSIFIER.items())]
    return "bert_tf.run_scripts.sweep", [*flags, "--", *words]


def submit(folder, output="out.zip"):
    flags = [f"--input_dirs={folder}", f"--output_file={output}"]
    return "bert_tf.run_scripts.make_glue_submission", flags


# The command, and words of the message.
COMMANDS = [
    (classify(num_train_epochs="nan"), "--num_train_epochs must be above 0", "Received: nan"),
    (classify(max_seq_length="2"), "--max_seq_length must be at least 3. Received: 2"),
    (classify(learning_rate="nan"), "--learning_rate must be above 0. Received: nan"),
    (classify(learning_rate="1e-300"), "--learning_rate must be from 1.17", "Received: 1e-300"),
    (classify(warmup_proportion="2"), "--warmup_proportion must be in [0, 1]. Received: 2.0"),
    (classify(warmup_proportion="nan"), "--warmup_proportion must be in [0, 1]. Received: nan"),
    (classify(max_train_examples="-1"), "--max_train_examples must be at least 0. Received: -1"),
    (classify(eval_batch_size="0"), "--eval_batch_size must be at least 1. Received: 0"),
    (classify(predict_batch_size="-1"), "--predict_batch_size must be at least 1. Received: -1"),
    (classify(head="bilstm", lstm_size="1000000000"), "--lstm_size must be from 2 to 8192"),
    (classify(head="bilstm", lstm_layers="1000000000"), "--lstm_layers must be from 1 to 20"),
    (classify(labels=""), "at least two different labels. Received: no labels"),
    (classify(labels="a,,b"), "labels has an empty label. Received: 'a,,b'"),
    (classify(task_type="multi_label", threshold="nan"),
     "threshold must be above 0 and below 1. Received: nan"),
    (classify(output_dir=""), "--output_dir= is not a folder"),
    (classify(output_dir="vocab.txt"), "--output_dir=vocab.txt is not a folder"),
    (classify(output_dir="http://host/out"), "http://host/out is in a file system that TensorFlow"),
    (classify(data_dir="both"), "both has several train files: train.tsv, train.csv"),
    (classify(train_file="pipe.csv"), "pipe.csv is a pipe or a device"),
    (classify(train_file="data"), "data", "must end in one of .tsv"),
    (classify(data_dir="", tfds_name="../../x:train"), "cannot load ../../x:train"),
    (fine_tune("run_squad", **SQUAD, doc_stride="0"), "--doc_stride must be at least 1"),
    (fine_tune("run_squad", **SQUAD, n_best_size="-1"), "--n_best_size must be at least 1"),
    (fine_tune("run_squad", **SQUAD, max_answer_length="0"), "--max_answer_length must be at"),
    (fine_tune("run_squad", data_dir="data", max_query_length="-1"), "--max_query_length must be"),
    (fine_tune("run_squad", data_dir="data", max_query_length="5"), "--max_query_length + 3 = 8"),
    (classify(init_checkpoint=""), "--init_checkpoint is empty"),
    (classify(init_head="true"), "--init_head needs --init_checkpoint"),
    (classify(label_separator=";"), "--label_separator has no effect without --task_type"),
    (classify(xnli_language="de"), "--xnli_language has no effect without --task_name=xnli"),
    (classify(tfds_data_dir="data"), "--tfds_data_dir has no effect without --tfds_name"),
    (classify(export_dir="out"), "--export_dir=out would contain files of the run"),
    (classify(export_dir="out/best/x"), "--export_dir=out/best/x would contain files of the run"),
    (classify(export_dir="vocab.txt"), "vocab.txt"),
    (fine_tune("run_squad", **SQUAD, null_score_diff_threshold="nan"), "must be a number"),
    (sweep("--grid=learning_rate=1", "--output_dir=vocab.txt"), "vocab.txt is a file"),
    (submit("nowhere"), "nowhere contains no submission file"),
    (sweep("--grid=dev_file=a.csv,b.csv", "--output_dir=out"), "runs of one task on one dev split"),
    (submit(""), "input_dirs has an empty name. Received: ''"),
    (submit("glue"), "RTE.tsv, line 2: the index 0 and a prediction are required"),
    (submit("glue", "glue/RTE.tsv"), "RTE.tsv"),
]  # fmt: skip


def test_commands_are_refused_and_write_nothing(folder):
    before = sorted(folder.rglob("*"))
    results = run_mains([command for command, *_ in COMMANDS], cwd=folder, secs=60)
    for result, (_, *words) in zip(results, COMMANDS, strict=True):
        assert_refused(result, *words)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (classify(num_train_epochs="nan")[1], "--num_train_epochs must be above 0"),
        (classify(head="bilstm", lstm_size="7")[1], "--lstm_size must be even"),
        (classify(output_dir="vocab.txt")[1], "--output_dir=vocab.txt is not a folder"),
    ],
    ids=["epochs", "lstm_size", "output_dir"],
)
def test_flags_are_checked_before_tensorflow_is_imported(folder, flags, words):
    (folder / "tensorflow.py").write_text("raise RuntimeError('imported')\n")
    result = subprocess.run(
        [sys.executable, "-m", "bert_tf.run_scripts.run_classifier", *flags],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 2 and words in result.stderr and "imported" not in result.stderr


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("sweep.json", "{", "sweep.json is damaged"),
        ("sweep.json", "[]", "sweep.json is damaged"),
        ("outcomes/x.json", "[1]", "x.json is damaged"),
        ("runs/x/results.json", '{"task": "x"}', "is missing, unknown or null"),
        ("runs/x/results.json", "[" * 99_999, "results.json is damaged"),
    ],
)  # fmt: skip
def test_a_damaged_sweep_is_refused(tmp_path, name, contents, words):
    plan = make_plan(["learning_rate=1"], 1, str(tmp_path), ["run_classifier"])
    (run,) = plan.runs()
    (tmp_path / "sweep.lock").touch()
    path = tmp_path / name.replace("/x", f"/{run.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(contents)
    with pytest.raises(InputError) as error:
        store = SweepStore(plan)
        store.outcomes()
        store.record(run, 0, "")
    assert words.replace("x.json", f"{run.name}.json") in str(error.value)
    assert path.read_text() == contents
