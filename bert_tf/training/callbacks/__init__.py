"""The actions that the training loop performs between steps, one module for each.

Read `callback` (the contract of an action) first, then `metric_logging`, `bad_steps`,
`evaluation`, `saving` and `profiling`. Imports `training.step`, `training.lifecycle`
and `training.reporting`.
"""
