"""Files that contain a model: what TFLite and ONNX files of an export have in common.

Read in this order: `packages` (a check that they are installed, and their errors),
`model_file` (a file, and the facts in it), `file_forward` (computes the outputs of a
served model with a file), `load` (a served model whose outputs a file computes),
`file_gate` (compares files with the model in memory), `measure` (load time and
latency), `report`, `writing` (writes and checks the files of an export). `lite` and
`onnx` contain the formats.
"""
