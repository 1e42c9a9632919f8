"""Classification of sentences and pairs. Imports `tasks.task` and layers 0 to 2.

Read `reading` (files -> examples), then `objective` (model and loss), then `tasks`.
"""
