"""Fine-tunes a model of transformers on bert-tf's records, and computes their outputs.

benchmarks/record_training.py starts this program, with the settings as one JSON object.
The environment needs torch and transformers, but neither TensorFlow nor bert-tf. The
last line of the output is a JSON object with the number of steps and the seconds of
training and of prediction.
"""

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import fine_tuning_peer
import numpy as np

INPUTS = {
    "input_ids": "input_ids", "input_mask": "attention_mask",
    "segment_ids": "token_type_ids",
}  # fmt: skip
Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of model.

    Attributes:
        auto_class: The class of transformers that loads the model.
        labels: Returns the labels by the name of the model's argument, from the
            features.
        outputs: For each output of the model, its value at padding.
        final: Returns the outputs for the scorer of bert-tf, from those of all records.
    """

    auto_class: str
    labels: Callable[[Columns], Columns]
    outputs: dict[str, float]
    final: Callable[[Columns], Columns]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis."""
    shifted: np.ndarray = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def without_label_0(label_ids: np.ndarray) -> np.ndarray:
    """Returns the labels of torch: 0 (no label) becomes -100, which losses ignore."""
    return np.where(label_ids > 0, label_ids.astype(np.int64) - 1, -100)


KINDS = {
    "squad": Kind(
        "AutoModelForQuestionAnswering",
        lambda columns: {n: columns[n] for n in ("start_positions", "end_positions")},
        {"start_logits": -10000, "end_logits": -10000},
        lambda outputs: outputs,
    ),
    "ner": Kind(
        "AutoModelForTokenClassification",
        lambda columns: {"labels": without_label_0(columns["label_ids"])},
        {"logits": 0},
        lambda outputs: {"predictions": outputs["logits"].argmax(axis=-1)},
    ),
    "swag": Kind(
        "AutoModelForMultipleChoice",
        lambda columns: {"labels": columns["label_ids"]},
        {"logits": 0},
        lambda outputs: {**outputs, "probabilities": softmax(outputs["logits"])},
    ),
}  # fmt: skip


class Records:
    """The records of a split, as a map-style data set of torch.

    Args:
        columns: The features of bert-tf by name, int [R, ...].
        labels: The labels by the name of the model's argument, int [R, ...]; {} to
            predict.
    """

    def __init__(self, columns: Columns, labels: Columns) -> None:
        self._inputs = {
            new: columns[name].astype(np.int64) for name, new in INPUTS.items()
        }
        self._labels = {
            name: values.astype(np.int64) for name, values in labels.items()
        }
        lengths = columns["input_mask"].sum(axis=-1)
        self.lengths = lengths.reshape(len(lengths), -1).max(axis=1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, rows: list[int]) -> Any:
        """Returns a batch, padded to its longest sequence, as tensors by name."""
        import torch

        longest = int(self.lengths[rows].max())
        batch = {
            name: values[rows][..., :longest] for name, values in self._inputs.items()
        }
        for name, values in self._labels.items():
            batch[name] = (
                values[rows][:, :longest] if values.ndim == 2 else values[rows]
            )
        return {
            name: torch.from_numpy(np.ascontiguousarray(v)) for name, v in batch.items()
        }


def predict(
    model: Any, records: Records, kind: Kind, settings: dict[str, Any]
) -> Columns:
    """Returns the outputs of the model for all records, float32 [R, ...]."""
    import torch

    loader = torch.utils.data.DataLoader(
        records, fine_tuning_peer.EVAL_BATCH_SIZE, collate_fn=records.collate
    )
    parts: dict[str, list[np.ndarray]] = {name: [] for name in kind.outputs}
    model.eval()
    with torch.inference_mode(), fine_tuning_peer.autocast(settings):
        for batch in loader:
            outputs = model(**batch)
            longest = batch["input_ids"].shape[-1]
            for name, padding in kind.outputs.items():
                values = outputs[name].float().numpy()
                if settings["task_name"] != "swag":
                    missing = settings["max_seq_length"] - longest
                    widths = [(0, 0), (0, missing), *[(0, 0)] * (values.ndim - 2)]
                    values = np.pad(values, widths, constant_values=padding)
                parts[name].append(values)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Fine-tunes and predicts.

    Returns the number of steps and the seconds of both parts.

    Args:
        settings: The settings of benchmarks/record_training.py, `task_name`,
            `num_labels` (0 for models without labels), `num_train_steps`, and `folder`,
            which contains the records, and receives the outputs.
    """
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(settings["seed"])
    folder, kind = settings["folder"], KINDS[settings["task_name"]]
    columns = {
        name: dict(np.load(f"{folder}/{name}.npz")) for name in ("train", "predict")
    }
    train = Records(columns["train"], kind.labels(columns["train"]))
    dev = Records(columns["predict"], {})
    given = {"num_labels": settings["num_labels"]} if settings["num_labels"] else {}
    model = getattr(transformers, kind.auto_class).from_pretrained(
        settings["init_checkpoint"], dtype=torch.float32, **given
    )
    start = time.perf_counter()
    steps = fine_tuning_peer.train_model(model, train, settings)
    trained = time.perf_counter()
    np.savez(f"{folder}/outputs.npz", **kind.final(predict(model, dev, kind, settings)))
    secs = {
        "train_secs": trained - start,
        "predict_secs": time.perf_counter() - trained,
    }
    return {"steps": steps, **secs}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
