"""Makes sample data from the documentation of installed packages.

Suggested reading order of the modules: documentation (reads docstrings from source
files), cleaning (extracts the prose of a docstring), sentences (splits prose into
sentences), splits (assigns near-duplicates to the same part: train, dev or test),
classification_set (passages with labels), build (writes the output folder).
"""
