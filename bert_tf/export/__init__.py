"""Exports models for serving.

Layer 4: imports layers 0 to 3, `conversion` and `pretrained`.

Read in this order: `settings`, `served` (the models of exports, one for each task),
`layout`, `requests` (made from texts), `job` (a checkpoint to export), `gate_process`
(runs `gate_program`, and with it what was exported, in another process), `gate`
(compares its outputs with those of the model in memory), `saved_model` (writes and
checks a SavedModel; `operations` are those that it may have, `warm_up` and
`server_files` write the files that it reads), `lite` and `onnx` (write TFLite and ONNX
files), `model_files` (what these have in common: checks, measuring, loading), `assets`
(the files of all formats), `exporter` (`export` for a checkpoint, `export_model` for a
model in memory), `saved_model_loading` (checks a SavedModel and loads it),
`predictions` (as Python values and as text), `predictor` (loads what was exported).
This module imports none of them, because a program that predicts needs no Keras.
"""
