"""Served models: the tokenizer and the model of an export in one graph, a module per task.

Read in this order: `base` (base class, with the signatures that all tasks share),
`tensor_operations` (shared functions, and checks of token ids), `classifier`, `windows`
(splits long texts), `answers` (from logits to answers), `span_predictor`, `tagger`
(also finds entities), `multiple_choice`, `fill_mask`, `sentence_embedder`, `loading`
(builds the served model of a checkpoint).

Shape letters: B requests in a batch, S sequence length, K labels, answers or choices, R
windows.
"""

from bert_tf.export.served.base import ServedModel
from bert_tf.export.served.classifier import DEFAULT_THRESHOLD, ServedClassifier
from bert_tf.export.served.loading import load_served, task_of

__all__ = [
    "DEFAULT_THRESHOLD",
    "ServedClassifier",
    "ServedModel",
    "load_served",
    "task_of",
]
