"""Exports models for serving. Layer 4: imports layers 0 to 3; they do not import this package.

`saved_model` exports a classifier that takes raw text.
"""
