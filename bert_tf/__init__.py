"""bert-tf: BERT for TensorFlow and Keras 3, from raw text to a served model.

Read in this order; each package imports only packages listed before it:

1. The foundation: `config`, `features`, `weights` and `manifest` define the architecture, the
   record format, the weights folder and the manifest of records; `errors`, `files`, `progress` and
   `command_line` are used by all programs.
2. `tokenization` (text -> ids), `modeling` (ids -> hidden states -> logits).
3. `training`: the training loop for any objective; it does not depend on BERT.
4. `pretraining`, `tasks`: data, objective and metrics of each kind of training;
   `feature_extraction`: hidden states of texts.
5. `conversion`, `export`: reading and writing checkpoints, models for serving.

`CONTRIBUTING.md` says who may import whom; `tests/test_architecture.py` enforces it.
"""

__version__ = "0.2.0"
