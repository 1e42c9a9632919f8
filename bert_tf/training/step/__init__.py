"""The mathematics of one training step.

Read in this order: `objective` (the contract for a loss, and totals over steps),
`losses` (cross entropy), `schedule` (the learning rate of each step, and its factor for
each layer), `weight_decay` (which variables decay), `gradient_clipping`, `update_rules`
(how an optimizer changes one weight), `loss_scale` (for float16),
`optimizer` (all weights and their state), `block_graph` (which shortens tracing),
`step_runner` (gradients and updates on any number of replicas), `debug_nans` (finds the
layer that produces NaN). `keras_optimizer` has the schedule and the released optimizer
for `compile` and `fit`, on each backend of Keras; `tensorflow_update` is its update on
TensorFlow.
"""
