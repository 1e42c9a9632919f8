"""Records -> batches, and the loss and metrics of pretraining. Layer 3: imports layers 0 to 2.

Read `data`, then `objective`, `samples` (predictions for a reader), then `run`.
"""
