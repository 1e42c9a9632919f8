"""`SquadTask`: answers to questions, which are spans of a context, and its loss.

Shape letters: B batch, S sequence.
"""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

from keras import ops

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import BertSpanPredictor
from bert_tf.saved_task import DECISION, SETTING, TaskFacts
from bert_tf.tasks.distillation_loss import divergence
from bert_tf.tasks.head_objective import HeadObjective, Numbers, weighted
from bert_tf.tasks.splits import DataLocation, FileSource, RowCounts, Split
from bert_tf.tasks.squad import squad_encoding
from bert_tf.tasks.squad.best_answers import AnswerFinder, AnswerSettings
from bert_tf.tasks.squad.squad_encoding import SPECIAL_TOKENS, WindowSettings
from bert_tf.tasks.squad.squad_examples import SquadExample, read_examples
from bert_tf.tasks.squad.squad_results import FILES, SquadResults
from bert_tf.tasks.tables import Row
from bert_tf.tasks.task import Encoded, Task, TaskInputs
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.step.losses import correct_predictions
from bert_tf.training.step.objective import Tensors

_TRAINING_SHUFFLE_SEED = 12345  # of google-research/bert's run_squad
_PADDING_LOGIT = -1e9


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadFacts(TaskFacts):
    """The facts about a `SquadTask` that are saved with the weights: its settings and head."""

    doc_stride: int = dataclasses.field(metadata=SETTING)
    max_query_length: int = dataclasses.field(metadata=SETTING)
    n_best_size: int = dataclasses.field(metadata=DECISION)
    max_answer_length: int = dataclasses.field(metadata=DECISION)
    version_2_with_negative: bool = dataclasses.field(metadata=SETTING)
    null_score_diff_threshold: float = dataclasses.field(metadata=DECISION)
    padding_as_released: bool = dataclasses.field(metadata=SETTING)
    f1_by: str = dataclasses.field(metadata=DECISION)
    head: HeadConfig | None = None


