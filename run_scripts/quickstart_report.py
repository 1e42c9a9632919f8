"""The report of the quickstart: a table of results, with a majority baseline for each accuracy.

The majority baseline is the accuracy of a model that always predicts the most frequent answer.
"""

import json
import os
from typing import Any, NamedTuple

from bert_tf import json_files
from bert_tf.files import read_text
from bert_tf.run_scripts import quickstart_speed

# The quickstart runs this program with `python -I -c`. The program may import only tensorflow,
# tensorflow_text and the standard library, to show that an exported model needs no other package.
CLASSIFY_PROGRAM = """
import json, os, sys, time
import tensorflow as tf, tensorflow_text
model_dir, test_file, output_file = sys.argv[1:]
model = tf.saved_model.load(model_dir).signatures["serving_default"]
lines = open(test_file, encoding="utf-8").read().split("\\n")[1:]
rows = [line.split("\\t") for line in lines if line]
texts, expected = [row[0] for row in rows], [row[1] for row in rows]
model(text=tf.constant(texts[:64]))
started, labels, confidences = time.monotonic(), [], []
for first in range(0, len(texts), 64):
    answer = model(text=tf.constant(texts[first : first + 64]))
    labels += [label.decode() for label in answer["label"].numpy()]
    confidences += answer["probabilities"].numpy().max(axis=1).tolist()
secs = time.monotonic() - started
imported = sorted(name for name in sys.modules if name.split(".")[0] == "bert_tf")
assert not imported, f"imported {imported}"
for text, label, probability in list(zip(texts, labels, confidences))[:5]:
    print(f"{label:12s} {probability:.2f}  {text[:100]}")
correct = sum(label == other for label, other in zip(labels, expected))
with open(output_file + ".tmp", "w") as file:
    json.dump({"texts": len(texts), "secs": secs, "accuracy": correct / len(texts)}, file)
os.replace(output_file + ".tmp", output_file)
"""
_NEXT_STEPS = """
Next steps:
  .venv/bin/tensorboard --logdir {0}          show the training curves
  .venv/bin/python run_scripts/predict.py --model={0}/export \\
      --text="Returns the element-wise sine of the input array."
  .venv/bin/python run_scripts/run_classifier.py --help   train a classifier on your texts
  .venv/bin/python run_scripts/run_pretraining.py --help  pretrain a BERT on your texts"""


class Row(NamedTuple):
    """One row of the table.

    Attributes:
        result: File or folder that the stage created.
        figure: Text with sizes or held-out scores.
        units: Amount of work that the stage did, used to compute the throughput.
        unit: What `units` counts, such as "examples"; "" to omit the throughput.
    """

    result: str
    figure: str = ""
    units: float = 0.0
    unit: str = ""


def format_report(folder: str, secs: dict[str, float]) -> str:
    """Returns the table of results and the next steps.

    Args:
        folder: The output folder of the quickstart.
        secs: The seconds that each stage took. The key is the name of the stage.
    """
    cells = [("stage", "time", "throughput", "result", "held-out result (majority baseline)")]
    for name, row in (_data_rows(folder) | _model_rows(folder)).items():
        digits = 0 if row.units > 9 * secs[name] else 1
        rate = f"{row.units / secs[name]:,.{digits}f} {row.unit}/s" if row.unit else ""
        cells.append((name, f"{secs[name]:.0f} s", rate, row.result, row.figure))
    cells.append(("total", f"{sum(secs.values()):.0f} s", "", os.path.relpath(folder), ""))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(["", *lines, _NEXT_STEPS.format(os.path.relpath(folder))])


def _read(path: str) -> dict[str, Any]:
    return json_files.read(path, own=True)


def _data_rows(folder: str) -> dict[str, Row]:
    corpus, records = dict[str, dict[str, int]](), dict[str, int]()
    for part in ("train", "heldout"):
        corpus[part] = _read(f"{folder}/sample/stats.json")["files"][f"corpus/{part}.txt"]
        records[part] = _read(f"{folder}/records/{part}.stats.json")["train"]["examples"]
    documents = {part: counts["documents"] for part, counts in corpus.items()}
    megabytes = corpus["train"]["bytes"] / 1e6
    entries = read_text(f"{folder}/vocab.txt").count("\n")
    chosen = _read(f"{folder}/{quickstart_speed.RESULT}")
    speed = "{steps:,} pretraining steps chosen, at {steps_per_sec:.1f} steps/s".format(**chosen)
    return {
        "sample data": _split_row("sample/", documents, "documents"),
        "vocabulary": Row("vocab.txt", f"{entries:,} entries", megabytes, "MB"),
        "records": _split_row("records/", records, "examples"),
        "speed": Row(quickstart_speed.RESULT, speed),
    }


def _split_row(result: str, counts: dict[str, int], unit: str) -> Row:
    total = sum(counts.values())
    return Row(result, f"{counts['heldout']:,} of {total:,} held out", total, unit)


def _model_rows(folder: str) -> dict[str, Row]:
    pretrained = _results(f"{folder}/pretrained/eval_results.txt")
    scores = [
        f"{title} {pretrained[f'{name}_accuracy']:.1%} "
        f"({pretrained[f'{name}_majority_accuracy']:.1%})"
        for title, name in (("masked LM", "masked_lm"), ("next sentence", "next_sentence"))
    ]
    last, two_thirds = _held_out_losses(f"{folder}/pretrained/metrics.jsonl")
    scores.append(f"loss {last:.2f} ({two_thirds:.2f} at two thirds of the run)")
    accuracy = _results(f"{folder}/classifier/eval_results.txt")["eval_accuracy"]
    dev_accuracy = _with_baseline(folder, "dev", accuracy)
    answers = _read(f"{folder}/answers.json")
    test_accuracy = _with_baseline(folder, "test", answers["accuracy"])
    rate = f"{answers['texts'] / answers['secs']:,.0f} texts/s after loading"
    return {
        "pretraining": _run_row(folder, "pretrained", ", ".join(scores)),
        "fine-tuning": _run_row(folder, "classifier", dev_accuracy),
        "export": Row("export/1"),
        "answers": Row("answers.json", f"{test_accuracy}, {rate}", answers["texts"], "texts"),
    }


def _run_row(folder: str, run: str, figure: str) -> Row:
    config = _read(f"{folder}/{run}/training_config.json")
    examples = config["num_train_steps"] * config["global_batch_size"]
    return Row(f"{run}/", figure, examples, "examples")


def _held_out_losses(metrics_file: str) -> tuple[float, float]:
    """Returns two held-out losses: at the end of training, and after two thirds of the steps."""
    lines = map(json.loads, read_text(metrics_file).splitlines())
    losses = [(line["step"], line["loss"]) for line in lines if line["kind"] == "eval"]
    return losses[-1][1], next(loss for step, loss in losses if 3 * step >= 2 * losses[-1][0])


def _with_baseline(folder: str, split: str, accuracy: float) -> str:
    """Returns an accuracy with the share of the most common label in the split."""
    counts = _read(f"{folder}/sample/stats.json")["files"][f"classification/{split}.tsv"]
    most_common = max(count for name, count in counts.items() if name.startswith("label "))
    return f"accuracy {accuracy:.1%} ({most_common / counts['examples']:.1%})"


def _results(path: str) -> dict[str, float]:
    pairs = (line.split(" = ") for line in read_text(path).splitlines())
    return {name: float(value) for name, value in pairs}
