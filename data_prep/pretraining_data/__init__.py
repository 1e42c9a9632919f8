"""From text to pretraining records: the procedure of google-research/bert, in arrays.

Read in this order: `settings` (what decides the bytes), `counter_based_random` (random numbers),
`reading` (files to sentences), `corpus` (sentences to token ids), `pairing` (documents to rows),
`masking` (rows to features), `stats` (statistics of records), `record_rules` (the rules that each
record obeys), `expected_distribution` (the distribution that records have).

May import: config, features, errors, files, tokenization.
"""
