"""Named-entity recognition: a tag for each word of a sentence.

Read `schemes` (tags and entities), `ner_examples` with `conll` and `json_sentences`
(the file formats), `ner_encoding` (from sentences to records), `ner_metrics` (the F1 of
entities), `ner_results` (report and output files of a split), and `ner_task` (the task
and its loss).
"""
