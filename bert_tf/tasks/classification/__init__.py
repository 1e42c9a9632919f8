"""Classification of sentences and sentence pairs.

Read `text_examples` and `long_texts` (windows), then `classification_task` (implements
`tasks.task.Task`) and `classification_objective` (losses). The package `results`
computes metrics and writes predictions. The package `sources` has the tasks: it finds
and reads their data. `submission_zip` collects the files for the GLUE server in an
archive.
"""
