"""Pretraining: input batches, loss, metrics and training.

Layer 3: imports layers 0 to 2.

Read `pretraining_config`, `pretraining_batches`, `pretraining_objective` (loss, metrics
and the accuracies of a constant prediction), then `train_and_evaluate` (the run).
`record_checks` compares records with the model and with the manifests of the record
files. `masking_in_pipeline` masks records. `keras_batches` gives the batches to `fit`.
`damaged_records` finds the record that caused an error, and copies record files without
the damaged records. `sample_predictions` formats predictions as Markdown.
"""
