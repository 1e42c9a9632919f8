"""Runs the procedure of `record_creation` on one machine or on several machines.

Read in this order: `records_job` (one set of records to create, its file names, and the
folder of its intermediate files), `stages` (the four stages: read, pair, mask and
assemble), `shuffling` (shuffles the records on disk), `outputs` (what is checked before
a run, and the manifest after it), `base` (the runner, which executes the stages, and
the steps of a run on any runner), `local`, `dask` and `beam` (the runners for one
machine, a Dask cluster and Apache Beam), `inspection` (reads, prints and checks records
that any program created).

For local text files, the main process of `create_pretraining_data` leaves all work that
needs TensorFlow to its worker processes.
"""
