"""Examples of the dev split for users of an export, and their right answers."""

import collections
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.errors import InputError
from bert_tf.export.demo_answers import WITH_EFFECTS
from bert_tf.export.output_decoding import as_columns
from bert_tf.storage import files, json_files
from bert_tf.tasks.classification.text_examples import LabelParser
from bert_tf.tasks.ner import schemes
from bert_tf.tasks.squad.squad_metrics import exact_match

# An example as `Task.as_row` returns it, or a row of a table with a column `label`.
Row = Mapping[str, Any]


def read(path: str, count: int) -> list[Row]:
    """Reads `count` examples: the first one of each label, then the second ones, and so on.

    The labels of questions are whether they have an answer. An example of named
    entities gets a `text`, which has its words.
    """
    seen: collections.Counter[str] = collections.Counter()
    ranked = []
    for line in files.read_lines(path):
        row = json_files.parse(line, path)
        if "tokens" in row:
            row["text"] = " ".join(row["tokens"])
        label = str(row.get("label", bool(row.get("answers"))))
        ranked.append((seen[label], row))
        seen[label] += 1
    return [row for _, row in sorted(ranked, key=lambda each: each[0])[:count]]


def right_answers(row: Row, kind: str, facts: Mapping[str, Any]) -> list[str]:
    """Returns the right answers as `as_columns` writes them; [] if the row has none.

    `kind` is the kind of the model, see `demo_answers`, and `facts` are those of its
    `Predictor`.
    """
    label = row.get("label")
    if kind == "answer" and isinstance(row.get("answers"), list):
        return row["answers"] or [""]
    if kind == "entities" and isinstance(row.get("tags"), list):
        entities = [
            {
                "type": entity.type,
                "text": " ".join(row["tokens"][entity.start : entity.end]),
            }
            for entity in schemes.find_entities(row["tags"])
        ]
        return as_columns({"entities": entities})
    if kind == "choice" and label in range(len(row.get("choices", ()))):
        return [row["choices"][label]]

    # The labels of classifiers, as the training reads them; others are not known.
    task_type = facts.get("task_type", "classification")
    if kind in WITH_EFFECTS and label is not None:
        with contextlib.suppress(InputError):
            value = LabelParser("label", task_type, facts["labels"])(label, "")
            if not isinstance(value, tuple):
                return [str(value)]
            chosen = [name for name in facts["labels"] if name in value]
            return as_columns({"labels": chosen, "probabilities": facts["labels"]})
    return []


def is_right(text: str, kind: str, right: Sequence[str]) -> bool:
    """Returns whether a prediction, as text, is one of the right answers.

    The answer to a question may differ in case, punctuation and articles, as in the
    metric exact match. A score is never wrong.
    """
    if kind == "answer":
        return any(exact_match(text, answer) for answer in right)
    return kind == "score" or text in right
