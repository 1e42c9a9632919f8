"""Runs the procedure of `pretraining_data` on one machine or on several.

Read in this order: `job` (one set of records to create, and its file names), `stages` (read, pair,
mask and assemble, from files to files), `shuffling` (the order of the records, sorted on disk),
`storage` (atomic writes), `outputs` (checks before a run, and the manifest after it), `work_folder`
(the intermediate files and their lock), `workers` (processes), `unpacking` (packed input files),
`local` (a run on one machine), `beam` (a run on Apache Beam); `record_reading` (reads records of
any program) and `inspection` (prints and audits records).

May import: config, features, errors, files, manifest, progress, tokenization and
`data_prep.corpus` and `data_prep.pretraining_data`.
"""
