"""Pretraining: records to batches, loss and metrics, the run. Layer 3: imports layers 0 to 2.

Read `data` (batches), then `pretraining_objective` (loss and metrics), `samples` (predictions for a
reader), then `pretrain` (the run); `damage` finds and removes damaged records.
"""
