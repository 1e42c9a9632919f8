"""`DIALECTS`: the reader and the writer of each checkpoint dialect.

Imports the module of each dialect and `checkpoint_contents`.
"""

import dataclasses
from collections.abc import Callable

from bert_tf.conversion import google, hugging_face, model_garden, weights_folder
from bert_tf.conversion.checkpoint_contents import CheckpointContents


@dataclasses.dataclass(frozen=True)
class Dialect:
    """The reader and the writer of one checkpoint dialect.

    Attributes:
        read: Function `read(path, slots)` that reads the checkpoint at a path (without a trailing
            slash), with Adam's slots if `slots` is true. It returns None if the path holds no
            checkpoint of this dialect.
        write: Function `write(folder, contents)` that writes a folder, replacing an existing one,
            and returns the path from which `read_weights` reads it. None if the dialect can only be
            read.
        description: The checkpoint in a few words, for help texts.
    """

    read: Callable[[str, bool], CheckpointContents | None]
    write: Callable[[str, CheckpointContents], str] | None
    description: str


# A path is read in the first dialect of this order that recognizes it. A Hugging Face folder may
# also contain a TensorFlow checkpoint of the same model; its safetensors file is preferred.
DIALECTS = {
    "bert-tf": Dialect(weights_folder.read, weights_folder.write, "a weights folder of bert-tf"),
    "hugging_face": Dialect(hugging_face.read, hugging_face.write, "a folder of transformers"),
    "google": Dialect(google.read, google.write, "bert_model.ckpt of google-research/bert"),
    "model_garden": Dialect(model_garden.read, None, "an encoder of the TensorFlow Model Garden"),
}
WRITABLE_DIALECTS = tuple(name for name, dialect in DIALECTS.items() if dialect.write)
