"""Classification of sentences and sentence pairs. Imports `tasks.task` and layers 0 to 2.

Read `examples`, then `classification_task` (implements `tasks.task.Task`), then its parts:
`classification_objective` (losses), `scoring` (metrics) and `prediction_files`.
"""
