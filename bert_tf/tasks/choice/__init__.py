"""Multiple choice: one of several texts continues or answers another, as in SWAG.

Read `choice_examples` (the files), `choice_task` (from examples to records, the
loss, and the metrics and output files of a split).
"""
