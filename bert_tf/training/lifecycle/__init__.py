"""The life of a run, from its first step or its last checkpoint to its end.

Read in this order: `run_folder` (files of a run, resume checks), `run_state` and
`best_evaluation` (the progress that each checkpoint contains), `restoring` (loads a
checkpoint to resume a run), `checkpoint_writer` (writes checkpoints in a background
thread), `pacing` (steps per graph call), `training_clock` (the seconds of training),
`stop_signals` (Ctrl-C, SIGTERM and SIGHUP), `failures` (error messages that name the
record and the newest checkpoint). Imports `training.config` and `training.step`.
"""
