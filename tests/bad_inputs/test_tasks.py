"""Wrong data files and flags of the fine-tuning programs end in one line with the file."""

import subprocess
import sys
from collections import Counter

import pytest
from ner_data import make_task
from run_programs import as_flags, assert_refused, run_mains
from tiny_bert import write_architecture

from bert_tf.errors import InputError
from bert_tf.run_scripts.sweeps.plan import make_plan
from bert_tf.run_scripts.sweeps.store import SweepStore
from bert_tf.tasks.choice.choice_task import ChoiceTask
from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.sources.glue import glue_task
from bert_tf.tasks.classification.sources.xnli import xnli
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import DataLocation

COLUMNS = TextColumns("s")
TASKS = {
    "labels": custom_task(COLUMNS, labels=["a", "b"]),
    "scores": custom_task(COLUMNS, "regression"),
    "sst-2": glue_task("sst-2"),
    "cola": glue_task("cola"),
    "sts-b": glue_task("sts-b"),
    "xnli": xnli("en"),
    "swag": ChoiceTask(),
    "ner": make_task(),
    "squad": SquadTask(make_task().tokenizer),
}
UTF_16 = "s\tlabel\nx\ta\n".encode("utf-16-le")
STSB = b"sentence1\tsentence2\tscore\n"
XNLI = b"language\tgold_label\tsentence1\tsentence2\n"
SWAG = b"sent1,sent2,ending0,ending1,label\n"


def squad():
    """Returns a file with one question."""
    answers = b'[{"text": "a", "answer_start": 0}]'
    question = b'{"id": "1", "question": "who", "answers": ' + answers + b"}"
    paragraph = b'{"context": "a b", "qas": [' + question + b"]}"
    return b'{"data": [{"paragraphs": [' + paragraph + b"]}]}"


