"""The mathematics of one training step.

Read in this order: `objective` (the contract for a loss), `losses` (cross entropy),
`schedule` (learning rates), `update_rules` (how an optimizer changes one weight),
`gradient_clipping`, `loss_scale` (float16), `optimizer` (all weights, their state),
`step_runner` (gradients and updates on any number of replicas), `step_scalars` (further
logged values of a step), `non_finite` (finds the layer that produces NaN).
`keras_optimizer` has the schedule and the released optimizer for `compile` and `fit`.
Imports `training.config` and `training.strategy`.
"""
