"""Checkpoints of every dialect, in and out.

Read in this order: `table` (the names), `weights` (`Weights`, `assign`), `google`,
`model_garden`, `huggingface` (one dialect each), `reading` (`read_weights`), `writing`
(`write_weights`, `convert`). Imports layers 0 to 3; nothing in those imports it.
"""

from bert_tf.conversion.reading import read_config, read_weights
from bert_tf.conversion.weights import Report, Weights, assign
from bert_tf.conversion.writing import DIALECTS, convert, write_weights

__all__ = [
    "DIALECTS",
    "Report",
    "Weights",
    "assign",
    "convert",
    "read_config",
    "read_weights",
    "write_weights",
]
