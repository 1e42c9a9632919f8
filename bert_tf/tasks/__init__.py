"""Fine-tuned tasks, a folder each. Layer 3: imports layers 0 to 2.

Read `task` (the contract of every task), then `records` and `run` (what all tasks do alike), then
a folder: `glue` classifies sentences and pairs.
"""

from bert_tf.tasks.glue import tasks as glue

TASKS = {"mrpc": glue.MRPC, "sst-2": glue.SST2, "cola": glue.COLA}
