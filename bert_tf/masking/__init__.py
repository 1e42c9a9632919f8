"""Chooses the tokens that a model predicts, for records and while a model trains.

Read in this order: `masking_config` (the settings), `counter_based_random` (random
numbers), `masking_algorithm` (unmasked sequences, and masks for them), `dynamic_masks`
(masks for records when they are read).

May import foundation modules and NumPy, but not TensorFlow.
"""
