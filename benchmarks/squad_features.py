r"""Measures the conversion of SQuAD questions to features, in bert-tf and elsewhere.

Each system runs in a process of its own, one after the other. bert-tf writes a record
file, as does google-research/bert, whose program runs with `tensorflow.compat.v1`.
transformers converts batches of 1,000 questions with a fast tokenizer, as its example
`run_qa.py` does, and writes nothing; its stride is the overlap of two windows, so it
has another number of features. The printed seconds are those of the whole process,
start-up included.

    git clone https://github.com/google-research/bert /tmp/google_bert
    python benchmarks/squad_features.py \
        --train_file=train-v1.1.json --vocab_file=vocab.txt \
        --google_path=/tmp/google_bert --peer_python=/tmp/torch/bin/python
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("train_file", None, "A train file of SQuAD 1.1.", required=True)
flags.DEFINE_string(
    "vocab_file", None, "The vocabulary of an uncased model.", required=True
)
flags.DEFINE_string(
    "google_path", None, "Folder of google-research/bert; None leaves it out."
)
flags.DEFINE_integer(
    "google_articles", 40, "google-research/bert converts only this number of articles."
)
flags.DEFINE_string(
    "peer_python", None, "Python with transformers; None leaves it out."
)
flags.DEFINE_integer("max_seq_length", 384, "Tokens per feature.")
flags.DEFINE_integer("doc_stride", 128, "Tokens between the starts of windows.")

OURS = """
import sys
from bert_tf.runs.fine_tuning_config import FineTuningConfig
from bert_tf.tasks.squad.squad_encoding import WindowSettings
from bert_tf.tasks.squad.squad_task import SquadTask
from bert_tf.tasks.task import DataLocation
from bert_tf.runs.run_data import RunData
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.training_config import RunPhases

train_file, vocab_file, length, stride, folder = sys.argv[1:]
tokenizer = BertTokenizer(vocab_file)
data = RunData(
    SquadTask(tokenizer, WindowSettings(int(stride))), DataLocation(train_file=train_file),
    tokenizer, FineTuningConfig(max_seq_length=int(length)), RunPhases(True, False, False), folder,
).read()
data.write_all_records()
print(data.splits["train"][0].num_examples, len(data.splits["train"][0].records))
"""

GOOGLE = """
import random, sys
import tensorflow.compat.v1 as tf
sys.modules["tensorflow"] = tf
train_file, vocab_file, length, stride, folder, google_path = sys.argv[1:]
sys.path.insert(0, google_path)
import run_squad, tokenization
tf.flags.FLAGS(["run_squad", "--bert_config_file=none", f"--vocab_file={vocab_file}",
                f"--output_dir={folder}"])
examples = run_squad.read_squad_examples(train_file, is_training=True)
random.Random(12345).shuffle(examples)
writer = run_squad.FeatureWriter(f"{folder}/train.tf_record", is_training=True)
run_squad.convert_examples_to_features(
    examples, tokenization.FullTokenizer(vocab_file), int(length), int(stride), 64, True,
    writer.process_feature,
)
writer.close()
print(len(examples), writer.num_features)
"""

TRANSFORMERS = """
import json, sys
from transformers import BertTokenizerFast
train_file, vocab_file, length, stride, _ = sys.argv[1:]
tokenizer = BertTokenizerFast(vocab_file)
rows = [
    (qa["question"].lstrip(), paragraph["context"], qa["answers"][0])
    for article in json.load(open(train_file))["data"]
    for paragraph in article["paragraphs"] for qa in paragraph["qas"]
]
features = 0
for first in range(0, len(rows), 1000):
    questions, contexts, answers = zip(*rows[first : first + 1000])
    encoded = tokenizer(
        list(questions), list(contexts), truncation="only_second", max_length=int(length),
        stride=int(stride), return_overflowing_tokens=True, return_offsets_mapping=True,
        padding="max_length",
    )
    for number, row in enumerate(encoded["overflow_to_sample_mapping"]):
        offsets, sequence_ids = encoded["offset_mapping"][number], encoded.sequence_ids(number)
        start = answers[row]["answer_start"]
        end = start + len(answers[row]["text"])
        first_token = sequence_ids.index(1)
        last_token = len(sequence_ids) - 1 - sequence_ids[::-1].index(1)
        if offsets[first_token][0] <= start and offsets[last_token][1] >= end:
            while first_token < len(offsets) and offsets[first_token][0] <= start:
                first_token += 1
            while offsets[last_token][1] >= end:
                last_token -= 1
        features += 1
print(len(rows), features)
"""


def measure(name, python, program, train_file, *more):
    """Runs a program in a new process; prints its speed."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            train_file, FLAGS.vocab_file, str(FLAGS.max_seq_length),
            str(FLAGS.doc_stride), folder,
        ]  # fmt: skip
        start = time.perf_counter()
        done = subprocess.run(
            [python, "-c", program, *arguments, *more],
            check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )  # fmt: skip
        secs = time.perf_counter() - start
    questions, features = map(int, done.stdout.split()[-2:])
    print(
        f"| {name} | {questions:,} | {features:,} | {secs:.1f} | "
        f"{questions / secs:,.0f} |",
        flush=True,
    )


def first_articles(path, count, folder):
    """Writes a file with the first articles of a data set; returns its path."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    data["data"] = data["data"][:count]
    part = os.path.join(folder, "part.json")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(data, file)
    return part


def main(_):
    """Measures all systems."""
    print(
        "| system | questions | features | seconds | questions/s "
        "|\n|---|---|---|---|---|"
    )
    measure("bert-tf", sys.executable, OURS, FLAGS.train_file)
    if FLAGS.peer_python:
        measure("transformers", FLAGS.peer_python, TRANSFORMERS, FLAGS.train_file)
    if FLAGS.google_path:
        with tempfile.TemporaryDirectory() as folder:
            part = first_articles(FLAGS.train_file, FLAGS.google_articles, folder)
            measure(
                "google-research/bert", sys.executable, GOOGLE, part, FLAGS.google_path
            )


if __name__ == "__main__":
    app.run(main)
