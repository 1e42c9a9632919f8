"""The training step on JAX, on all devices of a run. It does not import TensorFlow.

Read in this order: `mesh` (devices and processes), `stateless` (functions of an
objective as functions of its weights), `gradients` (with the norms of sparse gradients
and without unused variables), `optimizer` (the arrays that a step changes),
`step_runner` (a step for each shape of a batch).
"""
