"""Fine-tuning tasks, one package for each. Layer 3: imports layers 0 to 2.

Read `task` (the contract of a task), then `task_records` and `fine_tuning` (shared by all tasks),
then a package: `classification` classifies sentences and sentence pairs.
"""

from bert_tf.tasks.classification.classification_tasks import COLA, MRPC, SST2

TASKS = {"mrpc": MRPC, "sst-2": SST2, "cola": COLA}
