"""The experiments of the paper as shell scripts; `results_table` prints results.

A recipe such as `table2_squad.sh` contains the settings of one table of the paper.
`lib.sh` has the functions that the recipes share.
"""
