"""The results of a classification run.

Read `text_results` (the files and what all task types share), then `scoring` (the
metrics and reports of each type). `submission` has the format of the files for the GLUE
server.
"""
