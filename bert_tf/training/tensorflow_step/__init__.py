"""The training step on TensorFlow, on the devices of a `tf.distribute.Strategy`.

Read in this order: `strategy` (devices and processes), `gradient_clipping`,
`update_rules` (TensorFlow's fused kernels), `optimizer` (the variables that a step
changes), `compared_examples` (losses that compare the examples of all replicas),
`step_runner` (gradients and updates on any number of replicas).
`keras_update` is the update of `AdamWeightDecay`.
"""
