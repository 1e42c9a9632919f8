"""Sample data from installed documentation; behind `make_sample_data.py`.

Read in this order: documentation (docstrings from source files), cleaning (a docstring's prose),
sentences, split (near-duplicates on one side), sentence_sets and span_sets (labelled examples),
build (the folder). Imports of ours: `bert_tf.errors`, `files`, `progress`.
"""
