"""TFLite files: models that run with LiteRT on phones, and on a CPU for single requests.

Read in this order: `conversion` (from a served model to the bytes of a file), `operations`
(those of a file), `embedded_files` (vocabulary, labels and facts
in a file), `mediapipe_metadata` (what MediaPipe's tasks read), `lite_forward` (runs a file with
LiteRT), `load` (a served model whose outputs a file computes), `lite_gate` (compares files with the
model in memory; `mediapipe_tasks` runs them in MediaPipe), `measure` (load time and latency),
`report`, `lite_files` (writes and checks all files of an export).
"""
