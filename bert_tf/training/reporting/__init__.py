"""The output of a run for its user.

`metrics` (averages over steps, the best evaluation), `summaries` (TensorBoard events and
metrics.jsonl), `step_cost` (the size of a step, printed before the first one), `devices` (speed and
memory of the device). Imports `training.step`.
"""
