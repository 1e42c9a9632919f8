"""What the quickstart's stages gave: a table with each figure beside what guessing would reach."""

import collections
import dataclasses
import functools
import json
import os
from typing import Any

import numpy as np

from bert_tf import features
from bert_tf.files import read_text

# Runs with `python -I -c`: tensorflow and tensorflow_text are all it may import.
ANSWER = """
import json, os, sys, time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf, tensorflow_text
model_dir, test_file, output_file = sys.argv[1:]
model = tf.saved_model.load(model_dir).signatures["serving_default"]
lines = open(test_file, encoding="utf-8").read().split("\\n")[1:]
rows = [line.split("\\t") for line in lines if line]
texts, wanted = [row[0] for row in rows], [row[1] for row in rows]
model(text=tf.constant(texts[:64]))
started, labels, sure = time.monotonic(), [], []
for first in range(0, len(texts), 64):
    answer = model(text=tf.constant(texts[first : first + 64]))
    labels += [label.decode() for label in answer["label"].numpy()]
    sure += answer["probabilities"].numpy().max(axis=1).tolist()
secs = time.monotonic() - started
ours = sorted(name for name in sys.modules if name.split(".")[0] in ("bert_tf", "data_prep"))
assert not ours, f"imported {ours}"
for text, label, probability in list(zip(texts, labels, sure))[:5]:
    print(f"{label:12s} {probability:.2f}  {text[:100]}")
right = sum(label == other for label, other in zip(labels, wanted))
with open(output_file + ".tmp", "w") as file:
    json.dump({"texts": len(texts), "secs": secs, "accuracy": right / len(texts)}, file)
os.replace(output_file + ".tmp", output_file)
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """What a stage gave: how many units it worked on, its result, and what that is worth."""

    units: float
    unit: str
    result: str
    figure: str = ""


def table(folder: str, secs: dict[str, float]) -> str:
    """The table, and what to do next."""
    stages = {
        "sample data": _sample(folder),
        "vocabulary": _vocabulary(folder),
        "records": _records(folder),
        "pretraining": _pretraining(folder),
        "fine-tuning": _finetuning(folder),
        "export": Row(0, "", "export/1"),
        "answers": _answers(folder),
    }
    cells = [("stage", "time", "throughput", "result", "held-out figure (what guessing gives)")]
    for name, row in stages.items():
        digits = 0 if row.units > 9 * secs[name] else 1
        rate = f"{row.units / secs[name]:,.{digits}f} {row.unit}/s" if row.unit else ""
        cells.append((name, f"{secs[name]:.0f} s", rate, row.result, row.figure))
    cells.append(("all", f"{sum(secs.values()):.0f} s", "", os.path.relpath(folder), ""))
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(["", *lines, "", *_next_steps(folder)])


def shortfalls(folder: str) -> list[str]:
    """What a full run must reach and this one did not, a line each; empty when all is well."""
    results = _results(f"{folder}/pretrained/eval_results.txt")
    guesses = guessing(folder)
    last, two_thirds = _held_out_losses(folder)
    classifier = _results(f"{folder}/classifier/eval_results.txt")["eval_accuracy"]
    masked, following = "masked_lm_accuracy", "next_sentence_accuracy"
    wanted = {
        "masked LM at least twice as good as guessing": results[masked] >= 2 * guesses[masked],
        "next sentence 10 points above guessing": results[following] >= guesses[following] + 0.1,
        "held-out loss still falling in the last third": last < two_thirds,
        "classifier 20 points above guessing": classifier >= _majority(folder, "dev") + 0.2,
    }
    return [name for name, reached in wanted.items() if not reached]


def _sample(folder: str) -> Row:
    held_out = _documents(f"{folder}/sample/corpus/heldout.txt")
    documents = held_out + _documents(f"{folder}/sample/corpus/train.txt")
    return Row(documents, "documents", "sample/", f"{held_out:,} of {documents:,} held out")


def _vocabulary(folder: str) -> Row:
    megabytes = os.path.getsize(f"{folder}/sample/corpus/train.txt") / 1e6
    entries = read_text(f"{folder}/vocab.txt").count("\n")
    return Row(megabytes, "MB", "vocab.txt", f"{entries:,} entries")


def _records(folder: str) -> Row:
    train, held_out = (_stats(folder, part)["examples"] for part in ("train", "heldout"))
    figure = f"{held_out:,} of {train + held_out:,} held out"
    return Row(train + held_out, "examples", "records/", figure)


def _pretraining(folder: str) -> Row:
    config = json.loads(read_text(f"{folder}/pretrained/training_config.json"))
    results = _results(f"{folder}/pretrained/eval_results.txt")
    guesses = guessing(folder)
    last, two_thirds = _held_out_losses(folder)
    figure = ", ".join(
        [
            f"masked LM {results['masked_lm_accuracy']:.1%} ({guesses['masked_lm_accuracy']:.1%})",
            f"next sentence {results['next_sentence_accuracy']:.1%} "
            f"({guesses['next_sentence_accuracy']:.1%})",
            f"loss {last:.2f} (at two thirds {two_thirds:.2f})",
        ]
    )
    examples = config["num_train_steps"] * config["global_batch_size"]
    return Row(examples, "examples", "pretrained/", figure)


def _held_out_losses(folder: str) -> tuple[float, float]:
    """The last held-out loss, and the one at two thirds of the run."""
    text = read_text(f"{folder}/pretrained/metrics.jsonl")
    lines = [json.loads(line) for line in text.split("\n") if line]
    losses = [(line["step"], line["loss"]) for line in lines if line["kind"] == "eval"]
    return losses[-1][1], next(loss for step, loss in losses if 3 * step >= 2 * losses[-1][0])


def _finetuning(folder: str) -> Row:
    config = json.loads(read_text(f"{folder}/classifier/training_config.json"))
    accuracy = _results(f"{folder}/classifier/eval_results.txt")["eval_accuracy"]
    figure = f"accuracy {accuracy:.1%} ({_majority(folder, 'dev'):.1%})"
    examples = config["num_train_steps"] * config["global_batch_size"]
    return Row(examples, "examples", "classifier/", figure)


def _answers(folder: str) -> Row:
    answers = json.loads(read_text(f"{folder}/answers.json"))
    rate = answers["texts"] / answers["secs"]
    figure = (
        f"accuracy {answers['accuracy']:.1%} ({_majority(folder, 'test'):.1%}), "
        f"{rate:,.0f} texts/s once loaded"
    )
    return Row(answers["texts"], "texts", "answers.json", figure)


def _majority(folder: str, split: str) -> float:
    """Share of the most frequent label."""
    lines = read_text(f"{folder}/sample/classification/{split}.tsv").split("\n")[1:]
    labels = collections.Counter(line.split("\t")[1] for line in lines if line)
    return max(labels.values()) / sum(labels.values())


@functools.cache
def guessing(folder: str) -> dict[str, float]:
    """What always giving the most frequent answer of the held-out records would reach."""
    import tensorflow as tf

    records = f"{folder}/records/heldout.tfrecord"
    lengths = json.loads(read_text(f"{folder}/pretrained/training_config.json"))["data"]
    sizes = {"S": lengths["max_seq_length"], "P": lengths["max_predictions_per_seq"]}
    tokens: collections.Counter[int] = collections.Counter()
    labels: collections.Counter[int] = collections.Counter()
    parse = features.parser(features.PRETRAINING, sizes)
    for batch in tf.data.TFRecordDataset(records).batch(4096).map(parse).as_numpy_iterator():
        tokens.update(batch["masked_lm_ids"][batch["masked_lm_weights"] > 0].tolist())
        labels.update(np.ravel(batch["next_sentence_labels"]).tolist())
    return {
        "masked_lm_accuracy": max(tokens.values()) / sum(tokens.values()),
        "next_sentence_accuracy": max(labels.values()) / sum(labels.values()),
    }


def _stats(folder: str, part: str) -> dict[str, Any]:
    return json.loads(read_text(f"{folder}/records/{part}.stats.json"))["train"]


def _results(path: str) -> dict[str, float]:
    pairs = (line.split(" = ") for line in read_text(path).splitlines())
    return {name: float(value) for name, value in pairs}


def _documents(path: str) -> int:
    return sum(1 for document in read_text(path).split("\n\n") if document.strip())


def _next_steps(folder: str) -> list[str]:
    short = os.path.relpath(folder)
    python = ".venv/bin/python"
    return [
        "What next:",
        f"  .venv/bin/tensorboard --logdir {short}          the curves",
        f"  {python} run_scripts/predict.py --model={short}/export \\",
        '      --text="Returns the element-wise sine of the input array."',
        f"  {python} run_scripts/run_classifier.py --help   a classifier of your own texts",
        f"  {python} run_scripts/run_pretraining.py --help  a BERT of your own texts",
    ]
