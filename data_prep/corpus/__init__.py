"""Reads text files and data sets for vocabulary training and for record creation.

Suggested reading order of the modules: `prose` (recognizes text that is not prose),
`formats` (finds, checks and reads files), `tfds_splits` (reads tensorflow-datasets),
`text_blocks` (cuts the input into blocks of bounded size, for vocabulary training),
`held_out` (keeps every tenth document, or all others, for `adapt_vocabulary`),
`seekable_files` (files that can be read from any position, for record creation).

May import foundation modules and `tokenization`.
"""
