"""SQuAD: questions whose answers are spans of a text, versions 1.1 and 2.0.

Read `squad_examples` (the JSON files), `squad_encoding` (from questions to records),
then `best_answers` and `final_text` (from logits to answers), `squad_metrics`,
`squad_results` (metrics and output files of a split), and `squad_task`. Imports layers
0 to 2 and `tasks`.
"""
