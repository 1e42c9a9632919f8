"""Wrong data files of the fine-tuning programs end in one line with the file."""

from collections import Counter

import pytest
from ner_data import make_task
from refusals import refused_with

from bert_tf.tasks.classification.sources.custom import TextColumns, custom_task
from bert_tf.tasks.classification.sources.glue_tasks import glue_task
from bert_tf.tasks.classification.sources.xnli import xnli
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import DataLocation

TASKS = {
    "labels": custom_task(TextColumns("s"), labels=["a", "b"]),
    "sst-2": glue_task("sst-2"),
    "cola": glue_task("cola"),
    "sts-b": glue_task("sts-b"),
    "xnli": xnli("en"),
    "ner": make_task(),
    "squad": SquadTask(make_task().tokenizer),
}
UTF_16 = "s\tlabel\nx\ta\n".encode("utf-16-le")
STSB = b"sentence1\tsentence2\tscore\n"
XNLI = b"language\tgold_label\tsentence1\tsentence2\n"


# The task, the name of a file, its contents, and words of the message.
REFUSED = [
    # Rows of another width than the header line
    (
        "sst-2",
        "train.tsv",
        b"sentence\tlabel\nx\t1\t0\n",
        "line 2: 3 fields, but the header line",
    ),
    (
        "cola",
        "dev.tsv",
        b"i\t1\t*\tx\ni\t1\t*\tx\ty\n",
        "line 2: 5 fields, but the file has 4",
    ),
    (
        "xnli",
        "dev.tsv",
        XNLI + b"en\tneutral\tx\ty\tz\n",
        "line 2: 5 fields, but the header line",
    ),
    (
        "sts-b",
        "train.tsv",
        STSB + b"x\ty\tnan\n",
        "line 2: the score 'nan' is not a number",
    ),
    # JSON
    (
        "labels",
        "train.jsonl",
        b'{"s": "x", "s": "y", "label": "a"}',
        "line 1",
        "key 's' occurs",
    ),
    (
        "labels",
        "train.jsonl",
        b'{"s": "\\ud800", "label": "a"}',
        "line 1",
        "a lone surrogate",
    ),
    ("squad", "train.json", b'{"data": 1, "data": []}', "the key 'data' occurs twice"),
    # Text in other encodings and with other line ends
    ("labels", "train.tsv", UTF_16, "train.tsv is UTF-16LE", "iconv -f UTF-16LE"),
    ("ner", "train.conll", "a B-X\n".encode("utf-16-le"), "train.conll is UTF-16LE"),
    ("labels", "train.tsv", b"s\tlabel\rx\ta\ry\tb\r", "has the line ends CR, not LF"),
]


def read(task, path):
    kind = path.name.split(".")[0]
    location = DataLocation(
        train_file=str(path), dev_file=str(path), test_file=str(path)
    )
    (split, *_) = task.splits(kind, location)
    split.source.fingerprint()
    return list(task.read(split, Counter()))


@pytest.mark.parametrize(
    "row", REFUSED, ids=lambda row: f"{row[0]}-{row[1]}-{row[3][:30]}"
)
def test_files_are_refused_with_their_name(tmp_path, row):
    task, name, contents, *words = row
    path = tmp_path / name
    path.write_bytes(contents)
    with refused_with(str(path), *words):
        read(TASKS[task], path)
