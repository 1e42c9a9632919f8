"""From text to pretraining records: the procedure of google-research/bert, in arrays.

Read in this order: `settings` (what decides the bytes), `counter_based_random` (random
numbers), `reading` (files to sentences), `corpus` (sentences to token ids), `pairing`
(documents to rows), `masking` (rows to features), `stats` (what records hold), `auditing` (the
rules a record keeps), `expectations` (the distributions many records have).

May import: config, features, errors, files, tokenization.
"""
