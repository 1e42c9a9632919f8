"""The contract between a task and what all tasks do alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bert_tf import features
from bert_tf.config import BertConfig
from bert_tf.tokenization import BertTokenizer
from bert_tf.training.objective import Objective

SPLITS = ("train", "dev", "test")


class TaskObjective(Objective, Protocol):
    """An objective whose model also predicts."""

    @property
    def model(self) -> Any:
        """The Keras model."""

    def outputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """What the model says of each example: tensors [B, ...], dropout off."""


class Task(Protocol):
    """Reads a data set, turns it into records, and makes something of the model's outputs."""

    @property
    def name(self) -> str:
        """As --task_name says it, in lower case."""

    @property
    def table(self) -> features.Table:
        """The features of a record."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a served model must know, such as the labels; saved with the weights."""

    def read(self, data_dir: str, split: str) -> Sequence[Any]:
        """The examples of a split of `SPLITS`.

        Raises:
            InputError: A file is missing or malformed; the message names the line.
        """

    def encode(
        self, examples: Sequence[Any], tokenizer: BertTokenizer, max_seq_length: int
    ) -> dict[str, np.ndarray]:
        """The columns of the records, each [N, ...] as `table` says."""

    def make_objective(self, config: BertConfig, recompute: bool = False) -> TaskObjective:
        """The model with its loss; `recompute` as for `BertEncoder`."""

    def metrics(
        self, columns: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """What is reported of a labelled split, from its records and the model's outputs."""

    def write_predictions(
        self, folder: str, examples: Sequence[Any], outputs: Mapping[str, np.ndarray]
    ) -> str:
        """Writes what the model says of the test split in the task's own format.

        Returns:
            The file.
        """
