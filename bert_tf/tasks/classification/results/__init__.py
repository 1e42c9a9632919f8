"""The results of a classification run.

Read `scoring` (metrics and reports), then `prediction_files`. `submission` has the format of the
files for the GLUE server.
"""
