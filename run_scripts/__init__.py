"""The command-line programs, with the flags of google-research/bert. Layer 6.

`flags` defines the flags that several programs share. No other package imports this
one.
"""
