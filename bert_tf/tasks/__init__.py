"""Fine-tuning tasks.

Read `task` (the contract of a task), then the code that all tasks share: `splits` (the
place of a data set, and the counts of unusual rows), `tables` (rows of files),
`windows` (the pieces of words, and long texts in parts), `results` (the metrics and
output files of a split), `head_objective` (the loss) and `distillation_loss`. The
package `classification` has the tasks that classify sentences and sentence pairs,
`squad` questions about a text, `choice` multiple choice, and `ner` named-entity
recognition.
"""
