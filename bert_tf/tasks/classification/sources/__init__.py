"""The data of classification tasks.

Read `glue` and `xnli` (the public data sets, with `released_files`), then `custom` (the
user's own data, with `row_examples`) and `tfds_reader` (tensorflow-datasets). `labels`
checks labels.
"""
