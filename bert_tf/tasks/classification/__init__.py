"""Classification of sentences and sentence pairs. Imports `tasks.task` and layers 0 to 2.

Read `text_files` (reads examples), then `classification_objective` (loss and metrics), then
`classification_tasks` (the tasks).
"""
