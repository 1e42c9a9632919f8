"""Pretraining: input batches, loss, metrics and training.

Layer 3: imports layers 0 to 2.

Read `pretraining_config`, `batches`, `pretraining_objective` (loss and metrics), then
`pretrain` (the run). `record_checks` compares records with the model and with the
manifests of the record files. `read_errors` finds the record that caused an error.
`damage` copies record files without the damaged records. `samples` formats predictions
as Markdown.
"""
