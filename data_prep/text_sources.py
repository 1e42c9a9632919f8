"""Lines of text from what a user has: text files, .gz, TFRecords, tensorflow-datasets.

Imports `errors` and `files`; TensorFlow inside functions.
"""

import dataclasses
import os
from typing import Any

from bert_tf import files
from bert_tf.errors import InputError, plain_message

_RECORD_ENDINGS = (".tfrecord", ".tfrecords", ".tf_record", ".record")


@dataclasses.dataclass(frozen=True)
class TextSource:
    """Where the text is.

    Attributes:
        input_file: Comma list of globs: text files, a text a line, or TFRecords of
            `tf.train.Example` (by the ending, .tfrecord or .tf_record); either may end in .gz.
        tfds_name: Name of a tensorflow-datasets data set and its split, such as
            "lm1b:train"; instead of `input_file`.
        text_feature: The feature that holds the text, in TFRecords and tensorflow-datasets.
        tfds_data_dir: Folder of prepared tensorflow-datasets, or None for its default.
    """

    input_file: str | None = None
    tfds_name: str | None = None
    text_feature: str = "text"
    tfds_data_dir: str | None = None

    def __post_init__(self) -> None:
        if bool(self.input_file) == bool(self.tfds_name):
            raise InputError("Give either input_file or tfds_name, one of the two.")


def texts(source: TextSource) -> tuple[Any, int | None]:
    """The texts, in the order of the files, each of them once.

    Args:
        source: Where they are.

    Returns:
        A `tf.data.Dataset` of strings, and the size of the text in bytes if it is known.

    Raises:
        InputError: Nothing is there, or it has no such feature.
    """
    if source.tfds_name:
        return _from_tfds(source, source.tfds_name), None
    paths = files.expand(source.input_file or "")
    datasets = [_from_file(path, source.text_feature) for path in paths]
    dataset = datasets[0]
    for each in datasets[1:]:
        dataset = dataset.concatenate(each)
    plain = not any(path.endswith(".gz") or _is_records(path) for path in paths)
    return dataset, sum(map(_size, paths)) if plain else None


def _size(path: str) -> int:
    import tensorflow as tf

    return tf.io.gfile.stat(path).length


def _is_records(path: str) -> bool:
    name = os.path.basename(path).removesuffix(".gz")
    return name.endswith(_RECORD_ENDINGS) or ".tfrecord-" in name or ".tf_record-" in name


def _from_file(path: str, feature: str) -> Any:
    import tensorflow as tf

    if tf.io.gfile.isdir(path):
        raise InputError(f"{path} is a folder. Give the files in it: {path.rstrip('/')}/*")
    compression = "GZIP" if path.endswith(".gz") else ""
    _check_readable(path, compression)
    if not _is_records(path):
        return tf.data.TextLineDataset(path, compression)
    dataset = tf.data.TFRecordDataset(path, compression)
    for example in dataset.take(1):
        found = tf.train.Example.FromString(example.numpy()).features.feature
        if not found[feature].bytes_list.value:
            raise InputError(
                f"{path} has no text in a feature {feature!r}. It has: {', '.join(sorted(found))}."
            )
    spec = {feature: tf.io.RaggedFeature(tf.string)}
    parsed = dataset.batch(256).map(lambda batch: tf.io.parse_example(batch, spec)[feature].values)
    return parsed.unbatch()


def _check_readable(path: str, compression: str) -> None:
    """Reads the first line or record.

    Raises:
        InputError: The file is not what its name says.
    """
    import tensorflow as tf

    kind = tf.data.TFRecordDataset if _is_records(path) else tf.data.TextLineDataset
    try:
        list(kind(path, compression).take(1))
    except tf.errors.OpError as error:
        raise InputError(
            f"{path} cannot be read as its name says (.gz is compressed, .tfrecord holds records): "
            f"{plain_message(error)}."
        ) from error


def _from_tfds(source: TextSource, name: str) -> Any:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    name, _, split = name.partition(":")
    try:
        dataset = tfds.load(
            name, split=split or "train", data_dir=source.tfds_data_dir, shuffle_files=False
        )
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise InputError(f"tensorflow-datasets cannot load {name}: {error}") from error
    if source.text_feature not in dataset.element_spec:
        features = ", ".join(sorted(dataset.element_spec))
        raise InputError(
            f"{name} has no feature {source.text_feature!r}. It has: {features}. Set text_feature."
        )
    dataset = dataset.map(lambda example: example[source.text_feature])
    # A document of several lines is tokenized line by line, as a text file would be.
    return dataset.map(lambda text: tf.strings.split(text, "\n")).unbatch()
