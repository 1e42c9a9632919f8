"""The results of a classification run. Imports `examples` and `tasks.task`.

Read `scoring` (metrics and reports), then `prediction_files`. `submission` has the format of the
files for the GLUE server.
"""
