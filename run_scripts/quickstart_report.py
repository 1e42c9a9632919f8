"""The report of the quickstart: a table of results, with a majority baseline for each accuracy.

The majority baseline is the accuracy of a model that always predicts the most frequent answer.
"""

import collections
import dataclasses
import json
import os
from typing import Any

from bert_tf import json_files
from bert_tf.files import read_text
from bert_tf.run_scripts import quickstart_speed

_MASKED_LM, _NEXT_SENTENCE = "masked_lm_accuracy", "next_sentence_accuracy"
_MASKED_LM_MAJORITY = "masked_lm_majority_accuracy"
_NEXT_SENTENCE_MAJORITY = "next_sentence_majority_accuracy"
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


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        units: Amount of work that the stage did, used to compute the throughput.
        unit: What `units` counts, such as "examples"; "" to omit the throughput.
        result: File or folder that the stage created.
        figure: Text with sizes or held-out scores.
    """

    units: float
    unit: str
    result: str
    figure: str = ""


def format_report(folder: str, secs: dict[str, float]) -> str:
    """Returns the table of results and the next steps.

    Args:
        folder: The output folder of the quickstart.
        secs: The seconds that each stage took. The key is the name of the stage.
    """
    stages = {
        "sample data": _sample(folder),
        "vocabulary": _vocabulary(folder),
        "records": _records(folder),
        "speed": _speed(folder),
        "pretraining": _pretraining(folder),
        "fine-tuning": _finetuning(folder),
        "export": Row(0, "", "export/1"),
        "answers": _answers(folder),
    }
    cells = [("stage", "time", "throughput", "result", "held-out result (majority baseline)")]
    for name, row in stages.items():
        digits = 0 if row.units > 9 * secs[name] else 1
        rate = f"{row.units / secs[name]:,.{digits}f} {row.unit}/s" if row.unit else ""
        cells.append((name, f"{secs[name]:.0f} s", rate, row.result, row.figure))
    cells.append(("total", f"{sum(secs.values()):.0f} s", "", os.path.relpath(folder), ""))
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(["", *lines, "", *_next_steps(folder)])


def missed_targets(folder: str) -> list[str]:
    """Returns a description of each target that the held-out results of the run did not reach."""
    results = _results(f"{folder}/pretrained/eval_results.txt")
    last, two_thirds = _held_out_losses(folder)
    accuracy = _results(f"{folder}/classifier/eval_results.txt")["eval_accuracy"]
    points = results[_NEXT_SENTENCE] - results[_NEXT_SENTENCE_MAJORITY]
    targets = {
        "masked-LM accuracy of twice the baseline": (
            results[_MASKED_LM] >= 2 * results[_MASKED_LM_MAJORITY]
        ),
        "next-sentence accuracy 10 points above the baseline": points >= 0.1,
        "a held-out loss that still falls in the last third of the run": last < two_thirds,
        "classifier accuracy 20 points above the baseline": (
            accuracy >= _majority_share(folder, "dev") + 0.2
        ),
    }
    return [name for name, reached in targets.items() if not reached]


def _sample(folder: str) -> Row:
    held_out = _documents(f"{folder}/sample/corpus/heldout.txt")
    documents = held_out + _documents(f"{folder}/sample/corpus/train.txt")
    return Row(documents, "documents", "sample/", f"{held_out:,} of {documents:,} held out")


def _vocabulary(folder: str) -> Row:
    megabytes = os.path.getsize(f"{folder}/sample/corpus/train.txt") / 1e6
    entries = read_text(f"{folder}/vocab.txt").count("\n")
    return Row(megabytes, "MB", "vocab.txt", f"{entries:,} entries")


def _records(folder: str) -> Row:
    train, held_out = _stats(folder, "train")["examples"], held_out_examples(folder)
    figure = f"{held_out:,} of {train + held_out:,} held out"
    return Row(train + held_out, "examples", "records/", figure)


def held_out_examples(folder: str) -> int:
    """Returns the number of held-out records."""
    return int(_stats(folder, "heldout")["examples"])


def _speed(folder: str) -> Row:
    steps, rate = quickstart_speed.stored_steps(folder)
    figure = f"{steps:,} pretraining steps chosen, at {rate:.1f} steps/s"
    return Row(0, "", quickstart_speed.RESULT, figure)


def _pretraining(folder: str) -> Row:
    config = json_files.read(f"{folder}/pretrained/training_config.json", own=True)
    results = _results(f"{folder}/pretrained/eval_results.txt")
    last, two_thirds = _held_out_losses(folder)
    scores = [
        f"{title} {results[name]:.1%} ({results[majority]:.1%})"
        for title, name, majority in (
            ("masked LM", _MASKED_LM, _MASKED_LM_MAJORITY),
            ("next sentence", _NEXT_SENTENCE, _NEXT_SENTENCE_MAJORITY),
        )
    ]
    figure = f"{', '.join(scores)}, loss {last:.2f} ({two_thirds:.2f} at two thirds of the run)"
    examples = config["num_train_steps"] * config["global_batch_size"]
    return Row(examples, "examples", "pretrained/", figure)


def _held_out_losses(folder: str) -> tuple[float, float]:
    """Returns two held-out losses: at the end of training, and after two thirds of the steps."""
    text = read_text(f"{folder}/pretrained/metrics.jsonl")
    lines = [json.loads(line) for line in text.split("\n") if line]
    losses = [(line["step"], line["loss"]) for line in lines if line["kind"] == "eval"]
    return losses[-1][1], next(loss for step, loss in losses if 3 * step >= 2 * losses[-1][0])


def _finetuning(folder: str) -> Row:
    config = json_files.read(f"{folder}/classifier/training_config.json", own=True)
    accuracy = _results(f"{folder}/classifier/eval_results.txt")["eval_accuracy"]
    figure = f"accuracy {accuracy:.1%} ({_majority_share(folder, 'dev'):.1%})"
    examples = config["num_train_steps"] * config["global_batch_size"]
    return Row(examples, "examples", "classifier/", figure)


def _answers(folder: str) -> Row:
    answers = json_files.read(f"{folder}/answers.json", own=True)
    rate = answers["texts"] / answers["secs"]
    figure = (
        f"accuracy {answers['accuracy']:.1%} ({_majority_share(folder, 'test'):.1%}), "
        f"{rate:,.0f} texts/s after loading"
    )
    return Row(answers["texts"], "texts", "answers.json", figure)


def _majority_share(folder: str, split: str) -> float:
    """Returns the fraction of the examples in a split that have the most frequent label."""
    lines = read_text(f"{folder}/sample/classification/{split}.tsv").split("\n")[1:]
    labels = collections.Counter(line.split("\t")[1] for line in lines if line)
    return max(labels.values()) / sum(labels.values())


def _stats(folder: str, part: str) -> dict[str, Any]:
    return json_files.read(f"{folder}/records/{part}.stats.json", own=True)["train"]


def _results(path: str) -> dict[str, float]:
    pairs = (line.split(" = ") for line in read_text(path).splitlines())
    return {name: float(value) for name, value in pairs}


def _documents(path: str) -> int:
    return sum(1 for document in read_text(path).split("\n\n") if document.strip())


def _next_steps(folder: str) -> list[str]:
    short = os.path.relpath(folder)
    python = ".venv/bin/python"
    return [
        "Next steps:",
        f"  .venv/bin/tensorboard --logdir {short}          show the training curves",
        f"  {python} run_scripts/predict.py --model={short}/export \\",
        '      --text="Returns the element-wise sine of the input array."',
        f"  {python} run_scripts/run_classifier.py --help   train a classifier on your texts",
        f"  {python} run_scripts/run_pretraining.py --help  pretrain a BERT on your texts",
    ]
