"""The procedure of google-research/bert that turns text into pretraining records, on arrays.

Read in this order: `settings` (what decides the bytes), `counter_based_random` (random numbers),
`segments` (input files to segments), `sentences` (segments to sentences), `documents` (sentences to
token ids), `pairing` (documents to rows), `masking` (rows to features), `stats` (statistics of
records), `record_rules` (the rules that each record obeys), `expected_distribution` (the
distribution that records have).

May import: config, features, errors, files, tokenization, `data_prep.corpus`.
"""
