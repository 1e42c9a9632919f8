"""The training engine for any objective; it does not depend on BERT.

Read in this order:

* `training_config` defines TrainingConfig, RuntimeConfig and RunPhases, `devices`
  describes the devices and processes, `backend` selects them and the step, and
  `mixed_precision` the dtypes.
* `step`: the mathematics of one step: objective, loss, learning rate, optimizer.
  `tensorflow_step` and `jax_step` compute it on a backend.
* `lifecycle`: the life of a run: its folder, checkpoints and error messages.
* `summaries`: the output of a run: the cost of a step, metrics, TensorBoard summaries.
* `callbacks`: the actions between steps: logging, evaluation, saving, profiling, early
  stopping.
* `keras_optimizer` has the schedule and the released optimizer for `compile` and `fit`,
  on each backend of Keras.
* `stop_signals` records SIGINT, SIGTERM and SIGHUP, after which a run saves and stops.
* `loop` calls the steps and the callbacks, and `trainer` has the class `Trainer`, which
  every program uses.
"""
