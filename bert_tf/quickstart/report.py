"""The table of results at the end of the quickstart, and the next steps."""

import json
import os
import pathlib

from bert_tf.quickstart.stages import read_json
from bert_tf.sweeps.recipe_table import metrics_of

_NEXT_STEPS = """
Next steps:
  .venv/bin/tensorboard --logdir {0}          show the training curves
  .venv/bin/python run_scripts/predict.py --model={0}/export \\
      --text="Returns the element-wise sine of the input array."
  .venv/bin/python -m pip install '.[demo]'   and try the model in a browser:
  .venv/bin/python run_scripts/demo.py --model={0}/export
  .venv/bin/python run_scripts/run_classifier.py --help   train a \
classifier on your texts
  .venv/bin/python run_scripts/run_pretraining.py --help  pretrain a \
BERT on your texts"""
_PARTS = ("train", "heldout")
# A row: stage, main result, amount of work, what the amount counts ("" for no
# throughput), and sizes or held-out scores.
_Row = tuple[str, str, float, str, str]


def format_report(folder: str, secs: dict[str, float]) -> str:
    """Returns the table of results and the next steps; `secs` has the time of each stage."""
    cells = [
        ("stage", "time", "throughput", "result", "held-out result (majority baseline)")
    ]
    for stage, result, amount, unit, figure in [
        *_data_rows(folder),
        *_model_rows(folder),
    ]:
        digits = 0 if amount > 9 * secs[stage] else 1
        rate = f"{amount / secs[stage]:,.{digits}f} {unit}/s" if unit else ""
        cells.append((stage, f"{secs[stage]:.0f} s", rate, result, figure))
    path = os.path.relpath(folder)
    cells.append(("total", f"{sum(secs.values()):.0f} s", "", path, ""))

    # Columns of equal width.
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(["", *lines, _NEXT_STEPS.format(path)])


def _data_rows(folder: str) -> list[_Row]:
    files = read_json(f"{folder}/sample/stats.json")["files"]
    documents = [files[f"corpus/{part}.txt"]["documents"] for part in _PARTS]
    examples = [
        read_json(f"{folder}/records/{part}.stats.json")["train"]["examples"]
        for part in _PARTS
    ]
    megabytes = files["corpus/train.txt"]["bytes"] / 1e6
    entries = pathlib.Path(folder, "vocab.txt").read_text("utf-8").count("\n")
    return [
        ("sample data", "sample/", sum(documents), "documents", _held_out(documents)),
        ("vocabulary", "vocab.txt", megabytes, "MB", f"{entries:,} entries"),
        ("records", "records/", sum(examples), "examples", _held_out(examples)),
    ]


def _held_out(counts: list[int]) -> str:
    return f"{counts[1]:,} of {sum(counts):,} held out"


def _model_rows(folder: str) -> list[_Row]:
    # Pretraining: two accuracies with their baselines, and two losses.
    pretrained = metrics_of(f"{folder}/pretrained")
    scores = [
        f"{title} {pretrained[f'{name}_accuracy']:.1%} "
        f"({pretrained[f'{name}_majority_accuracy']:.1%})"
        for title, name in (
            ("masked LM", "masked_lm"),
            ("next sentence", "next_sentence"),
        )
    ]
    last, two_thirds = _held_out_losses(folder)
    scores.append(f"loss {last:.2f} ({two_thirds:.2f} at two thirds of the run)")

    # The classifier: the accuracy of the run on the dev split, and of the exported model
    # on the test split.
    dev = _with_baseline(
        folder, "dev", metrics_of(f"{folder}/classifier")["eval_accuracy"]
    )
    answers = read_json(f"{folder}/answers.json")
    test = _with_baseline(folder, "test", answers["accuracy"])

    rate = f"{answers['texts'] / answers['secs']:,.0f} texts/s after loading"
    return [
        ("pretraining", *_run(folder, "pretrained"), ", ".join(scores)),
        ("fine-tuning", *_run(folder, "classifier"), dev),
        ("export", "export/1", 0, "", ""),
        ("answers", "answers.json", answers["texts"], "texts", f"{test}, {rate}"),
    ]


def _run(folder: str, run: str) -> tuple[str, int, str]:
    config = read_json(f"{folder}/{run}/training_config.json")
    return (
        f"{run}/",
        config["num_train_steps"] * config["global_batch_size"],
        "examples",
    )


def _held_out_losses(folder: str) -> tuple[float, float]:
    """Returns the held-out losses at the end, and after two thirds of the steps."""
    text = pathlib.Path(folder, "pretrained/metrics.jsonl").read_text("utf-8")
    lines = map(json.loads, text.splitlines())
    losses = [(line["step"], line["loss"]) for line in lines if line["kind"] == "eval"]
    last_step, last_loss = losses[-1]
    return last_loss, next(loss for step, loss in losses if 3 * step >= 2 * last_step)


def _with_baseline(folder: str, split: str, accuracy: float) -> str:
    """Returns an accuracy with the share of the most common label in the split."""
    stats = read_json(f"{folder}/sample/stats.json")
    counts = stats["files"][f"classification/{split}.tsv"]
    most_common = max(
        count for name, count in counts.items() if name.startswith("label ")
    )
    return f"accuracy {accuracy:.1%} ({most_common / counts['examples']:.1%})"
