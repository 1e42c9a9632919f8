"""Fine-tuning tasks.

Read `task` (the interface of a task), then the code that all tasks share: `splits` (the
location of a data set, and the counts of unusual rows), `tables` (rows of files),
`values` (texts and scores in rows), `windows` (WordPiece tokens of words, and windows
of long texts), `sequences` (several sequences of an example), `results` (the metrics
and output files of a split), `head_objective` (the loss) and `distillation_loss`. Each
other package has one kind of task: `classification` (of sentences and sentence pairs),
`squad` (questions about a text), `choice` (multiple choice), `ner` (named-entity
recognition) and `embedding` (text vectors).
"""
