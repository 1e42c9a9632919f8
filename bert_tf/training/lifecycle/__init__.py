"""The life of a run, from its first step or its last checkpoint to its end.

Read in this order: `run_folder` (files of a run, resume checks), `checkpoint` (restoring one),
`checkpoint_writer` (writing them in a background thread), `pacing` (steps per call of the graph),
`stop_signals` (Ctrl-C and SIGTERM), `failures` (error messages that name the record and the newest
checkpoint). Imports `training.config` and
`training.step`.
"""
