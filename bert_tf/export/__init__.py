"""Exports models for serving.

Read in this order. The input: `serving_settings`, `formats` (the table of formats),
`served` (the models of exports, one for each task), `layout` (the places of files),
`job` (a checkpoint to export), `signature_requests` (made from texts).

The check: `check` (compares the outputs of what was exported with those of the model in
memory) and `check_process` (runs it in another process).

A SavedModel: `saved_model_writing` (writes it with the files that TensorFlow Serving
reads, and checks it), `saved_model_loading` (checks it again and loads it).

Files of other formats: `model_file` (what all formats have in common, and the served
model whose outputs a file computes), `lite` and `onnx` (one format each), `file_checks`
(writes, checks and measures files).

All formats: `assets` (facts, vocabulary, labels, model card), `api` (`export` for a
checkpoint, `export_model` for a model in memory), `output_decoding` (outputs as Python
values and as text), `text_limit` (which texts are too long), `predictor` (loads
what was exported), `demo_answers` (what a page in the browser shows of its answers).

This module imports none of them, because a program that predicts needs no Keras.
"""
