"""bert-tf: BERT for TensorFlow and Keras 3, from raw text to a served model.

Read in this order, each using only what stands above it:

1. `config`, `features`, `weights`: the architecture, the record format and the weights folder;
   `errors`, `files`, `progress` and `command_line`: what every stage says and does alike.
2. `tokenization` (text -> ids), `modeling` (ids -> hidden states -> logits).
3. `training`: one loop for everything, knowing nothing of BERT.
4. `pretraining`, `tasks`: data, objective and metrics of each kind of training;
   `feature_extraction`: what the encoder makes of texts.
5. `conversion`, `export`: checkpoints in and out, models for serving.

`CONTRIBUTING.md` says who may import whom; `tests/test_architecture.py` enforces it.
"""

__version__ = "0.2.0"
