"""The parts of `sweep.py`, which fine-tunes with combinations of values of flags.

Read in this order: `plan` (the runs and their commands), `results` (the best run, the
table, sweep.csv and the page of TensorBoard), `store` (the files of a sweep, locks, and
the removal of weights), `execution` (checks the values and executes the runs, some at a
time). `recipe_table` compares results of runs and sweeps with the results in the paper.
"""
