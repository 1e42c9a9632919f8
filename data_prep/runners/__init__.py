"""How the procedure of `pretraining_data` is run, on one machine or on many.

Read in this order: `stages` (the steps, from file to file), `shuffling` (the order of the records,
through the disk), `shards` (names and files of the output), `outputs` (what is there already, the
manifest), `work_folder` (what a run leaves for the next), `workers` (processes), `assembling`
(shards out of parts), `local` (all of it on one machine), `beam` (the same on Apache Beam);
`record_reading` (records of any program) and `inspection` (their rules and their distribution).

May import: config, features, errors, files, progress, tokenization, `data_prep.pretraining_data`.
"""
