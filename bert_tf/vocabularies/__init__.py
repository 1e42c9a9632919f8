"""Makes vocabularies from text: counted words become WordPiece entries.

Read in this order: `word_counts` (splits and counts the words of a text), `learning`
(learns a vocabulary from the counts), `domain_words` (chooses words of a domain that a
vocabulary lacks).

TensorFlow is imported inside functions: programs define flags from the configs of these
modules.
"""
