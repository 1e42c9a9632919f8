"""Chooses the tokens that a model predicts, for records and while a model trains.

Read in this order: `masking_config` (the settings), `counter_based_random` (random
numbers), `row_format` (unmasked sequences), `masked_lm` (masks rows), `dynamic_masks`
(masks records when they are read).

May import foundation modules and NumPy, but not TensorFlow.
"""
