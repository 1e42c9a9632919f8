"""Exports models for serving.

The facts of a model are the properties that are stored with its weights, such as its
labels. Read in this order. The input: `serving_settings`, `formats` (the table of
formats), `served` (the models that are exported, one class for each task), `layout`
(the paths of files), `job` (a checkpoint to export), `signature_requests` (builds
requests to a model from texts).

The check: `check` (compares the outputs of the exported model with those of the model
in memory) and `check_process` (runs the exported model in another process).

A SavedModel: `saved_model_writing` (writes a SavedModel with the files for TensorFlow
Serving, and checks it), `saved_model_loading` (checks and loads an exported SavedModel).

Files of other formats: `model_file` (the parts that do not depend on the format),
`lite` and `onnx` (one format each), `file_checks` (writes, checks and measures files).

All formats: `assets` (facts, vocabulary, labels, model card), `api` (`export` for a
checkpoint, `export_model` for a model in memory), `output_decoding` (outputs as Python
values and as text), `text_limit` (finds texts that are too long), `predictor` (loads
exported models), `word_effects` (changes of an answer without a word).

The page in the browser: `demo_model` (an exported model and facts of its export),
`demo_answers` (prepares predictions for the page), `dev_examples` (examples of the dev
split, and their right answers).

This `__init__` imports none of these modules, because most of them import Keras, and a
program that predicts with a SavedModel needs no Keras.
"""
