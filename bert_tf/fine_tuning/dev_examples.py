"""The file with examples of the dev split, which exports use to compare predictions.

Each line of `dev_examples.jsonl` is a JSON object: the texts of an example by the names
that the exported model has for them, and the correct output.
"""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.storage import files
from bert_tf.tasks.task import DEV_EXAMPLES

NUM_EXAMPLES = 256


def choose(num_examples: int) -> set[int]:
    """Returns at most `NUM_EXAMPLES` indices of examples, at equal distances in a split."""
    count = min(NUM_EXAMPLES, num_examples)
    return set(np.linspace(0, num_examples - 1, count).round().astype(int).tolist())


def write(folder: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes the chosen examples, as `Task.as_row` returns them, to the output folder of a run."""
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows]
    files.write_text(os.path.join(folder, DEV_EXAMPLES), "".join(lines))
