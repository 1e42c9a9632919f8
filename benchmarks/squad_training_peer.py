"""Fine-tunes `BertForQuestionAnswering` of transformers, and computes logits for each window.

benchmarks/squad_training.py starts this program, with the settings as one JSON object. The
environment needs torch and transformers, but neither TensorFlow nor bert-tf. The last line of the
output is a JSON object with the number of steps and the seconds of training.
"""

import json
import os
import sys
import time
from typing import Any

import fine_tuning_peer
import numpy as np

INPUTS = {
    "input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids",
}  # fmt: skip
POSITIONS = ("start_positions", "end_positions")


class Windows:
    """The windows of a split, as a map-style data set of torch.

    Args:
        columns: The features of bert-tf by name, int [R, S] or [R].
        has_positions: Whether a batch contains the positions of the answers.
    """

    def __init__(self, columns: Any, has_positions: bool) -> None:
        names = {**INPUTS, **({name: name for name in POSITIONS} if has_positions else {})}
        self._columns = {new: columns[name].astype(np.int64) for name, new in names.items()}
        self.lengths = columns["input_mask"].sum(axis=1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, rows: list[int]) -> Any:
        """Returns a batch, padded to its longest window, as tensors by name."""
        import torch

        longest = int(self.lengths[rows].max())
        batch = {name: values[rows] for name, values in self._columns.items()}
        return {
            name: torch.from_numpy(each[:, :longest] if each.ndim == 2 else each)
            for name, each in batch.items()
        }


def predict(model: Any, windows: Windows, settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns start and end logits, float32 [R, S]; padding has the logit -10000."""
    import torch

    loader = torch.utils.data.DataLoader(
        windows, fine_tuning_peer.EVAL_BATCH_SIZE, collate_fn=windows.collate
    )
    names = ("start_logits", "end_logits")
    shape = len(windows), settings["max_seq_length"]
    logits = {name: np.full(shape, -10000, np.float32) for name in names}
    model.eval()
    first = 0
    with torch.inference_mode(), fine_tuning_peer.autocast(settings):
        for batch in loader:
            outputs = model(**batch)
            for name in names:
                values = outputs[name].float().numpy()
                logits[name][first : first + len(values), : values.shape[1]] = values
            first += len(values)
    return logits


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Fine-tunes and predicts; returns the number of steps and the seconds of both parts.

    Args:
        settings: The settings of benchmarks/squad_training.py, and `folder`, which contains the
            windows, and receives the logits.
    """
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(settings["seed"])
    folder = settings["folder"]
    train = Windows(np.load(f"{folder}/train.npz"), has_positions=True)
    dev = Windows(np.load(f"{folder}/predict.npz"), has_positions=False)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(
        settings["init_checkpoint"], dtype=torch.float32
    )
    start = time.perf_counter()
    steps = fine_tuning_peer.train_model(model, train, settings)
    trained = time.perf_counter()
    np.savez(f"{folder}/logits.npz", **predict(model, dev, settings))
    secs = {"train_secs": trained - start, "predict_secs": time.perf_counter() - trained}
    return {"steps": steps, **secs}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
