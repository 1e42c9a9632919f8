"""Classification of sentences and sentence pairs. Imports `tasks.task` and layers 0 to 2.

Read `examples`, then `classification_task` (implements `tasks.task.Task`), then its parts:
`classification_objective` (losses), `scoring` (metrics) and `prediction_files`. The tasks of public
data sets are in `glue` and `xnli`, the task for the user's own data is in `custom`, and
`tfds_reader` reads tensorflow-datasets. `submission_zip` collects predictions for the GLUE server.
"""
