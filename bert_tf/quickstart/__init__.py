"""The quickstart: the whole workflow on one machine, from raw text to predictions.

Read in this order: `stages` (the commands, and how they run and resume), `report` (the
table of results).
"""
