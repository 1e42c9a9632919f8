"""Fine-tuning tasks. Layer 3: imports layers 0 to 2.

Read `task` (the interface of a task), then the code that all tasks share:
`fine_tuning_config`, `row_counts` (skipped rows), `tables` (rows of files),
`record_files` and `batches` (records), `task_data` (the splits of a run), `evaluation`,
`feature_cache` and `distillation` (outputs of models that are computed once) and
`run_phases`. The package `classification` contains the tasks that classify sentences
and sentence pairs, `squad` questions about a text, and `choice` multiple choice.
"""
