"""Fine-tunes and evaluates transformers' BERT classifier on one GLUE task.

The model is `BertForSequenceClassification`.

benchmarks/fine_tuning.py starts this program, with the settings as one JSON object. The
environment needs torch, transformers, scikit-learn and SciPy, but neither TensorFlow
nor bert-tf. The last line of the output is a JSON object with the metrics, the number
of steps and the seconds of training.

The procedure is that of transformers' own GLUE example: texts are tokenized in advance,
each batch is padded to its longest sequence, AdamW is torch's fused implementation,
biases and LayerNorm do not decay, and the learning rate rises and then falls linearly.
"""

import csv
import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

EPSILON, WEIGHT_DECAY, CLIP_NORM = 1e-6, 0.01, 1.0
NO_DECAY = ("bias", "LayerNorm.weight")
EVAL_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class GlueFile:
    """The columns of train.tsv and dev.tsv of a GLUE task, counted from 0.

    Attributes:
        text_a: Column of the sentence, or of the first sentence of a pair.
        text_b: Column of the second sentence, or None.
        label: Column of the label.
        labels: The labels in the order of their ids; empty for a regression.
        metrics: Names of the metrics, from `METRICS`.
        header: Whether the first line contains the names of the columns.
    """

    text_a: int
    text_b: int | None
    label: int
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    header: bool = True


TASKS = {
    "mrpc": GlueFile(3, 4, 0, ("0", "1"), ("accuracy", "f1")),
    "rte": GlueFile(1, 2, 3, ("entailment", "not_entailment"), ("accuracy",)),
    "cola": GlueFile(
        3, None, 1, ("0", "1"), ("accuracy", "matthews_correlation"), header=False
    ),
    "sst-2": GlueFile(0, None, 1, ("0", "1"), ("accuracy",)),
    "sts-b": GlueFile(7, 8, 9, (), ("pearson", "spearman")),
}


def read_examples(
    path: str, task: GlueFile, limit: int = 0
) -> list[tuple[list[str], float]]:
    """Returns the texts and the label of each row.

    Args:
        path: A .tsv file. Quotes in it are ordinary characters.
        task: The columns of the file.
        limit: The number of rows to read; 0 reads all rows.
    """
    columns = [task.text_a] if task.text_b is None else [task.text_a, task.text_b]
    examples = []
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if task.header:
            next(rows)
        for row in rows:
            text = row[task.label]
            label = task.labels.index(text) if task.labels else float(text)
            examples.append(([row[column] for column in columns], label))
    return examples[:limit] if limit else examples


def scores(
    names: Sequence[str], labels: Sequence[float], outputs: Any
) -> dict[str, float]:
    """Returns metrics by name.

    Args:
        names: Names of metrics, from `METRICS`.
        labels: The correct labels or values, [N].
        outputs: float array [N, labels], or [N, 1] for a regression.
    """
    predicted = outputs[:, 0] if outputs.shape[1] == 1 else outputs.argmax(axis=1)
    return {name: float(METRICS[name](labels, predicted)) for name in names}


def _metric(name: str) -> Callable[[Any, Any], float]:
    def compute(labels: Any, predicted: Any) -> float:
        import scipy.stats
        import sklearn.metrics

        functions = {
            "accuracy": sklearn.metrics.accuracy_score,
            "f1": sklearn.metrics.f1_score,
            "matthews_correlation": sklearn.metrics.matthews_corrcoef,
            "pearson": lambda x, y: scipy.stats.pearsonr(x, y).statistic,
            "spearman": lambda x, y: scipy.stats.spearmanr(x, y).statistic,
        }
        return functions[name](labels, predicted)

    return compute


METRICS = {
    name: _metric(name)
    for name in ("accuracy", "f1", "matthews_correlation", "pearson", "spearman")
}


