"""Sample data from the documentation of installed packages; used by `make_sample_data.py`.

Reading order: documentation (docstrings from source files), cleaning (the prose of a docstring),
sentences, train_dev_test_split (near-duplicates stay together), sentence_sets and span_sets
(labeled examples), build (the output folder). May import `bert_tf.errors`, `files`, `progress`.
"""
