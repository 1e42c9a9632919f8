"""`SimilarityResults`: the correlation of cosines with scores, and the cosines of pairs."""

import json
from collections.abc import Callable, Sequence

import numpy as np

from bert_tf.errors import InputError
from bert_tf.tasks.embedding.text_rows import TextRow
from bert_tf.tasks.results import Metrics, Outputs, TaskResults, shortest_float
from bert_tf.tasks.tables import Row

_METRICS = ("spearman", "pearson")


class SimilarityResults(TaskResults):
    """Computes "spearman" and "pearson"; writes the cosine of each pair.

    Each line of `test_results.tsv` has the cosine of a pair. `predictions.jsonl` also
    has the texts and, if it is known, the score.

    Args:
        loss_of: Returns the loss of each row of a batch, float [B], from `vectors`,
            float32 [B, C, D], and the scores `label_ids`, float32 [B].
        batch_size: The number of rows of a batch in training. The loss is the mean of
            batches of this size, in the order of the file.
        max_score: The scores of the file are those of the examples times this number.
    """

    file_names = ("test_results.tsv", "predictions.jsonl")
    scores_predictions = True

    def __init__(
        self,
        loss_of: Callable[[Outputs], np.ndarray],
        batch_size: int,
        max_score: float,
    ) -> None:
        super().__init__()
        self._loss_of = loss_of
        self._batch_size = batch_size
        self._max_score = max_score
        self._loss = 0.0
        self._block: list[tuple[np.ndarray, float]] = []
        self._cosines: list[float] = []
        self._scores: list[float] = []

    def score(self, example: TextRow, prediction: Outputs) -> None:
        """Adds an example to the metrics; ignores an example without a score."""
        if example.score is None:
            return
        self._count += 1
        self._cosines.append(_cosine(prediction))
        self._scores.append(example.score)
        self._block.append((prediction["vectors"], example.score))
        if len(self._block) == self._batch_size:
            self._flush()

    def _flush(self) -> None:
        if not self._block:
            return
        vectors, scores = zip(*self._block, strict=True)
        labels = np.array(scores, np.float32)
        losses = self._loss_of({"vectors": np.stack(vectors), "label_ids": labels})
        self._loss += float(np.sum(losses, dtype=np.float64))
        self._block = []

    def metrics(self) -> Metrics:
        """Returns the correlations and the loss; {} if no example has a score."""
        self._flush()
        if not self._count:
            return {}
        return {**self._correlations(), "loss": self._loss / self._count}

    def _correlations(self) -> Metrics:
        if self.undefined("spearman"):
            return dict.fromkeys(_METRICS, 0.0)
        import scipy.stats  # type: ignore[import-untyped]

        pair = (self._scores, self._cosines)
        return {
            "spearman": float(scipy.stats.spearmanr(*pair).statistic),
            "pearson": float(scipy.stats.pearsonr(*pair).statistic),
        }

    def undefined(self, metric: str) -> str:
        """Returns "equal scores" if all scores or all cosines are equal."""
        different = min(len(set(self._scores)), len(set(self._cosines)))
        return "" if different > 1 else "equal scores"

    def baseline(self) -> Metrics:
        """Returns the metrics of the vectors before the training."""
        return self.before_training

    def report(self) -> str:
        """Returns the correlations, and the loss with the batches of which it is the mean."""
        values = self.metrics()
        return (
            f"spearman {values['spearman']:.4f}, pearson {values['pearson']:.4f} of the "
            f"scores and cosines of {self._count:,} pairs; loss {values['loss']:.4f}, the "
            f"mean of batches of {self._batch_size:,} pairs in the order of the file\n"
        )

    def lines(self, example: TextRow, prediction: Outputs) -> Sequence[str]:
        """Returns the line of an example for each of the two `file_names`."""
        if not example.texts[1]:
            raise InputError(
                f"A cosine needs two texts, and row {self._num_lines + 1} has none in the "
                f"column {example.columns.text_b!r}. Give another text_b_column, or "
                "write a text."
            )
        row = self._as_json(example, prediction)
        return f"{row['cosine']}\n", f"{json.dumps(row, ensure_ascii=False)}\n"

    def error(self, example: TextRow, prediction: Outputs) -> tuple[float, Row] | None:
        """Returns the distance of cosine and score, and the row of the example."""
        if example.score is None:
            return None
        row = self._as_json(example, prediction)
        return abs(row["cosine"] - example.score), row

    def _as_json(self, example: TextRow, prediction: Outputs) -> Row:
        row = example.as_row()
        if example.columns.score in row:
            row[example.columns.score] = shortest_float(
                np.float32(row[example.columns.score] * self._max_score)
            )
        return {**row, "cosine": shortest_float(np.float32(_cosine(prediction)))}


def _cosine(prediction: Outputs) -> float:
    first, second = prediction["vectors"][:2].astype(np.float64)
    return float(first @ second)
