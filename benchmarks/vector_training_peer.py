"""Trains a model of sentence-transformers on given batches, and computes its metrics.

benchmarks/vector_training.py starts this program, with the settings as one JSON object.
The environment needs sentence-transformers with datasets and accelerate, but neither
TensorFlow nor bert-tf. The last line of the output is a JSON object with the metrics,
the number of steps and the seconds of training.
"""

import json
import pathlib
import sys
import tempfile
import time
from typing import Any

EPSILON, WEIGHT_DECAY, CLIP_NORM = 1e-6, 0.01, 1.0
EVAL_BATCH_SIZE = 64
# The names of the metrics in both evaluators.
NAMES = {
    "spearman_cosine": "spearman",
    "pearson_cosine": "pearson",
    "cosine_ndcg@10": "ndcg_at_10",
    "cosine_mrr@10": "mrr_at_10",
    "cosine_recall@1": "recall_at_1",
    "cosine_recall@10": "recall_at_10",
    "cosine_recall@100": "recall_at_100",
}


def read(folder: pathlib.Path, name: str) -> dict[str, list[Any]]:
    """Returns the columns of a table."""
    rows = [*map(json.loads, (folder / f"{name}.jsonl").read_text().splitlines())]
    return {column: [row[column] for row in rows] for column in rows[0]}


def similarity(table: dict[str, list[Any]], name: str) -> Any:
    """Returns the evaluator of pairs with scores."""
    from sentence_transformers.sentence_transformer import evaluation

    return evaluation.EmbeddingSimilarityEvaluator(
        table["a"],
        table["b"],
        [*map(float, table["score"])],
        name=name,
        batch_size=EVAL_BATCH_SIZE,
        write_csv=False,
    )


def search(table: dict[str, list[Any]]) -> Any:
    """Returns the evaluator of a search in all second texts."""
    from sentence_transformers.sentence_transformer import evaluation

    queries: dict[str, str] = {}
    documents: dict[str, str] = {}
    relevant: dict[str, set[str]] = {}
    for number, (first, second) in enumerate(zip(table["a"], table["b"], strict=True)):
        query = queries.setdefault(first, f"q{number}")
        document = documents.setdefault(second, f"d{number}")
        relevant.setdefault(query, set()).add(document)
    return evaluation.InformationRetrievalEvaluator(
        {name: text for text, name in queries.items()},
        {name: text for text, name in documents.items()},
        relevant,
        mrr_at_k=[10],
        ndcg_at_k=[10],
        accuracy_at_k=[1],
        map_at_k=[10],
        precision_recall_at_k=[1, 10, 100],
        batch_size=EVAL_BATCH_SIZE,
        write_csv=False,
    )


def choice_of_weights(eval_steps: int) -> dict[str, Any]:
    """Returns the arguments that select the best weights by the evaluator "held"."""
    return {
        "eval_strategy": "steps",
        "eval_steps": eval_steps,
        "save_strategy": "steps",
        "save_steps": eval_steps,
        "save_total_limit": 1,
        "load_best_model_at_end": True,
        "metric_for_best_model": "eval_held_spearman_cosine",
        "greater_is_better": True,
    }


def train(model: Any, settings: dict[str, Any], batches: list[list[int]]) -> float:
    """Trains the model on the given batches of rows, and returns the seconds."""
    import datasets
    import sentence_transformers as st
    import torch
    from sentence_transformers.sentence_transformer import losses

    class GivenBatches(torch.utils.data.BatchSampler):
        """The batches of bert-tf."""

        def __init__(self) -> None:
            self.batch_size, self.drop_last = settings["train_batch_size"], False

        def __iter__(self) -> Any:
            return iter(batches)

        def __len__(self) -> int:
            return len(batches)

    class Trainer(st.SentenceTransformerTrainer):
        def get_batch_sampler(self, *_: Any, **__: Any) -> GivenBatches:
            return GivenBatches()

    # The data, the loss, and the choice of the best weights.
    folder = pathlib.Path(settings["folder"])
    table = read(folder, "train")
    if settings["task_name"] == "sts-b":
        table["label"] = [float(score) / 5 for score in table.pop("score")]
        loss = losses.CoSENTLoss(model)
        evaluator = similarity(read(folder, "selection"), "held")
        choice = choice_of_weights(settings["eval_steps"])
    else:
        loss = losses.MultipleNegativesRankingLoss(model)
        evaluator, choice = None, {"save_strategy": "no"}

    with tempfile.TemporaryDirectory() as output:
        arguments = st.SentenceTransformerTrainingArguments(
            output_dir=output,
            num_train_epochs=1,
            per_device_train_batch_size=settings["train_batch_size"],
            learning_rate=settings["learning_rate"],
            warmup_steps=int(len(batches) * settings["warmup_proportion"]),
            lr_scheduler_type="linear",
            weight_decay=WEIGHT_DECAY,
            adam_epsilon=EPSILON,
            max_grad_norm=CLIP_NORM,
            seed=settings["seed"],
            report_to=[],
            use_cpu=True,
            bf16=settings["precision"] == "bfloat16",
            disable_tqdm=True,
            logging_steps=10**6,
            **choice,
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=datasets.Dataset.from_dict(table),
            loss=loss,
            evaluator=evaluator,
        )
        start = time.perf_counter()
        trainer.train()
        return time.perf_counter() - start


def main() -> None:
    """Trains and evaluates the model."""
    import sentence_transformers as st
    import torch

    settings = json.loads(sys.argv[1])
    folder = pathlib.Path(settings["folder"])
    batches = json.loads((folder / "batches.json").read_text())
    torch.manual_seed(settings["seed"])
    model = st.SentenceTransformer(str(folder / "initial"), device="cpu")
    model.max_seq_length = settings["max_seq_length"]
    secs = train(model, settings, batches)

    dev = read(folder, "dev")
    evaluator = similarity(dev, "") if settings["task_name"] == "sts-b" else search(dev)
    is_bfloat16 = settings["precision"] == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
        values = evaluator(model)
    metrics = {NAMES[name]: float(values[name]) for name in NAMES if name in values}
    result = {"metrics": metrics, "steps": len(batches), "train_secs": secs}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
