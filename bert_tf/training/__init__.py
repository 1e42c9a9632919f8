"""The training engine for any objective; it does not depend on BERT.

Layer 2: imports foundation modules only.

`config` defines TrainingConfig, RuntimeConfig and RunPhases; `trainer` defines the
class `Trainer` that every program uses; `loop` calls the steps and the callbacks;
`strategy` describes the devices and workers; `shuffling` orders examples. The other
modules are in four packages:

* `step`: the mathematics of one step: objective, loss, learning rate, optimizer,
  gradients.
* `lifecycle`: the life of a run: its folder, checkpoints, signals, failures.
* `callbacks`: the actions between steps: logging, evaluation, saving, profiling, early
  stopping.
* `reporting`: the output of a run: metrics, TensorBoard summaries, the cost of a step.
"""
