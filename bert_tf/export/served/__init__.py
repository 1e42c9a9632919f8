"""The models of exports: a tokenizer and a model in one graph, a module for each task.

Read in this order: `served_model_and_signatures` (base class, with the signatures that
all tasks share), `tensor_helpers` (with the checks of token ids), `classifier`,
`windows` (of long texts), `answers_in_graph` (from logits to answers),
`span_predictor`, `tagger` (with the arithmetic of entities), `multiple_choice`,
`fill_mask`, `sentence_embedder`, `load` (builds the served model of a checkpoint).
Imports foundation modules, `tokenization`, `modeling`, `tasks`, `conversion`,
`pretrained`, `export.serving_settings` and TensorFlow.

Shape letters: B requests in a batch, S sequence length, K labels, answers or choices, R
windows.
"""

from bert_tf.export.served.classifier import DEFAULT_THRESHOLD, ServedClassifier
from bert_tf.export.served.load import load_served, task_of
from bert_tf.export.served.served_model_and_signatures import ServedModel

__all__ = [
    "DEFAULT_THRESHOLD",
    "ServedClassifier",
    "ServedModel",
    "load_served",
    "task_of",
]
