"""Converts text to pretraining records as google-research/bert does, by NumPy arrays.

Read in this order: `records_config` (all settings of the records),
`segments` (divides the input files into segments: groups of whole documents; reads the
sentences of a segment, and tokenizes them), `sentence_pairs` (cuts documents into
unmasked sequences, called rows), `stats` (statistics of records), `record_rules` (rules
that each record must obey), `statistical_tests` (compares the statistics of records with
the expected values).
"""
