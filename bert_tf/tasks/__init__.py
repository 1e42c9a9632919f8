"""Fine-tuning tasks. Layer 3: imports layers 0 to 2.

Read `task` (the interface of a task), then `config`, `task_records` and `fine_tuning` (shared by
all tasks), then the package `classification` (tasks that classify sentences and sentence pairs).
An import of this package does not import TensorFlow.
"""

from bert_tf.tasks.classification.classification_tasks import COLA, MRPC, SST2

TASKS = {"mrpc": MRPC, "sst-2": SST2, "cola": COLA}