class SquadObjective(HeadObjective):
    """The mean cross entropy of the first and the last position of the answer.

    In a window without the answer, both positions are 0, the position of [CLS]. With
    `padding_as_released`, padding positions are classes of both softmaxes, as in
    google-research/bert, and all batches have the full length.

    Source: google-research/bert `run_squad.model_fn_builder`.
    """

    def __init__(
        self,
        model: BertSpanPredictor,
        best_by: tuple[str, int],
        padding_as_released: bool,
    ) -> None:
        super().__init__(model, best_by)
        self.full_length = padding_as_released

    def sums_of_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Returns the loss and the numerators of the metrics, each summed over the batch."""
        sums = {"loss": 0.0}
        for name in ("start", "end"):
            logits, positions = outputs[f"{name}_logits"], batch[f"{name}_positions"]
            if not self.full_length:
                logits = ops.where(
                    batch["input_mask"] > 0, logits, _PADDING_LOGIT
                )  # [B, S]

            losses = ops.sparse_categorical_crossentropy(
                positions, logits, from_logits=True
            )
            sums["loss"] += ops.sum(weighted(losses, batch)) / 2
            sums[f"{name}_correct"] = ops.sum(correct_predictions(logits, positions))
        return sums

    def logits_to_learn(self, outputs: Tensors) -> Any:
        """Returns the start and end logits of all positions, float32 [B, S, 2]."""
        return ops.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)

    def teacher_losses(
        self,
        outputs: Tensors,
        teacher: Any,
        batch: Tensors,
        temperature: float,
    ) -> Any:
        """Returns the mean of the start and end divergences per record: float32 [B].

        Padding positions are never classes, because the teacher's logits there are not
        cached.
        """
        is_token = batch["input_mask"][..., None] > 0
        both = self.logits_to_learn(outputs), teacher  # [B, S, 2] each
        own, teacher_logits = (
            ops.transpose(ops.where(is_token, x, _PADDING_LOGIT), [0, 2, 1])
            for x in both
        )  # [B, 2, S] each
        return ops.mean(divergence(teacher_logits, own, temperature), axis=-1)

    def metrics(self, sums: Numbers, counts: Numbers) -> Numbers:
        """Returns the shares of records with correct first and with correct last positions."""
        return {
            f"{name}_accuracy": sums[f"{name}_correct"] / counts["examples"]
            for name in ("start", "end")
        }

    def outputs(self, batch: Tensors) -> Tensors:
        """Returns `start_logits` and `end_logits`, float32 [B, S], and the inputs."""
        inputs = {
            name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")
        }
        return {**self.model(inputs, training=False), **inputs}


@dataclasses.dataclass(frozen=True)
class SquadTask(Task):
    """Finds the answers to questions, in data in the JSON format of SQuAD 1.1 or 2.0.

    Dev and test split are the same file: `DataLocation.test_file` or `dev_file`, or
    `dev-v1.1.json` or `dev-v2.0.json` in `data_dir`, also with `.gz`. It is the file of
    --predict_file.

    Attributes:
        tokenizer: The tokenizer of the model; answers are converted to the original
            text with it. `prepare` sets it.
        windows: The settings of the windows.
        answers: The settings of the answers.
        requires_answers: Whether each question of the dev split must have answers, for
            metrics. `prepare` sets it to True if the run evaluates.
        head: The layers between the encoder and the output layer.

    Raises:
        InputError: A setting is out of range.
    """

    tokenizer: BertTokenizer = None  # type: ignore[assignment]
    windows: WindowSettings = dataclasses.field(default_factory=WindowSettings)
    answers: AnswerSettings = dataclasses.field(default_factory=AnswerSettings)
    requires_answers: bool = False
    head: HeadConfig = HeadConfig()  # noqa: RUF009 it is immutable

    name = "squad"
    table = record_format.SPAN
    best_by = ("f1", 1)
    prediction_files = FILES

    def prepare(self, inputs: TaskInputs) -> "SquadTask":
        """Returns the task with its tokenizer; see `tasks.task.Task`.

        Raises:
            InputError: `max_seq_length` leaves no room for the context.
        """
        check_room(inputs.max_seq_length, self.windows)
        return dataclasses.replace(
            self, tokenizer=inputs.tokenizer, requires_answers=inputs.phases.evaluate
        )

    @property
    def facts(self) -> SquadFacts:
        """Facts about the task; see `tasks.task.Task`."""
        return SquadFacts(
            self.name,
            "span",
            **dataclasses.asdict(self.windows),
            **dataclasses.asdict(self.answers),
            head=self.head,
        )

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Returns the split of a kind; see `tasks.task.Task`.

        Raises:
            InputError: The file does not exist.
        """
        kind = "train" if kind == "train" else "dev"
        version = "2.0" if self.answers.version_2_with_negative else "1.1"
        location = dataclasses.replace(
            location, dev_file=location.test_file or location.dev_file
        )
        name = f"{kind}-v{version}.json"
        path = location.find_file(kind, [name, f"{name}.gz"])
        return [Split(kind, FileSource(path))]

    def read(self, split: Split, counts: RowCounts) -> Iterator[SquadExample]:
        """Yields the examples of a split; see `tasks.task.Task`.

        Training examples are in the random order of google-research/bert. The batches
        of each epoch are shuffled again.
        """
        examples = super().read(split, counts)
        if split.kind != "train":
            return examples
        shuffled = list(examples)
        random.Random(_TRAINING_SHUFFLE_SEED).shuffle(shuffled)
        return iter(shuffled)

    def examples(self, split: Split, counts: RowCounts) -> Iterator[SquadExample]:
        """Yields the examples of a split in the order of the file."""
        is_training = split.kind == "train"
        version_2 = self.answers.version_2_with_negative
        needs_answers = split.kind == "dev" and self.requires_answers

        for example in read_examples(split.source.name, is_training, version_2, counts):
            if needs_answers and example.answers is None:
                raise InputError(
                    f"{split.source.name}: question {example.id!r} has no answers, and "
                    "an evaluation needs them. Give a file with answers, or "
                    "version_2_with_negative=True for SQuAD 2.0, or use do_predict "
                    "without do_eval."
                )
            yield example

    def as_row(self, example: SquadExample) -> Row:
        """Returns the question, the context and the answers; see `tasks.task.Task`."""
        return {
            "question": example.question,
            "context": example.context,
            "answers": list(example.answers or ()),
        }

    def encode(
        self,
        examples: Sequence[SquadExample],
        tokenizer: BertTokenizer,
        max_seq_length: int,
    ) -> Encoded:
        """Converts a block of examples to records, one for each window."""
        return squad_encoding.encode(examples, tokenizer, max_seq_length, self.windows)

    def make_objective(self, config: BertConfig, **options: Any) -> SquadObjective:
        """Builds the model and its loss; see `tasks.task.Task`."""
        model = BertSpanPredictor(config, head=self.head, **options)
        return SquadObjective(model, self.best_by, self.answers.padding_as_released)

    def make_results(self, split: Split) -> SquadResults:
        """Returns the object that computes the metrics, and writes the answers."""
        finder = AnswerFinder(self.tokenizer, self.answers, self.windows.doc_stride)
        return SquadResults(self.answers, finder)


def check_room(max_seq_length: int, settings: WindowSettings) -> None:
    """Raises InputError unless a window has room for the context after the longest question."""
    longest = settings.max_query_length + SPECIAL_TOKENS
    if max_seq_length <= longest:
        raise InputError(
            f"max_seq_length must be greater than max_query_length + {SPECIAL_TOKENS} "
            f"= {longest}, so that a window has room for the context. Received: "
            f"{max_seq_length}."
        )
