"""`NerTask`: named-entity recognition, and its loss.

Shape letters: B batch, S sequence, C tags.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from keras import ops

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.errors import InputError, check_choice
from bert_tf.head_config import HeadConfig
from bert_tf.modeling import BertTagger
from bert_tf.saved_task import SETTING, TaskFacts
from bert_tf.tasks import tables
from bert_tf.tasks.distillation_loss import divergence
from bert_tf.tasks.head_objective import HeadObjective, weighted
from bert_tf.tasks.ner import conll, json_sentences, ner_encoding, schemes
from bert_tf.tasks.ner.conll import Columns
from bert_tf.tasks.ner.ner_examples import NerExample, SplitSummary
from bert_tf.tasks.ner.ner_results import NerResults
from bert_tf.tasks.splits import DataLocation, RowCounts, Split
from bert_tf.tasks.tables import Row
from bert_tf.tasks.task import Encoded, Task, TaskInputs
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.step.losses import correct_predictions, cross_entropy
from bert_tf.training.step.objective import Tensors

# The names of split files without their endings, by kind. "eng.train", "eng.testa" and
# "eng.testb" are the names of the CoNLL-2003 shared task.
_STEMS = {
    "train": ("train", "eng.train"),
    "dev": ("dev", "valid", "validation", "testa", "eng.testa"),
    "test": ("test", "testb", "eng.testb"),
}
_JSON_ENDINGS = (".jsonl", ".json")
# The endings of the files that are found in `data_dir`. Files with other endings, such
# as .csv and .json, may be next to them for other programs, so they are read only if
# they are given.
_ENDINGS = ("", ".conll", ".txt", ".bio", ".iob", ".iob2", ".bmes", ".tsv", ".jsonl")
_PREDICTIONS, _JSON_PREDICTIONS = "predictions.conll", "predictions.jsonl"
FORBIDDEN = "tags in an order that their scheme forbids, read as conlleval reads them"


@dataclasses.dataclass(frozen=True)
class NerFacts(TaskFacts):
    """The facts about a `NerTask` that are saved with the weights."""

    scheme: str = "iob2"
    document_context: bool = dataclasses.field(default=False, metadata=SETTING)
    head: HeadConfig | None = None


class NerObjective(HeadObjective):
    """The mean cross entropy over the words of a batch that have a label.

    Source: the BERT paper, section 5.3: the first sub-token of each word has the label.
    The other positions ([CLS], [SEP], further sub-tokens, document context and padding)
    are ignored.
    """

    _unit = "words"  # loss and accuracy are means over words

    def counts(self, batch: Tensors) -> Tensors:
        """Returns the number of words with a label; each record has at least one such word."""
        return {"words": ops.sum(_has_label(batch))}

    def sums_of_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Returns the loss and the numerators of the metrics, each summed over the batch."""
        logits = outputs["logits"]
        has_label = _has_label(batch)
        labels = ops.maximum(batch["label_ids"] - 1, 0)
        return {
            "loss": ops.sum(has_label * weighted(cross_entropy(logits, labels), batch)),
            "correct": ops.sum(has_label * correct_predictions(logits, labels)),
        }

    def logits_to_learn(self, outputs: Tensors) -> Any:
        """Returns the logits of all positions, float32 [B, S, C]."""
        return outputs["logits"]

    def teacher_losses(
        self,
        outputs: Tensors,
        teacher: Any,
        batch: Tensors,
        temperature: float,
    ) -> Any:
        """Returns for each record the sum of the divergences of its labeled words: float32 [B]."""
        losses = divergence(teacher, outputs["logits"], temperature)
        return ops.sum(_has_label(batch) * losses, axis=-1)

    def outputs(self, batch: Tensors) -> Tensors:
        """Returns `predictions` (the index of the best tag) and `label_ids`: int32 [B, S] each."""
        logits = self._run_model(batch)["logits"]
        predictions = ops.argmax(logits, axis=-1)
        return {"predictions": predictions, "label_ids": batch["label_ids"]}


