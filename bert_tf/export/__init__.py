"""Exports models for serving. Layer 4: imports layers 0 to 3, `conversion` and `pretrained`.

`saved_model` exports a classifier that takes raw text: from a checkpoint (`export`), or from a
model in memory (`export_model`).
"""

from bert_tf.export.saved_model import export, export_model

__all__ = ["export", "export_model"]
