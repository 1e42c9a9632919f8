"""Models for serving. Layer 4: imports layers 0 to 3; no lower layer imports it.

`saved_model` exports a classifier that takes raw text.
"""