def _has_label(batch: Tensors) -> Any:
    """Returns 1.0 at positions with a label, else 0.0: float32 [B, S]."""
    return ops.cast(batch["label_ids"] > 0, "float32")


@dataclasses.dataclass(frozen=True)
class NerTask(Task):
    """Predicts a tag for each word.

    The files have one word on each line (see `conll`) or, with the ending .jsonl or
    .json, one sentence on each line (see `json_sentences`).

    Attributes:
        tokenizer: The tokenizer of the model. It splits the texts of .jsonl files into
            words. `prepare` sets it.
        labels: The tags that the model predicts, in the order of its outputs. `prepare`
            sets them: those of the train split, or of the trained model.
        scheme: The scheme of `labels`, one of `schemes.SCHEMES`.
        columns: The columns of the words and of the tags.
        input_scheme: The scheme of the tags in the files, one of `schemes.SCHEMES`; or
            `detect`, to detect it for each file (see `schemes.SchemeEvidence`). The
            entities do not depend on it: it decides which tags are malformed or counted
            as forbidden, and the scheme of the predictions.
        document_context: Whether neighboring sentences of the same document fill the
            windows.
        head: The layers between the encoder and the output layer.

    Raises:
        InputError: A scheme is unknown.
    """

    tokenizer: BertTokenizer = None  # type: ignore[assignment]
    labels: tuple[str, ...] = ()
    scheme: str = "iob2"
    columns: Columns = dataclasses.field(default_factory=Columns)
    input_scheme: str = schemes.DETECT
    document_context: bool = False
    head: HeadConfig = HeadConfig()  # noqa: RUF009 it is immutable

    name = "ner"
    table = record_format.TAGGING
    first_label_id = 1  # 0: no label
    best_by = ("f1", 1)
    # The loss is the mean over the words of a batch. In batches of short sentences,
    # each word would have a larger weight.
    groups_by_length = False
    epochs_count_records = True
    prediction_files = (
        "test_results.txt",
        "test_report.txt",
        _PREDICTIONS,
        _JSON_PREDICTIONS,
    )
    split_names = _STEMS
    endings = _ENDINGS

    def __post_init__(self) -> None:
        check_choice(schemes.SCHEMES, "scheme", self.scheme)
        input_schemes = (schemes.DETECT, *schemes.SCHEMES)
        check_choice(input_schemes, "input_scheme", self.input_scheme)

    def prepare(self, inputs: TaskInputs) -> "NerTask":
        """Returns the task with its tokenizer and labels; see `tasks.task.Task`.

        Raises:
            InputError: The train file cannot be read or has no entities, or the trained
                model has no tags as labels.
        """
        task = dataclasses.replace(self, tokenizer=inputs.tokenizer, labels=())
        if inputs.phases.train:
            train_labels = inputs.in_stated_order(_train_labels(task, inputs.location))
            return dataclasses.replace(task, labels=tuple(train_labels))

        # The labels and their scheme are those of the trained model.
        labels = inputs.trained.get("labels")
        if not labels:
            raise InputError(
                "The model has no labels, so it is not a model for named entities. "
                "Give a model that run_ner trained as init_checkpoint or output_dir, "
                "or give do_train=True."
            )
        scheme = inputs.trained.get("scheme") or schemes.scheme_of_labels(labels)
        return dataclasses.replace(task, labels=tuple(labels), scheme=scheme)

    @property
    def selection(self) -> tuple[str, ...]:
        """The settings that select what is read: the columns, and the scheme of the files."""
        return (*map(str, dataclasses.astuple(self.columns)), self.input_scheme)

    @property
    def facts(self) -> NerFacts:
        """Facts about the task; see `tasks.task.Task`."""
        return NerFacts(
            self.name,
            "tagging",
            labels=self.labels,
            scheme=self.scheme,
            document_context=self.document_context,
            head=self.head,
        )

    @property
    def _file_scheme(self) -> str | None:
        return None if self.input_scheme == schemes.DETECT else self.input_scheme

    def read(self, split: Split, counts: RowCounts) -> Iterator[NerExample]:
        """Yields the examples of a split; see `tasks.task.Task`.

        A sentence of a train split with a malformed line or tag is skipped and counted.
        In other splits, such a sentence raises InputError.
        """
        summary = SplitSummary()
        for example in super().read(split, counts):
            summary.add(example)
            yield example

        scheme = self._file_scheme or self.scheme
        self._schemes[split] = summary.scheme if summary.has_tags else scheme
        if num_forbidden := summary.evidence.num_forbidden(self._file_scheme):
            counts[FORBIDDEN] += num_forbidden
        summary.report(split.source.name, counts)

    @functools.cached_property
    def _schemes(self) -> dict[Split, str]:
        """The scheme of the tags of each split that was read.

        A split without tags has `input_scheme` or, if this is "detect", `scheme`.
        """
        return {}

    def examples(self, split: Split, counts: RowCounts) -> Iterator[NerExample]:
        """Yields all sentences of a split; see `read`."""
        path = split.source.name
        encoding = split.source.table_format.encoding
        kind = split.kind
        notation_of = functools.partial(
            schemes.Notation.of,
            scheme=self._file_scheme,
            types=schemes.types_of(self.labels),
        )
        if _is_json(path):
            notation = json_sentences.find_notation(path, notation_of, encoding)
            return json_sentences.read_examples(
                path,
                kind,
                notation=notation,
                tokenizer=self.tokenizer,
                counts=counts,
                encoding=encoding,
            )

        layout = conll.find_layout(
            path, kind, columns=self.columns, notation_of=notation_of, encoding=encoding
        )
        return conll.read_examples(
            path,
            kind,
            layout=layout,
            document_context=self.document_context,
            counts=counts,
        )

    def as_row(self, example: NerExample) -> Row:
        """Returns the words and, if known, the tags in the scheme of the model."""
        row = {"tokens": list(example.words)}
        if example.tags is not None:
            row["tags"] = schemes.convert(example.tags, self.scheme)
        return row

    def encode(
        self,
        examples: Sequence[NerExample],
        tokenizer: BertTokenizer,
        max_seq_length: int,
    ) -> Encoded:
        """Converts a block of examples to records, one for each window."""
        return ner_encoding.encode(
            examples,
            tokenizer,
            max_seq_length=max_seq_length,
            labels=self.labels,
            scheme=self.scheme,
            document_context=self.document_context,
        )

    def make_objective(self, config: BertConfig, **options: Any) -> NerObjective:
        """Builds the model and its loss; see `tasks.task.Task`."""
        model = BertTagger(
            config, num_labels=len(self.labels), head=self.head, **options
        )
        return NerObjective(model, self.best_by)

    def make_results(self, split: Split) -> NerResults:
        """Returns the object that computes F1, and writes the predicted tags."""
        # The scheme of a split is known only after the split was read.
        if split not in self._schemes:
            collections.deque(self.read(split, RowCounts()), maxlen=0)
        is_json = _is_json(split.source.name)
        return NerResults(
            self.labels,
            self._schemes[split],
            split.with_suffix(_JSON_PREDICTIONS if is_json else _PREDICTIONS),
            json_sentences.render if is_json else conll.render,
        )


def _is_json(path: str) -> bool:
    return tables.ending_without_gz(path) in _JSON_ENDINGS


def _train_labels(task: NerTask, location: DataLocation) -> tuple[str, ...]:
    """Returns the labels: all tags in `task.scheme` for the entity types of the train split."""
    (split,) = task.splits("train", location)
    counts = RowCounts()
    tags = {tag for example in task.read(split, counts) for tag in example.tags or ()}
    types = schemes.types_of(tags)

    if not types:
        skipped = "".join(
            f" ({number:,} {reason})" for reason, number in counts.items()
        )
        # The notes include warnings about wrong columns.
        notes = " ".join([*counts.notes["first"], *counts.notes["warnings"], ""])
        raise InputError(
            f"{split.source.name} has no entities{skipped}, so there is nothing to "
            f"learn. {notes}Give a train file with tags such as B-PER."
        )
    return schemes.all_tags(types, task.scheme)
