"""Makes sample data from the documentation of installed packages, for `make_sample_data.py`.

Suggested reading order of the modules: documentation (reads docstrings from source
files), cleaning (extracts the prose of a docstring), sentences (splits prose into
sentences), train_dev_test_split (assigns near-duplicates to the same part),
sentence_sets and span_sets (make labeled examples), build (writes the output folder).
May import foundation modules and `data_prep.runners.workers`.
"""
