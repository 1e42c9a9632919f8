"""Exports models for serving. Layer 4: imports layers 0 to 3, `conversion` and `pretrained`.

Read in this order: `settings`, `served` (the models of SavedModels, one for each task), `layout`,
`requests` (made from texts), `warm_up` and `assets` (the other files of a SavedModel's folder),
`operations` (those that TensorFlow Serving has), `gate_process` (runs `gate_program`, and with it
the SavedModel, in another process), `gate` (compares its outputs with those of the model in
memory), `saved_model` (`export` for a checkpoint, `export_model` for a model in memory),
`predictor` (loads a SavedModel and decodes its predictions).
This module imports none of them, because a program that predicts needs no Keras.
"""
