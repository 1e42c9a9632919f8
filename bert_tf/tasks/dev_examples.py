"""The file with examples of the dev split, which exports use to compare predictions.

Each line of `dev_examples.jsonl` is a JSON object: the texts of an example by the names that the
exported model has for them, and the correct output.
"""

import json
import os
from collections import Counter

import numpy as np

from bert_tf import files
from bert_tf.tasks.task import DEV_EXAMPLES, Task
from bert_tf.tasks.task_data import SplitData

NUM_EXAMPLES = 256


def write(folder: str, task: Task, data: SplitData) -> None:
    """Writes at most `NUM_EXAMPLES` examples, at equal distances in the split.

    Args:
        folder: The output folder of the run.
        task: The task.
        data: The dev split.
    """
    count = min(NUM_EXAMPLES, data.num_examples)
    chosen = set(np.linspace(0, data.num_examples - 1, count).round().astype(int).tolist())
    examples = enumerate(task.read(data.split, Counter()))
    rows = (task.as_row(example) for number, example in examples if number in chosen)
    lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows]
    files.write_text(os.path.join(folder, DEV_EXAMPLES), "".join(lines))
