"""Reads text files and data sets, for vocabulary training and for record creation.

Read in this order: `formats` (finds, checks and reads files), `tfds_splits` (tensorflow-datasets),
`text_blocks` (the input in blocks of bounded size, for vocabulary training), `seekable_files`
(files that can be read from any position, for record creation).

May import: errors, files.
"""
