"""Converts text to pretraining records as google-research/bert does, with arrays.

Read in this order: `settings` (all settings of the records), `counter_based_random`
(random numbers), `segments` (divides the input files into segments: groups of whole
documents), `sentences` (reads the sentences of a segment), `documents` (tokenizes the
sentences), `pairing` (cuts documents into unmasked sequences, called rows), `masking`
(masks rows), `stats` (statistics of records), `record_rules` (rules that each record
must obey), `expected_distribution` (compares the statistics of records with the
expected values).

May import foundation modules, `tokenization` and `data_prep.corpus`.
"""
