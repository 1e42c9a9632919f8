"""The BERT models, which map token ids to logits.

They are written with Keras operations only.

Read in this order: `fused_operations` (arithmetic with explicit gradients),
`activations`, `initial_weights` (random values), `layers` (dense, layer normalization,
dropout), `attention` (self-attention, rows without padding), `transformer_block` (the
block), `inputs` (checks of the inputs), `base` (base class of all models),
`embeddings`, `encoder`, `heads` (output layers, BiLSTM, combination of hidden states),
`models` (encoder and head for each kind of task), `costs` (parameters, FLOPs and memory
of a model), `layout_map` (variables on several devices).

Shape letters: B sequences in a batch, S tokens in a sequence, N rows (all tokens of a
batch, with or without padding), H hidden size, A attention heads, D = H/A size of one
head, L layers (blocks), I intermediate size, P predictions in a sequence, V vocabulary
entries.
"""

from bert_tf.modeling.attention import SelfAttention, attention_bias
from bert_tf.modeling.embeddings import Embeddings
from bert_tf.modeling.encoder import BertEncoder
from bert_tf.modeling.heads import MaskedLMHead, OutputHead
from bert_tf.modeling.layers import Dense, Dropout, DropoutSeeds, LayerNorm
from bert_tf.modeling.layout_map import layout_map
from bert_tf.modeling.models import (
    BertClassifier,
    BertHeadModel,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanPredictor,
    BertTagger,
    BertTaskModel,
    arrays_by_name,
    depths_by_name,
    variables_by_name,
)
from bert_tf.modeling.transformer_block import TransformerBlock

__all__ = [
    "BertClassifier",
    "BertEncoder",
    "BertHeadModel",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertSpanPredictor",
    "BertTagger",
    "BertTaskModel",
    "Dense",
    "Dropout",
    "DropoutSeeds",
    "Embeddings",
    "LayerNorm",
    "MaskedLMHead",
    "OutputHead",
    "SelfAttention",
    "TransformerBlock",
    "arrays_by_name",
    "attention_bias",
    "depths_by_name",
    "layout_map",
    "variables_by_name",
]
