"""Exports models for serving. Layer 4: imports layers 0 to 3, which do not import layer 4.

`saved_model` exports a classifier that takes raw text.
"""
