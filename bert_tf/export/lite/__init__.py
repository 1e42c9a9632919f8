"""TFLite files: models that run with LiteRT on phones and CPUs.

Read in this order: `mediapipe_metadata` (adds metadata that MediaPipe's tasks read),
`conversion` (converts a served model, writes a file with vocabulary, labels and facts,
reads the file, and runs it with LiteRT).
"""
