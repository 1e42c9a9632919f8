"""Reads, writes and converts checkpoints in several dialects (checkpoint formats).

Read in this order:

1. `weight_names` is the table of the names of weights in several dialects.
   `checkpoint_contents` defines the contents of a checkpoint of any dialect;
   `weight_assignment` copies the weights to a model.
2. Each dialect of `storage.checkpoint_formats.DIALECTS` has a module: `weights_folder`;
   `hugging_face`, with `hugging_face_weights` (and `pytorch_file`),
   `hugging_face_tokenizer` and `sentence_transformers`; `google`, `model_garden` and
   `tensorflow_hub`, which read files through `tensorflow_checkpoint`; `keras_hub`,
   which reads and writes files through `hdf5`.
3. `reader` reads a folder, a .zip file or the Hugging Face hub; `writer` writes and
   converts checkpoints.
4. `checkpoint_vocabulary` checks a vocabulary that the user gives, `new_words` adds
   words to the vocabulary of a checkpoint, and `head_choice` decides whether a model
   gets the head of a checkpoint.
"""

from bert_tf.conversion.checkpoint_contents import CheckpointContents
from bert_tf.conversion.head_choice import choose_head
from bert_tf.conversion.reader import read_config, read_config_or_size, read_weights
from bert_tf.conversion.weight_assignment import AssignmentReport, assign
from bert_tf.conversion.writer import convert, write_weights
from bert_tf.storage.checkpoint_formats import DIALECTS, WRITABLE_DIALECTS

__all__ = [
    "DIALECTS",
    "WRITABLE_DIALECTS",
    "AssignmentReport",
    "CheckpointContents",
    "assign",
    "choose_head",
    "convert",
    "read_config",
    "read_config_or_size",
    "read_weights",
    "write_weights",
]
