"""ONNX files: models that run with ONNX Runtime, in Triton, and in other servers.

Read in this order: `conversion` (converts a served model to float32 and int8, writes a
file with vocabulary, labels and facts, reads the file, and runs it with ONNX Runtime or
OpenVINO), `client` (a program that predicts without TensorFlow and bert_tf; exports of
classifiers and of models of text vectors contain it as `onnx_client.py`).
"""
