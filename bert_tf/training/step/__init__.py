"""The mathematics of one training step, for both backends.

Read in this order: `objective` (the contract for a loss, and totals over steps),
`losses` (cross entropy) with `tensorflow_functions`, `schedule` (the learning rate of
each step, and its factor for each layer), `weight_decay` (which variables decay),
`update_rules` (how an optimizer changes one weight), `loss_scale` (for float16),
`optimizer` (all weights and their state), `step_result` (what a step reports, and which
steps are bad), `debug_nans` (finds the layer that produces NaN).
"""
