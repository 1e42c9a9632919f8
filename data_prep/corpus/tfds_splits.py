"""Reads the text of tensorflow-datasets splits."""

from collections.abc import Iterator
from typing import Any

from bert_tf.data_prep.corpus.formats import no_text
from bert_tf.errors import InputError
from bert_tf.storage.files import explain_read_errors
from bert_tf.tfds_builders import open_builder


class TfdsSplit:
    """One split of a data set whose examples have a text feature.

    The data set is downloaded if needed.

    Args:
        tfds_name: Data set and split, such as "lm1b:train"; the default split is
            "train".
        data_dir: Folder of prepared data sets; if None or "", the default of
            tensorflow-datasets.
        feature: Name of the text feature.

    Attributes:
        name: Full name of the data set with its version, a colon, and the name of the
            split.
        num_examples: Number of examples of the split.
        num_bytes: Size of the examples of the split, in bytes.

    Raises:
        InputError: The data set, the split or the feature does not exist.
    """

    def __init__(self, tfds_name: str, data_dir: str | None, feature: str) -> None:
        import tensorflow as tf

        name, _, split = tfds_name.partition(":")
        self._split, self._feature = split or "train", feature
        self._builder = open_builder(name, data_dir, prepare=True)
        info = self._builder.info
        if self._split not in info.splits:
            raise InputError(
                f"{name} has no split {split}. It has: {', '.join(info.splits)}."
            )
        texts = [
            key for key, value in info.features.items() if value.tf_dtype == tf.string
        ]
        if feature not in texts:
            raise no_text(name, "feature", feature, texts)
        self.name = f"{info.full_name}:{self._split}"
        self.num_examples = info.splits[self._split].num_examples
        self.num_bytes = info.splits[self._split].num_bytes

    def texts(self, examples: str = "") -> Iterator[bytes]:
        """Reads the texts of all examples, or of those in a slice such as "[10:20]"."""
        with explain_read_errors(self.name):
            data: Any = self._builder.as_dataset(
                split=self._split + examples, shuffle_files=False
            )
            yield from data.map(
                lambda example: example[self._feature]
            ).as_numpy_iterator()
