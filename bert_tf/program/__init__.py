"""What the main of every program needs: flags, help, start-up, errors and signals.

`command_line` runs a main and prints its errors, `config_flags` defines flags from the
fields of configs, `help_text` prints them, `startup` prepares and imports TensorFlow,
and `stop_program` ends the program after a signal.
"""
