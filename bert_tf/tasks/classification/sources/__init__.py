"""The data of classification tasks.

Read `glue_tasks` and `xnli` (public data sets), then `custom`
(the user's own data) and `tfds_reader` (tensorflow-datasets).
"""
