"""ONNX files: models that run with ONNX Runtime, in Triton, and in other servers.

Read in this order: `conversion` (converts a served model, in float32 and int8, writes a
file with vocabulary, labels and facts, reads it, and runs it with ONNX Runtime or
OpenVINO), `client` (a program that needs neither TensorFlow nor bert_tf, which exports
of classifiers and of vectors contain as `onnx_client.py`).
"""
