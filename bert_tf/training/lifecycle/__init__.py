"""The life of a run, from its first step or its last checkpoint to its end.

Read in this order: `run_folder` (files of a run; checks before it is resumed or used),
`best_evaluation` (which weights are the best), `run_state` (the progress that each
checkpoint contains, and its checksums), `checkpoint` (loads a checkpoint to resume a
run, and writes checkpoints in a background thread), `error_messages` (the messages of
failed runs, with the record and the newest checkpoint).
"""
