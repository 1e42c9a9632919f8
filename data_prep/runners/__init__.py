"""Runs the procedure of `pretraining_data` on one machine or on several machines.

Read in this order: `job` (one set of records to create, and its file names), `stages`
(the four stages: read, pair, mask and assemble), `shuffling` (shuffles the records on
disk), `outputs` (checks before a run, and the manifest after it), `work_folder` (the
folder of the intermediate files, and its lock), `workers` (a pool of processes),
`runner` (who executes the stages), `preparation` (the steps of a run, on any runner),
`local`, `dask` and `beam` (a run on one machine, on a Dask cluster, on Apache Beam),
`record_reading` (reads records that any program created), `inspection` (prints and
checks records).

May import foundation modules, `program`, `tokenization`, `masking`,
`data_prep.corpus` and `data_prep.pretraining_data`.
"""
