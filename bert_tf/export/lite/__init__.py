"""TFLite files: models that run with LiteRT on phones and CPUs.

Read in this order: `conversion` (from a served model to the bytes of a file),
`embedded_files` (vocabulary, labels and facts in a file), `mediapipe_metadata` (what
MediaPipe's tasks read), `lite_forward` (runs a file with LiteRT), `lite_files` (writes
the files of an export).
"""
