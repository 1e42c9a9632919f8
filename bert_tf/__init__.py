"""bert-tf: BERT for TensorFlow and Keras 3, from raw text to a served model.

Read in this order; each package imports only packages listed before it:

1. The foundation: `config`, `features`, `weights` and `manifest` define the architecture, the
   record format, the weights folder and the manifest of records. All programs use `errors`,
   `files`, `progress` and `command_line`.
2. `tokenization` (text -> ids), `modeling` (ids -> hidden states -> logits).
3. `training`: the training loop for any objective; it does not depend on BERT.
4. `pretraining`, `tasks`: data, objective and metrics of pretraining and of each fine-tuning task;
   `feature_extraction`: hidden states of texts.
5. `conversion` reads and writes checkpoints; `export` creates models for serving.

`CONTRIBUTING.md` lists the permitted imports; `tests/test_architecture.py` enforces them.
"""

__version__ = "0.2.0"
