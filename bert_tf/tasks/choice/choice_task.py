"""`ChoiceTask`: the best of several texts, such as the continuation of a sentence in SWAG."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf import features
from bert_tf.config import BertConfig
from bert_tf.errors import check_at_least
from bert_tf.tasks.choice import encoding
from bert_tf.tasks.choice.examples import ENDINGS, ChoiceExample, read_examples
from bert_tf.tasks.choice.results import ChoiceResults, texts_and_label
from bert_tf.tasks.splits import SPLIT_NAMES, DataLocation, Split
from bert_tf.tasks.task import Encoded, Task

if TYPE_CHECKING:
    from bert_tf.tasks.choice.choice_objective import ChoiceObjective
    from bert_tf.tokenization import BertTokenizer

_SPLIT_NAMES = {**SPLIT_NAMES, "dev": ("dev", "val", "validation")}  # SWAG has val.csv
_FEWEST_CHOICES = 2


@dataclasses.dataclass(frozen=True)
class ChoiceTask(Task):
    """Selects one of several texts for each context.

    The score of a choice depends neither on the other choices of its example nor on `num_choices`.

    Attributes:
        num_choices: C, the number of sequences in a record: at least the number of choices of each
            example. The facts contain it for information.

    Raises:
        InputError: `num_choices` is less than 2.
    """

    num_choices: int = _FEWEST_CHOICES

    name = "swag"
    table = features.CHOICE
    best_by = ("accuracy", 1)
    prediction_files = ChoiceResults.file_names
    split_names = _SPLIT_NAMES
    endings = ENDINGS

    def __post_init__(self) -> None:
        check_at_least(_FEWEST_CHOICES, self, "num_choices")

    @property
    def sizes(self) -> dict[str, int]:
        """The number of sequences in a record, C."""
        return {"C": self.num_choices}

    @property
    def facts(self) -> dict[str, Any]:
        """JSON values about the task; see `tasks.task.Task`."""
        return {"task": self.name, "task_type": "choice", "num_choices": self.num_choices}

    def examples(self, split: Split, counts: Counter[str]) -> Iterator[ChoiceExample]:
        """Yields the examples of a split; see `read_examples`."""
        return read_examples(split.source.name, split.kind, counts)

    def as_row(self, example: ChoiceExample) -> dict[str, Any]:
        """Returns the texts and the label of an example; see `tasks.task.Task`."""
        return texts_and_label(example)

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: "BertTokenizer", max_seq_length: int
    ) -> Encoded:
        """Converts a block of N examples to N records; see `encoding.encode`."""
        return encoding.encode(examples, tokenizer, max_seq_length, self.num_choices)

    def make_objective(self, config: BertConfig, **options: Any) -> "ChoiceObjective":
        """Builds the model and its loss; see `tasks.task.Task`."""
        from bert_tf.modeling import BertMultipleChoice
        from bert_tf.tasks.choice.choice_objective import ChoiceObjective

        return ChoiceObjective(BertMultipleChoice(config, **options), self.best_by)

    def make_results(self, split: Split) -> ChoiceResults:
        """Returns the object that computes accuracy and loss, and writes the predictions."""
        return ChoiceResults()


def task_for(location: DataLocation, kinds: Iterable[str]) -> ChoiceTask:
    """Returns the task whose records have room for all choices of some splits.

    Reads the files once, and holds no example in memory.

    Args:
        location: The place of the data set.
        kinds: The splits to read, each one of `splits.KINDS`.

    Raises:
        InputError: A file is missing or malformed.
    """
    task = ChoiceTask()
    splits = [
        dataclasses.replace(split, limit=location.limit(kind))
        for kind in kinds
        for split in task.splits(kind, location)
    ]
    sizes = (len(each.choices) for split in splits for each in task.read(split, Counter()))
    return ChoiceTask(max(sizes, default=_FEWEST_CHOICES))
