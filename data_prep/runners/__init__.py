"""Runs the procedure of `pretraining_data` on one machine or on several machines.

Read in this order: `records_job` (one set of records to create, its file names, and the
folder of its intermediate files), `stages` (the four stages: read, pair, mask and
assemble), `shuffling` (shuffles the records on disk), `output_checks_and_manifest`
(what is checked before a run, and the manifest after it), `base_runner_and_steps` (who
executes the stages, and the steps of a run on any runner), `local`, `dask` and `beam`
(a run on one machine, on a Dask cluster, on Apache Beam), `inspection` (reads records
that any program created, prints and checks them).

May import foundation modules, `program`, `tokenization`, `masking`,
`data_prep.corpus` and `data_prep.pretraining_data`.
"""
