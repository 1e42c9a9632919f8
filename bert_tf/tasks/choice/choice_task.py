"""`ChoiceTask`: the best of several texts, such as the continuation of a sentence in SWAG."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf import features
from bert_tf.config import BertConfig
from bert_tf.errors import check_at_least
from bert_tf.tasks.choice import encoding
from bert_tf.tasks.choice.examples import ENDINGS, ChoiceExample, read_examples
from bert_tf.tasks.choice.results import ChoiceResults, texts_and_label
from bert_tf.tasks.tables import FileSource, find_split_file
from bert_tf.tasks.task import DEV_EXAMPLES, RESULTS, DataLocation, Encoded, Split

if TYPE_CHECKING:
    from bert_tf.tasks.choice.choice_objective import ChoiceObjective
    from bert_tf.tokenization import BertTokenizer

# The names of split files without their endings, by kind; SWAG has train.csv, val.csv, test.csv.
_FILE_NAMES = {"train": ("train",), "dev": ("dev", "val", "validation"), "test": ("test",)}
_FEWEST_CHOICES = 2


@dataclasses.dataclass(frozen=True)
class ChoiceTask:
    """A `tasks.task.Task` that selects one of several texts for each context.

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
    groups_by_length = True
    records_per_example = 1.0
    output_files = (
        "eval_results.txt", "eval_report.txt", *ChoiceResults.file_names, DEV_EXAMPLES, RESULTS,
    )  # fmt: skip

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

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Returns the split of a kind; see `find_split` and `tasks.task.Task`."""
        return [find_split(kind, location)]

    def read(self, split: Split, counts: Counter[str]) -> Iterator[ChoiceExample]:
        """Yields the examples of a split; see `tasks.task.Task` and `read_examples`."""
        examples = read_examples(split.source.name, split.kind, counts)
        return itertools.islice(examples, split.limit or None)

    def as_row(self, example: ChoiceExample) -> dict[str, Any]:
        """Returns the texts and the label of an example; see `tasks.task.Task`."""
        return texts_and_label(example)

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: "BertTokenizer", max_seq_length: int
    ) -> Encoded:
        """Converts a block of N examples to N records; see `encoding.encode`."""
        return encoding.encode(examples, tokenizer, max_seq_length, self.num_choices)

    def make_objective(
        self, config: BertConfig, *, seed: int, dtype: str, recompute: bool = False
    ) -> "ChoiceObjective":
        """Builds the model and its loss; see `tasks.task.Task`."""
        from bert_tf.modeling import BertMultipleChoice
        from bert_tf.tasks.choice.choice_objective import ChoiceObjective

        model = BertMultipleChoice(config, recompute=recompute, seed=seed, dtype=dtype)
        return ChoiceObjective(model, self.best_by)

    def make_results(self, split: Split) -> ChoiceResults:
        """Returns the object that computes accuracy and loss, and writes the predictions."""
        return ChoiceResults()


def find_split(kind: str, location: DataLocation) -> Split:
    """Returns the only split of a kind.

    Without an explicit file, it is train, dev (or val, validation) or test in `data_dir`, and ends
    in `.csv` or `.jsonl`.

    Args:
        kind: One of `tasks.task.KINDS`.
        location: The place of the data set.

    Raises:
        InputError: There is no such file, or there are several.
    """
    return Split(kind, FileSource(find_split_file(kind, location, _FILE_NAMES, ENDINGS)))


def task_for(location: DataLocation, kinds: Iterable[str]) -> ChoiceTask:
    """Returns the task whose records have room for all choices of some splits.

    Reads the files once, and holds no example in memory.

    Args:
        location: The place of the data set.
        kinds: The splits to read, each one of `tasks.task.KINDS`.

    Raises:
        InputError: A file is missing or malformed.
    """
    largest = _FEWEST_CHOICES
    for kind in kinds:
        limit = location.max_train_examples if kind == "train" else location.max_eval_examples
        split = dataclasses.replace(find_split(kind, location), limit=limit)
        for example in ChoiceTask().read(split, Counter()):
            largest = max(largest, len(example.choices))
    return ChoiceTask(largest)
