"""The interface of a fine-tuning task."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bert_tf import features
from bert_tf.config import BertConfig
from bert_tf.training.step.objective import Objective

if TYPE_CHECKING:
    from bert_tf.tokenization import BertTokenizer

SPLITS = ("train", "dev", "test")


class TaskObjective(Objective, Protocol):
    """A training objective that can also compute predictions."""

    @property
    def model(self) -> Any:
        """The Keras model."""

    def outputs(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the model without dropout; returns its predictions as tensors [B, ...], by name."""


class Task(Protocol):
    """Reads a data set, converts it to records, and evaluates the model's predictions."""

    @property
    def name(self) -> str:
        """The value of --task_name, in lower case."""

    @property
    def table(self) -> features.Table:
        """The features of a record."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts about the task, such as the labels.

        The facts are saved with the weights, and are used by exports.
        """

    def read(self, data_dir: str, split: str) -> Sequence[Any]:
        """Reads the examples of one of `SPLITS`.

        Raises:
            InputError: A file is missing, or a line is malformed. The message contains the number
                of the malformed line.
        """

    def encode(
        self, examples: Sequence[Any], tokenizer: "BertTokenizer", max_seq_length: int
    ) -> dict[str, np.ndarray]:
        """Returns the columns of N examples: for each feature in `table`, an array [N, ...]."""

    def make_objective(
        self, config: BertConfig, *, seed: int, dtype: str, recompute: bool = False
    ) -> TaskObjective:
        """Builds the model and its loss.

        Args:
            config: The architecture.
            seed: Determines the initial weights.
            dtype: A Keras dtype policy, such as "mixed_bfloat16".
            recompute: Whether to use gradient checkpointing; see `RuntimeConfig`.
        """

    def metrics(
        self, columns: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Computes metrics from the columns of a labelled split and the outputs of the model."""

    def write_predictions(
        self, folder: str, examples: Sequence[Any], outputs: Mapping[str, np.ndarray]
    ) -> str:
        """Writes the predictions for the test split in the format of the task.

        Returns:
            The path of the written file.
        """
