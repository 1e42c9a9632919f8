"""Reads text files and data sets for vocabulary training and for record creation.

Suggested reading order of the modules: `text_formats` (finds, checks and reads files,
and recognizes text that is not prose), `text_blocks` (cuts the input into blocks of
bounded size, for vocabulary training, and keeps every tenth document, or all other
documents, for `adapt_vocabulary`), `sources` (tensorflow-datasets, and files that can
be read from any position, for record creation), `document_ends` (finds the end of a
document).
"""
