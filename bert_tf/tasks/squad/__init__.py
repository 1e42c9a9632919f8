"""SQuAD: questions whose answers are spans of a text, versions 1.1 and 2.0.

Read `squad_examples` (the JSON files), `squad_encoding` (from questions to records),
then `squad_metrics`, `best_answers` (from logits to answers), `squad_results` (metrics
and output files of a split), and `squad_task` with the loss. `ensemble` averages the
answers of several runs.
"""
