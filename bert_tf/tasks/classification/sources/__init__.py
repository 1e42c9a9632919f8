"""The data of classification tasks.

Read `released_files` (the form of public data sets), `glue` and `xnli`, then `custom`
(the user's own data) and `tfds_reader` (tensorflow-datasets).
"""
