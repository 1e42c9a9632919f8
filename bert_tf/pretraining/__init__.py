"""Pretraining: input batches, loss and metrics.

Read `pretraining_config`, `batches`, then `pretraining_objective` (loss, metrics and
the accuracies of a constant prediction). `record_checks` compares records with the
model and with the manifests of the record files. `record_masking` masks records.
`fit_dataset` gives the batches to `fit`. `damaged_records` finds the record that
caused an error, and copies record files without the damaged records.
`sample_predictions` formats predictions as Markdown.
"""
