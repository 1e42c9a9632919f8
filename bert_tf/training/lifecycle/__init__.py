"""The life of a run, from its first step or its last checkpoint to its end.

Read in this order: `run_folder` (files of a run, resume checks), `run_state` and `best_evaluation`
(the progress that each checkpoint contains), `restoring` (a checkpoint into a run),
`checkpoint_writer` (writing checkpoints in a background thread), `pacing` (steps per call of the
graph), `stop_signals` (Ctrl-C and SIGTERM), `failures` (error messages that name the record and the
newest checkpoint). Imports `training.config` and `training.step`.
"""
