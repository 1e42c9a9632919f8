"""`EmbeddingTask`: vectors of texts, for similarity and search.

Shape letters: N examples, C texts of a record, S sequence length, D size of a vector.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf import record_format
from bert_tf.config import BertConfig
from bert_tf.errors import InputError
from bert_tf.modeling import BertEncoder
from bert_tf.saved_task import ROOM, SETTING, TaskFacts
from bert_tf.tasks.embedding.embedding_objective import EmbeddingObjective
from bert_tf.tasks.embedding.embedding_settings import EmbeddingSettings
from bert_tf.tasks.embedding.losses import BatchLoss
from bert_tf.tasks.embedding.search_data import (
    SearchSource,
    SearchText,
    find_source,
    is_search_folder,
)
from bert_tf.tasks.embedding.search_results import SearchResults
from bert_tf.tasks.embedding.similarity_results import SimilarityResults
from bert_tf.tasks.embedding.text_rows import PairColumns, TextRow, read_rows
from bert_tf.tasks.results import TaskResults
from bert_tf.tasks.sequences import by_example
from bert_tf.tasks.splits import DataLocation, FileSource, RowCounts, Split
from bert_tf.tasks.tables import Row
from bert_tf.tasks.task import TRUNCATED, Encoded, Task, TaskInputs
from bert_tf.tokenization import BertTokenizer

_SPECIAL_TOKENS = 2  # [CLS] text [SEP]
_SAMPLE_SEED, _SAMPLED_QUERIES = 0, 500


@dataclasses.dataclass(frozen=True)
class EmbeddingFacts(TaskFacts):
    """The facts about an `EmbeddingTask` that are saved with the weights.

    `embedding` has the pooling and the prompts, and `loss` the settings of the loss.
    """

    embedding: Mapping[str, Any] | None = dataclasses.field(
        default=None, metadata=SETTING
    )
    loss: Sequence[Any] | None = dataclasses.field(default=None, metadata=SETTING)
    texts_per_record: int = dataclasses.field(default=2, metadata=ROOM)


@dataclasses.dataclass(frozen=True)
class EmbeddingTask(Task):
    """Trains vectors of texts: pairs, pairs with negatives, or pairs with scores.

    The vector of a text is a pooled output of the encoder, with length 1. Data are
    tables in the forms that other tasks read. With scores, the evaluation correlates
    cosines and scores. Without scores, it is a search: in a folder in the form of BEIR,
    or in the second texts of all pairs. During training, only a sample of the queries
    is evaluated, in the documents that are relevant to them.

    Attributes:
        columns: The columns of the texts and of the score.
        settings: The loss, the pooling and the prompts.
        searches: Whether a record is a text of search data.
        max_seq_length: The number of tokens of a text; `prepare` sets it.
        batch_size: The number of rows of a batch in training; `prepare` sets it.
    """

    columns: PairColumns = PairColumns()  # noqa: RUF009 it is immutable
    settings: EmbeddingSettings = EmbeddingSettings()  # noqa: RUF009 it is immutable
    searches: bool = False
    max_seq_length: int | None = None
    batch_size: int = 1

    name = "embedding"
    table = record_format.EMBEDDING
    # All texts of a batch are compared. In batches of similar lengths, the length would
    # be a hint.
    groups_by_length = False
    compares_with_initial = True
    prediction_files = (
        *SimilarityResults.file_names,
        "test_results.txt",
        "test_report.txt",
    )

    @property
    def has_scores(self) -> bool:
        """Whether the rows have scores."""
        return self.columns.score is not None

    @property
    def best_by(self) -> tuple[str, int]:  # type: ignore[override]
        """The metric that selects the best weights."""
        return ("spearman", 1) if self.has_scores else ("ndcg_at_10", 1)

    def prepare(self, inputs: TaskInputs) -> "EmbeddingTask":
        """Returns a copy with the settings of a trained model and the size of a batch."""
        loss = self.settings.loss_of(self.has_scores)
        facts = inputs.trained or inputs.initial
        settings = self.settings.with_defaults(facts.get("embedding", {}))
        batch_size = inputs.global_batch_size

        # Without training, the loss is that of the training, if it fits the data.
        kind, *values = inputs.trained.get("loss", ("",))
        if kind == loss:
            scale, both_directions, batch_size = values
            sizes = facts.get("embedding", {}).get("dimensions", ())
            settings = dataclasses.replace(
                settings,
                scale=scale,
                both_directions=both_directions,
                dimensions=tuple(sizes),
            )
        return dataclasses.replace(
            self,
            settings=settings,
            max_seq_length=inputs.max_seq_length,
            batch_size=batch_size,
        )

    def of_teacher(
        self, facts: Mapping[str, Any], config: BertConfig, student: BertConfig
    ) -> "EmbeddingTask":
        """Returns the task with the pooling of a teacher; see `tasks.task.Task`.

        Raises:
            InputError: The teacher has other prompts, or vectors of another size.
        """
        if config.hidden_size != student.hidden_size:
            raise InputError(
                f"The vectors of the teacher have {config.hidden_size} values, and those "
                f"of the model {student.hidden_size}. Give a model with hidden_size "
                f"{config.hidden_size}, such as blocks of the teacher (init_layers)."
            )
        embedding = facts.get("embedding", {})
        other = EmbeddingSettings().with_defaults(embedding)
        if other.prompts != self.settings.prompts:
            raise InputError(
                f"The teacher has the prompts {other.prompts}, and the model has "
                f"{self.settings.prompts}. Both must read the same texts: give the "
                "prompts of the teacher."
            )
        settings = dataclasses.replace(self.settings, pooling=other.pooling)
        return dataclasses.replace(self, settings=settings)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of texts in a record, C."""
        return {"C": 1 if self.searches else len(self.columns.texts)}

    @property
    def held_out_split(self) -> int:  # type: ignore[override]
        """The index of the dev split that is evaluated during training: a sample, for search."""
        return 0 if self.has_scores else 1

    @property
    def facts(self) -> EmbeddingFacts:
        """Facts about the task; see `tasks.task.Task`."""
        settings = self.settings
        return EmbeddingFacts(
            self.name,
            "embedding",
            embedding=settings.facts(self.max_seq_length),
            loss=[
                settings.loss_of(self.has_scores),
                settings.scale,
                settings.both_directions,
                self.batch_size,
            ],
            texts_per_record=len(self.columns.texts),
        )

    def splits(self, kind: str, location: DataLocation) -> Sequence[Split]:
        """Returns the table of a kind, a part of the train table, or search data.

        Search data also has a sample for evaluations during training.
        """
        in_folder = kind != "train" and is_search_folder(kind, location)
        if in_folder and location.part(kind):
            raise InputError(
                f"{location.data_dir} has the {kind} split, and eval_fraction and "
                "test_fraction take parts of the train file. Leave them out."
            )
        if (kind == "dev" and not self.has_scores) or (kind == "test" and in_folder):
            pair = (self.columns.text_a, self.columns.text_b)
            search = find_source(kind, location, pair)
            sample = search.sampled(_SAMPLE_SEED, _SAMPLED_QUERIES)
            samples = [Split(kind, sample, "sample")] if kind == "dev" else []
            return [Split(kind, search), *samples]

        part = location.part(kind)
        path = location.find_table("train" if part else kind)
        selection = (*self.columns.texts, self.columns.score)
        if self.has_scores:
            selection += (f"max_score={self.settings.max_score}",)
        source = FileSource(path, selection, part, location.table_format)
        return [Split(kind, source)]

    def read(self, split: Split, counts: RowCounts) -> Iterator[TextRow | SearchText]:
        """Yields the rows of a split, or the texts of search data.

        The limit of search data is that of the queries.
        """
        if isinstance(split.source, SearchSource):
            return split.source.examples(counts, split.limit)
        return super().read(split, counts)

    def examples(self, split: Split, counts: RowCounts) -> Iterator[TextRow]:
        """Yields the rows of a split; see `read_rows`."""
        return read_rows(split, self.columns, self.settings.max_score, counts)

    def as_row(self, example: TextRow | SearchText) -> Row:
        """Returns {}: an export of vectors has no metric of labelled examples."""
        return {}

    def for_split(self, split: Split) -> "EmbeddingTask":
        """Returns the task that encodes a split: rows of a table, or texts of search data."""
        searches = isinstance(split.source, SearchSource)
        return dataclasses.replace(self, searches=searches)

    def encode(
        self,
        examples: Sequence[TextRow | SearchText],
        tokenizer: BertTokenizer,
        max_seq_length: int,
    ) -> Encoded:
        """Converts a block of N examples to N records; a missing score becomes 0.

        Each text is a sequence [CLS] prompt text [SEP], and a missing text has no
        tokens.

        Returns:
            The columns of `record_format.EMBEDDING`, and two counts: "truncated" is the
            number of examples with a text that is too long, and "with an empty text"
            the number of examples in which a given text has no token.
        """
        rows = [self._with_prompts(example) for example in examples]
        texts = [text for row in rows for text in row if text]
        exists = np.array([[bool(text) for text in row] for row in rows], bool)
        exists = exists.reshape(len(rows), self.sizes["C"])
        ids = tokenizer.tokenize(texts)
        packed = tokenizer.pack(ids, None, max_seq_length)

        # From sequences to examples: [R, S] -> [N, C, S]
        columns = by_example(packed, exists, tokenizer.pad_id)
        keys: np.ndarray = np.zeros([*exists.shape, 2], np.int64)
        keys[exists] = _keys(columns["input_ids"][exists])
        columns["text_keys"] = keys
        columns["label_ids"] = np.array(
            [getattr(example, "score", None) or 0 for example in examples], np.float32
        )

        # The report counts examples, not texts.
        lengths: np.ndarray = np.ones(exists.shape, np.int64)
        lengths[exists] = ids.row_lengths().numpy()
        counts = {
            TRUNCATED: int((lengths > max_seq_length - _SPECIAL_TOKENS).any(1).sum()),
            "with an empty text": int((lengths == 0).any(1).sum()),
        }
        return Encoded(columns, counts=counts)

    def _with_prompts(self, example: TextRow | SearchText) -> list[str]:
        """Returns the texts of a record; a single text of an unlabelled file is followed by ""."""
        first, other = self.settings.prompt_a or "", self.settings.prompt_b or ""
        if isinstance(example, SearchText):
            prompt = first if example.relevance is not None else other
            return [prompt + example.text]
        text, *others = example.texts
        return [first + text, *(each and other + each for each in others)]

    def make_objective(self, config: BertConfig, **options: Any) -> EmbeddingObjective:
        """Builds the model and its loss; see `tasks.task.Task`."""
        encoder = BertEncoder(config, **options)
        loss = self._loss(config.hidden_size)
        pooling = self.settings.pooling or "mean"
        return EmbeddingObjective(encoder, loss, pooling, self.best_by)

    def _loss(self, full_size: int) -> BatchLoss:
        settings = self.settings
        too_large = [size for size in settings.dimensions if size > full_size]
        if too_large:
            raise InputError(
                f"The vectors of the model have {full_size} values, so dimensions cannot "
                f"have {too_large[0]}. Give sizes of at most {full_size}."
            )
        return BatchLoss(
            settings.loss_of(self.has_scores),
            settings.scale,
            settings.both_directions,
            tuple(dict.fromkeys((full_size, *settings.dimensions))),
        )

    def make_results(self, split: Split) -> TaskResults:
        """Returns the object that computes the metrics, and writes the predictions."""

        def loss_of(values: Mapping[str, np.ndarray]) -> np.ndarray:
            loss = self._loss(values["vectors"].shape[-1])
            return np.asarray(loss.of_rows(values)["loss"])

        if isinstance(split.source, SearchSource):
            # A loss for scores is not defined for search.
            return SearchResults(None if self.has_scores else loss_of, self.batch_size)
        return SimilarityResults(loss_of, self.batch_size, self.settings.max_score)


def _keys(ids: np.ndarray) -> np.ndarray:
    """Returns 61 bits of a hash of each row of ids, [R, S], as two numbers: int64 [R, 2].

    Equal rows have equal numbers. In 10 million different rows, the probability that
    two rows have equal numbers is about 2e-5.
    """
    digests = [
        int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "big")
        for row in ids
    ]
    mask = (1 << 31) - 1
    # A missing text has zeros.
    pairs = [(each >> 33, (each & mask) | 1) for each in digests]
    return np.array(pairs, np.int64).reshape(-1, 2)
