"""TFLite files: models that run with LiteRT on phones and CPUs.

Read in this order: `lite_conversion` (from a served model to the bytes of a file),
`mediapipe_metadata` (what MediaPipe's tasks read), `lite_forward` (runs a file with
LiteRT), `lite_files` (writes a file with vocabulary, labels and facts, and reads it).
"""