# The task, the name of a file, its contents, and words of the message.
REFUSED = [
    # Rows of another width than the header line, and repeated names
    ("labels", "train.tsv", b"s\tlabel\nx\ta\tb\n", "line 2: 3 fields, but the header line has 2"),
    ("labels", "train.csv", b"s,label\nx,a\ny,b,c\n", "line 3: 3 fields, but the header line"),
    ("labels", "dev.csv", b"s,label,s\nx,a,y\n", "several columns 's'"),
    ("swag", "dev.csv", SWAG + b"a,b,c,d,0,1\n", "line 2: 6 fields, but the header line has 5"),
    ("sst-2", "train.tsv", b"sentence\tlabel\nx\t1\t0\n", "line 2: 3 fields, but the header line"),
    ("cola", "dev.tsv", b"i\t1\t*\tx\ni\t1\t*\tx\ty\n", "line 2: 5 fields, but the file has 4"),
    ("xnli", "dev.tsv", XNLI + b"en\tneutral\tx\ty\tz\n", "line 2: 5 fields, but the header line"),
    # Labels
    ("labels", "train.tsv", b"s\tlabel\nx\t \n", "line 2: column 'label' is empty"),
    ("sst-2", "train.tsv", b"sentence\tlabel\nx\t\n", "line 2: the label '' is not one of 0, 1"),
    ("swag", "train.csv", SWAG + b"a,b,c,d,\n", "line 2 has no label"),
    ("scores", "train.tsv", b"s\tlabel\nx\tnan\n", "line 2: column 'label' has 'nan'"),
    ("sts-b", "train.tsv", STSB + b"x\ty\tnan\n", "line 2: the score 'nan' is not a number"),
    # JSON lines
    ("labels", "train.jsonl", b'{"s": {"t": 1}, "label": "a"}', "'s' has a value of type dict"),
    ("labels", "train.jsonl", b'{"s": "x", "s": "y", "label": "a"}', "line 1", "key 's' occurs"),
    ("labels", "train.jsonl", b'{"s": "\\ud800", "label": "a"}', "line 1", "a lone surrogate"),
    ("swag", "train.jsonl", b'{"context": "a", "choices": ["b", true], "label": 0}', "choice 1"),
    ("ner", "dev.jsonl", b'{"tokens": ["a", 1], "tags": ["O", "O"]}', "must be a list of texts"),
    ("ner", "dev.jsonl", b'{"text": "a b", "entities": [{"start": 0, "end": 9, "label": "X"}]}',
     "0 <= start < end <= 3"),
    ("ner", "dev.jsonl", b'{"text": "a", "entities": [{"start": 0, "end": 1, "label": "X"}, '
     b'{"start": 0, "end": 1, "label": "Y"}]}', "overlaps another entity"),
    # Text in other encodings and with other line ends
    ("labels", "train.tsv", UTF_16, "train.tsv is UTF-16LE", "iconv -f UTF-16LE"),
    ("ner", "train.conll", "a B-X\n".encode("utf-16-le"), "train.conll is UTF-16LE"),
    ("labels", "train.tsv", b"s\tlabel\rx\ta\ry\tb\r", "has the line ends CR, not LF"),
    ("swag", "train.csv", SWAG.replace(b"\n", b"\r") + b"a,b,c,d,0", "has the line ends CR"),
    # Structure
    ("labels", "train.csv", b's,label\nx,a\n"y', "line 3 is not CSV", "end of data"),
    ("labels", "train.tsv", b"", "train.tsv is empty"),
    ("ner", "dev.conll", b"a B-X\nb\n", "line 2 has 1 column"),
    ("ner", "dev.conll", b"a B-X\nb -X\n", "line 2: the tag '-X' is malformed"),
    # SQuAD
    ("squad", "train.json", b"", "train.json is not JSON"),
    ("squad", "train.json", b'{"data": 1, "data": []}', "the key 'data' occurs twice"),
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


CLASSIFIER = {"task_name": "custom", "data_dir": "data", "text_a_column": "s"}


@pytest.fixture
def folder(tmp_path):
    write_architecture(tmp_path)
    for name in ("data", "both"):
        (tmp_path / name).mkdir()
    for path in ("data/train.csv", "both/train.csv", "both/train.tsv"):
        (tmp_path / path).write_text("s,label\n" + "a b,a\nb,b\n" * 4)
    (tmp_path / "data/train-v1.1.json").write_bytes(squad())
    return tmp_path


def fine_tune(program, **flags):
    values = {
        "output_dir": "out", "vocab_file": "vocab.txt", "bert_config_file": "config.json",
        "max_seq_length": "8", "train_batch_size": "4", "num_train_epochs": "1",
        "do_train": "true", "check_only": "true", **flags,
    }  # fmt: skip
    return f"bert_tf.run_scripts.{program}", as_flags(values)


def classify(**flags):
    return fine_tune("run_classifier", **{**CLASSIFIER, **flags})


def submit(folder):
    flags = [f"--input_dirs={folder}", "--output_file=out.zip"]
    return "bert_tf.run_scripts.make_glue_submission", flags


# The command, and words of the message.
COMMANDS = [
    (classify(warmup_proportion="2"), "--warmup_proportion must be in [0, 1]. Received: 2.0"),
    (classify(max_train_examples="-1"), "--max_train_examples must be at least 0. Received: -1"),
    (classify(head="bilstm", lstm_size="1000000000"), "--lstm_size must be from 2 to 8192"),
    (classify(labels=""), "at least two different labels. Received: no labels"),
    (classify(labels="a,,b"), "labels has an empty label. Received: 'a,,b'"),
    (classify(task_type="multi_label", threshold="1"),
     "threshold must be above 0 and below 1. Received: 1"),
    (classify(output_dir=""), "Give the path of a folder to write. Received: ''"),
    (classify(output_dir="vocab.txt"), "vocab.txt is a file. Give the path of a new folder"),
    (classify(output_dir="http://host/out"), "http://host/out is in a file system that TensorFlow"),
    (classify(data_dir="both"), "both has several train files: train.tsv, train.csv"),
    (classify(train_file="data"), "data", "must end in one of .tsv"),
    (classify(data_dir="", tfds_name="../../x:train"), "cannot load ../../x:train"),
    (fine_tune("run_squad", data_dir="data", max_query_length="5"), "--max_query_length + 3 = 8"),
    (classify(init_checkpoint=""), "--init_checkpoint is empty"),
    (classify(label_separator=";"), "--label_separator has no effect without --task_type"),
    (classify(xnli_language="de"), "--xnli_language has no effect without --task_name=xnli"),
    (classify(export_dir="out/best/x"), "--export_dir=out/best/x would contain files of the run"),
    (submit("nowhere"), "nowhere contains no submission file"),
]  # fmt: skip


def test_commands_are_refused_and_write_nothing(folder):
    before = sorted(folder.rglob("*"))
    results = run_mains([command for command, *_ in COMMANDS], cwd=folder, secs=60)
    for result, (_, *words) in zip(results, COMMANDS, strict=True):
        assert_refused(result, *words)
    assert sorted(folder.rglob("*")) == before


def test_flags_are_checked_before_tensorflow_is_imported(folder):
    (folder / "tensorflow.py").write_text("raise RuntimeError('imported')\n")
    module, flags = classify(num_train_epochs="nan")
    result = subprocess.run(
        [sys.executable, "-m", module, *flags], cwd=folder, capture_output=True, text=True
    )
    assert result.returncode == 2 and "imported" not in result.stderr
    assert "--num_train_epochs must be above 0" in result.stderr


def test_a_damaged_sweep_is_refused(tmp_path):
    (tmp_path / "sweep.json").write_text("{")
    store = SweepStore(make_plan(["learning_rate=1"], 1, str(tmp_path), ["run_classifier"]))
    with pytest.raises(InputError, match=r"sweep\.json is damaged"), store.locked():
        pass
    assert (tmp_path / "sweep.json").read_text() == "{"
