"""From text to pretraining records: the procedure of google-research/bert, in arrays.

Read in this order: `settings` (what decides the bytes), `randomness` (draws as a function of what
they are for), `corpus` (files to token ids), `pairing` (documents to rows), `masking` (rows to
features), `shards` (the shuffle through the disk, and the files), `stats` (what the records hold),
`workers` and `local` (all of it on one machine).

May import: config, features, errors, files, progress, tokenization.
"""