class Examples:
    """The tokenized examples of a split, as a map-style data set of torch.

    Args:
        examples: The result of `read_examples`.
        tokenizer: The tokenizer of the model.
        max_seq_length: Longer sequences are truncated to this number of tokens.
    """

    def __init__(
        self, examples: Sequence[Any], tokenizer: Any, max_seq_length: int
    ) -> None:
        columns = list(zip(*(texts for texts, _ in examples), strict=True))
        options = {"truncation": True, "max_length": max_seq_length}
        self._tokenizer = tokenizer
        self._encoded = tokenizer(*map(list, columns), **options)
        self.labels = [label for _, label in examples]
        self.lengths = [len(ids) for ids in self._encoded["input_ids"]]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        inputs = {name: values[index] for name, values in self._encoded.items()}
        return {**inputs, "labels": self.labels[index]}

    def collate(self, examples: Sequence[dict[str, Any]]) -> Any:
        """Pads the examples of a batch to the longest one; returns tensors by name."""
        return self._tokenizer.pad(examples, padding="longest", return_tensors="pt")


def train_loader(train: Examples, settings: dict[str, Any]) -> Any:
    """Returns the batches of an epoch, in a new random order for each iteration."""
    import torch
    import transformers

    size = settings["train_batch_size"]
    generator = torch.Generator().manual_seed(settings["seed"])
    order: dict[str, Any] = {"shuffle": True, "generator": generator}
    if settings["group_by_length"]:
        sampler = transformers.trainer_pt_utils.LengthGroupedSampler(
            size, lengths=train.lengths, generator=generator
        )
        order = {"sampler": sampler}
    return torch.utils.data.DataLoader(train, size, collate_fn=train.collate, **order)


def autocast(settings: dict[str, Any]) -> Any:
    """Returns the context manager in which the model runs."""
    import torch

    return torch.autocast(
        "cpu", torch.bfloat16, enabled=settings["precision"] == "bfloat16"
    )


def train_model(model: Any, train: Examples, settings: dict[str, Any]) -> int:
    """Fine-tunes the model in place, and returns the number of steps."""
    import torch
    import transformers

    loader = train_loader(train, settings)
    # google-research/bert counts the steps of SQuAD in questions, not in windows.
    steps = settings.get("num_train_steps") or int(
        len(loader) * settings["num_train_epochs"]
    )
    named = list(model.named_parameters())
    groups = [
        {
            "params": [w for n, w in named if not n.endswith(NO_DECAY)],
            "weight_decay": WEIGHT_DECAY,
        },
        {"params": [w for n, w in named if n.endswith(NO_DECAY)], "weight_decay": 0.0},
    ]
    rate = settings["learning_rate"]
    optimizer = torch.optim.AdamW(groups, lr=rate, eps=EPSILON, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(steps * settings["warmup_proportion"]), steps
    )
    model.train()
    done = 0
    while done < steps:
        for batch in loader:
            with autocast(settings):
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done == steps:
                break
    return done


def evaluate(
    model: Any, dev: Examples, task: GlueFile, settings: dict[str, Any]
) -> dict[str, Any]:
    """Returns the metrics of the model on the dev split."""
    import torch

    loader = torch.utils.data.DataLoader(dev, EVAL_BATCH_SIZE, collate_fn=dev.collate)
    model.eval()
    parts = []
    with torch.inference_mode(), autocast(settings):
        for batch in loader:
            parts.append(model(**batch).logits.float())
    return scores(task.metrics, dev.labels, torch.cat(parts).numpy())


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Fine-tunes and evaluates.

    Returns metrics, number of steps and seconds of training.

    Args:
        settings: The flags of benchmarks/fine_tuning.py by name, and `seed`,
            `group_by_length` and `precision`.
    """
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(settings["seed"])
    task, folder = TASKS[settings["task_name"]], pathlib.Path(settings["data_dir"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(settings["init_checkpoint"])
    train, dev = (
        Examples(
            read_examples(str(folder / f"{split}.tsv"), task, settings[limit]),
            tokenizer,
            settings["max_seq_length"],
        )
        for split, limit in (
            ("train", "max_train_examples"),
            ("dev", "max_eval_examples"),
        )
    )
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        settings["init_checkpoint"],
        num_labels=len(task.labels) or 1,
        dtype=torch.float32,
    )
    start = time.perf_counter()
    steps = train_model(model, train, settings)
    secs = time.perf_counter() - start
    return {
        "metrics": evaluate(model, dev, task, settings),
        "steps": steps,
        "train_secs": secs,
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
