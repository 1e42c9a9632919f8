"""`DIALECTS`: the reader and the writer of each dialect (checkpoint format)."""

import dataclasses
from collections.abc import Callable

from bert_tf.conversion import google, hugging_face, model_garden, weights_folder
from bert_tf.conversion.checkpoint_contents import CheckpointContents


@dataclasses.dataclass(frozen=True)
class Dialect:
    """The reader and the writer of one checkpoint dialect.

    Attributes:
        read: Function `read(path, slots)` that reads the checkpoint at `path`, which has no
            trailing slash. If `slots` is true, the function also reads Adam's moments. The function
            returns None if there is no checkpoint of this dialect at the path.
        write: Function `write(folder, contents)` that writes a checkpoint to `folder`, which is
            empty. The function returns the path of the checkpoint, as `read_weights` accepts it.
            `write` is None if the dialect can only be read.
    """

    read: Callable[[str, bool], CheckpointContents | None]
    write: Callable[[str, CheckpointContents], str] | None


# `read_weights` uses the first dialect in this dict that recognizes the path. A Hugging Face folder
# may also contain a TensorFlow checkpoint of the same model, so "hugging_face" precedes "google".
DIALECTS = {
    "bert-tf": Dialect(weights_folder.read, weights_folder.write),
    "hugging_face": Dialect(hugging_face.read, hugging_face.write),
    "google": Dialect(google.read, google.write),
    "model_garden": Dialect(model_garden.read, None),
}
WRITABLE_DIALECTS = tuple(name for name, dialect in DIALECTS.items() if dialect.write)
