"""Models for serving. Layer 4: imports layers 0 to 3; nothing below imports it.

`saved_model` writes a classifier that takes raw text.
"""
