"""Reads, writes and converts checkpoints in several dialects (checkpoint formats).

Read in this order: `weight_table` (the names of the weights), `checkpoint_contents`
(`CheckpointContents`, `assign`), `weight_values` and `checkpoint_files` (checks of
weights and links), `saved_facts` (checks of labels and other facts), `task_head`
(`choose_head`, for fine-tuning), one module for each dialect (`weights_folder`,
`google`, `model_garden`, `hugging_face` with `hugging_face_tokenizer`), `dialects` (the
dict `DIALECTS` of these modules), `read_checkpoint` (`read_weights`), `given_tokenizer`
(a vocabulary and a casing that the user gives), `target_folder` (the folders that may
be replaced), `write_checkpoint` (`write_weights`, `convert`), `new_entries` (new words
in a vocabulary). To add a dialect, write a module for the dialect and add an entry to
`DIALECTS`. Imports layers 0 to 3 of bert-tf (see `CONTRIBUTING.md`). No module of these
layers imports this package.
"""

from bert_tf.conversion.checkpoint_contents import (
    AssignmentReport,
    CheckpointContents,
    assign,
)
from bert_tf.conversion.dialects import DIALECTS, WRITABLE_DIALECTS
from bert_tf.conversion.read_checkpoint import (
    read_config,
    read_config_or_size,
    read_weights,
)
from bert_tf.conversion.task_head import HeadChoice, choose_head
from bert_tf.conversion.write_checkpoint import convert, write_weights

__all__ = [
    "DIALECTS",
    "WRITABLE_DIALECTS",
    "AssignmentReport",
    "CheckpointContents",
    "HeadChoice",
    "assign",
    "choose_head",
    "convert",
    "read_config",
    "read_config_or_size",
    "read_weights",
    "write_weights",
]
