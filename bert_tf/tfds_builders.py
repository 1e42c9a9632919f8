"""Opens data sets of tensorflow-datasets, and converts its errors to `InputError`."""

from typing import Any

from bert_tf.errors import InputError, Path

_MAX_REASON = 200


def open_builder(name: str, data_dir: Path | None, prepare: bool = False) -> Any:
    """Returns the `tfds.core.DatasetBuilder` of a data set, such as "glue/mrpc".

    A `data_dir` of None or "" means the default folder of tensorflow-datasets. If
    `prepare` is true, the data set is downloaded and prepared if needed.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=data_dir or None)
        if prepare:
            builder.download_and_prepare()
    except Exception as error:  # raised by the data set, or by the network
        # Only the first line of the message, because the other lines list all data
        # sets.
        reason = str(error).strip().split("\n")[0][:_MAX_REASON]
        if isinstance(error, ModuleNotFoundError) and error.name:
            # tensorflow-datasets does not install all packages that its data sets need.
            reason = (
                f"{reason}. Install it with: pip install {error.name.split('.')[0]}"
            )
        raise InputError(f"tensorflow-datasets cannot load {name}: {reason}") from error
    return builder
