"""Chooses the tokens that a model predicts, for records and while a model trains.

Read in this order: `masking_config` (the settings), `random_draws` (random numbers),
`algorithm` (unmasked sequences, and masks for them), `dynamic_masks` (masks for records
when they are read).
"""
