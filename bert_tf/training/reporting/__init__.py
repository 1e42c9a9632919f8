"""The output of a run for its user.

`metrics` (averages over steps or batches), `summaries` (TensorBoard events and
metrics.jsonl), `step_cost` (the FLOPs and memory of a step, logged before training).
Imports `training.step`.
"""
