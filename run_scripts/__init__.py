"""The programs for the command line, with the flags of google-research/bert. Layer 6.

`flags` holds the groups of flags that several mains share; nothing imports these modules.
"""
