"""Converts text to pretraining records as google-research/bert does, with arrays.

Read in this order: `records_config` (all settings of the records),
`documents_and_sentences` (divides the input files into segments: groups of whole
documents; reads the sentences of a segment, and tokenizes them), `repeat_cut_and_pair`
(cuts documents into unmasked sequences, called rows), `stats` (statistics of records),
`record_rules` (rules that each record must obey), `expected_distribution` (compares the
statistics of records with the expected values).

May import foundation modules, `tokenization` and `data_prep.corpus`.
"""
