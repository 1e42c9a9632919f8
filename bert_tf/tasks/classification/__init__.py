"""Classification of sentences and sentence pairs.

Read `text_examples` (examples, and their labels) and `long_texts` (windows), then
`classification_task` (implements `tasks.task.Task`), `objectives` (losses),
`classification_metrics`, `classification_results` (reports and output files) and
`submission` (files for the GLUE server). The package `sources` defines the tasks, and
finds and reads their data.
"""
