"""`ChoiceTask`: the best of several texts, as in SWAG, with its loss and results.

Shape letters: B batch, N examples, C choices, S sequence length, R sequences of all
examples.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertMultipleChoice
from bert_tf.saved_task import ROOM, TaskFacts
from bert_tf.tasks.choice.choice_examples import ChoiceExample, read_examples
from bert_tf.tasks.head_objective import HeadObjective
from bert_tf.tasks.results import Metrics, Outputs, TaskResults, shortest_float
from bert_tf.tasks.sequences import by_example
from bert_tf.tasks.splits import SPLIT_NAMES, RowCounts, Split
from bert_tf.tasks.tables import Row
from bert_tf.tasks.task import Encoded, Task, TaskInputs
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.step.objective import Tensors

_SPLIT_NAMES = {**SPLIT_NAMES, "dev": ("dev", "val", "validation")}  # SWAG has val.csv
_FEWEST_CHOICES = 2
_SPECIAL_TOKENS = 3  # [CLS] A [SEP] B [SEP]
# The score of a choice that an example does not have. Its softmax is 0 in float32.
MISSING_CHOICE = -1e9


@dataclasses.dataclass(frozen=True)
class ChoiceFacts(TaskFacts):
    """The facts about a `ChoiceTask` that are saved with the weights."""

    # The number of sequences in a record depends on all files that a run reads, also on
    # the files to predict.
    num_choices: int = dataclasses.field(default=_FEWEST_CHOICES, metadata=ROOM)


class ChoiceObjective(HeadObjective):
    """Mean cross entropy of the softmax over the choices of each example.

    The score of a choice is the dot product of a trained vector with the pooled output
    of its sequence.

    Source: the BERT paper, section 4.4.
    """

    def _run_model(self, batch: Tensors, training: bool = False) -> Tensors:
        logits = super()._run_model(batch, training)["logits"]
        exists = ops.arange(logits.shape[-1]) < batch["num_choices"][:, None]
        return {"logits": ops.where(exists, logits, MISSING_CHOICE)}


class ChoiceResults(TaskResults):
    """Computes accuracy and cross entropy; writes the probabilities of the choices.

    The predicted choice is the first one with the highest probability. Each line of
    `test_results.tsv` has the probabilities of the choices of an example, separated by
    tabs. `predictions.jsonl` also has the texts and, if it is known, the label.
    """

    file_names = ("test_results.tsv", "predictions.jsonl")
    scores_predictions = True

    def __init__(self) -> None:
        super().__init__()
        self._correct = 0
        self._loss = 0.0
        self._labels: Counter[int] = Counter()

    def score(self, example: ChoiceExample, prediction: Outputs) -> None:
        """Adds an example to the metrics; ignores an example without a label."""
        if example.label is None:
            return

        count = len(example.choices)
        logits: np.ndarray = prediction["logits"][:count].astype(np.float64)
        best = int(prediction["probabilities"][:count].argmax())
        self._loss += float(np.logaddexp.reduce(logits) - logits[example.label])
        self._correct += best == example.label
        self._count += 1
        self._labels[example.label] += 1

        self._add_sample(
            f"context:   {example.context}\n"
            f"predicted: {example.choices[best]}\n"
            f"correct:   {example.choices[example.label]}\n"
        )

    def metrics(self) -> Metrics:
        """Returns accuracy and loss; {} if no example has a label."""
        if not self._count:
            return {}
        return {
            "accuracy": self._correct / self._count,
            "loss": self._loss / self._count,
        }

    def baseline(self) -> Metrics:
        """Returns the accuracy of always predicting the position that is most often correct."""
        return {"accuracy": max(self._labels.values()) / self._count}

    def report(self) -> str:
        """Returns the accuracy, and predicted and correct choices of some examples."""
        accuracy = self.metrics()["accuracy"]
        baseline = self.baseline()["accuracy"]
        return (
            f"accuracy {accuracy:.4f}; {baseline:.4f} if the choice at the most "
            f"frequent position is always predicted\n\n{super().report()}"
        )

    def lines(self, example: ChoiceExample, prediction: Outputs) -> tuple[str, str]:
        """Returns the line of an example for each of the two `file_names`."""
        row = _as_json(example, prediction)
        numbers = "\t".join(map(str, row["probabilities"]))
        return f"{numbers}\n", f"{json.dumps(row, ensure_ascii=False)}\n"

    def error(
        self, example: ChoiceExample, prediction: Outputs
    ) -> tuple[float, Row] | None:
        """Returns how bad a wrong prediction is (its probability), and the row of the example."""
        row = _as_json(example, prediction)
        is_right = example.label in (None, row["predicted"])
        return None if is_right else (row["probability"], row)


def _as_json(example: ChoiceExample, prediction: Outputs) -> Row:
    """Returns the texts, the label if it is known, and the prediction."""
    probabilities = prediction["probabilities"][: len(example.choices)]
    best = int(probabilities.argmax())
    return {
        **example.as_row(),
        "predicted": best,
        "choice": example.choices[best],
        "probability": shortest_float(probabilities[best]),
        "probabilities": [shortest_float(value) for value in probabilities],
    }


@dataclasses.dataclass(frozen=True)
class ChoiceTask(Task):
    """Selects one of several texts for each context.

    The score of a choice depends neither on the other choices of its example nor on
    `num_choices`.

    Attributes:
        num_choices: C, the number of sequences in a record: at least the number of
            choices of each example. `prepare` sets it. The facts contain it for
            information.
    """

    num_choices: int = _FEWEST_CHOICES

    name = "swag"
    table = record_format.CHOICE
    best_by = ("accuracy", 1)
    prediction_files = (
        *ChoiceResults.file_names,
        "test_results.txt",
        "test_report.txt",
    )
    split_names = _SPLIT_NAMES

    def prepare(self, inputs: TaskInputs) -> "ChoiceTask":
        """Returns a copy with enough `num_choices` for all files that the run reads.

        Reads the files once, and holds no example in memory.

        Raises:
            InputError: A file is missing or malformed, or the labels are counted from
                1.
        """
        location = inputs.location
        splits = [
            dataclasses.replace(split, limit=location.limit(kind))
            for kind in inputs.phases.kinds
            for split in self.splits(kind, location)
        ]

        most = _FEWEST_CHOICES
        labels = set()
        for split in splits:
            for example in self.read(split, RowCounts()):
                most = max(most, len(example.choices))
                labels.add(example.label)

        # A file of a few rows may lack the label 0, but all files of a run together
        # hardly do.
        if {1, 2} <= labels and 0 not in labels:
            raise InputError(
                f"The labels of {splits[0].source.name} run from 1, and none is 0, the "
                "index of the first choice. Subtract 1 from each label, or write "
                "letters from A. If the labels are right, move the correct choice of "
                "an example to the start."
            )
        return ChoiceTask(most)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of sequences in a record, C."""
        return {"C": self.num_choices}

    @property
    def facts(self) -> ChoiceFacts:
        """Facts about the task; see `tasks.task.Task`."""
        return ChoiceFacts(self.name, "choice", num_choices=self.num_choices)

    def examples(self, split: Split, counts: Counter[str]) -> Iterator[ChoiceExample]:
        """Yields the examples of a split; see `read_examples`."""
        form = split.source.table_format
        return read_examples(split.source.name, split.kind, counts, form)

    def labels_of(self, example: ChoiceExample) -> Sequence[str]:
        """Returns the index of the correct choice as text; see `tasks.task.Task`."""
        return ["" if example.label is None else str(example.label)]

    def encode(
        self,
        examples: Sequence[ChoiceExample],
        tokenizer: BertTokenizer,
        max_seq_length: int,
    ) -> Encoded:
        """Converts a block of N examples to N records; a missing label becomes 0.

        Each sequence is [CLS] context [SEP] choice [SEP]. If a sequence is too long,
        tokens are removed from the end of the longer text. If an example has fewer than
        C choices, its last sequences have no tokens.

        Returns:
            The columns of `record_format.CHOICE`, and two counts: "truncated" is the
            number of examples with a sequence that is too long, and "with an empty
            text" is the number of examples in which a text has no token.
        """
        per_example = np.array([len(example.choices) for example in examples], np.int64)
        # The example of each sequence: [R]
        row: np.ndarray = np.repeat(np.arange(len(examples)), per_example)

        contexts = tokenizer.tokenize([example.context for example in examples])
        choices = tokenizer.tokenize(
            [text for example in examples for text in example.choices]
        )
        packed = tokenizer.pack(tf.gather(contexts, row), choices, max_seq_length)

        # From sequences to examples: [R, S] -> [N, C, S]
        exists = np.arange(self.num_choices) < per_example[:, None]  # [N, C]
        columns = by_example(packed, exists, tokenizer.pad_id)
        columns["num_choices"] = per_example
        columns["label_ids"] = np.array(
            [example.label or 0 for example in examples], np.int64
        )

        # The report counts examples, not sequences.
        lengths_a = contexts.row_lengths().numpy()[row]
        lengths_b = choices.row_lengths().numpy()
        is_cut = lengths_a + lengths_b > max_seq_length - _SPECIAL_TOKENS
        is_empty = (lengths_a == 0) | (lengths_b == 0)
        counts = {
            "truncated": len(np.unique(row[is_cut])),
            "with an empty text": len(np.unique(row[is_empty])),
        }
        return Encoded(columns, counts=counts)

    def make_objective(self, config: BertConfig, **options: Any) -> ChoiceObjective:
        """Builds the model and its loss; see `tasks.task.Task`."""
        return ChoiceObjective(BertMultipleChoice(config, **options), self.best_by)

    def make_results(self, split: Split) -> ChoiceResults:
        """Returns the object that computes the metrics, and writes the predictions."""
        return ChoiceResults()
