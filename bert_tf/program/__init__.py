"""Flags, help, start-up, errors and signals of all programs.

Read in this order: `command_line` runs a main, prints its errors and handles signals,
`help_text` is the text of --help, `config_flags` defines flags from the fields of
configs, and `startup` prepares and imports TensorFlow.
"""
