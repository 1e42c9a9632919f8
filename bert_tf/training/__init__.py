"""One training loop for everything, knowing nothing of BERT. Layer 2: imports layer 0 only.

Read in this order:

1. `config`: TrainingConfig (what defines the result) and RuntimeConfig (how it is computed).
2. `objective`: what a kind of training hands to the loop.
3. `losses`, `schedule`, `optimizer`: cross entropy, the released learning rate and update.
4. `step`: one update, correct on any number of replicas.
5. `state`: checkpoints, and what continuing a run asks of them.
6. `loop`: the run itself, `Trainer`; `summaries` writes what it reports.
"""
