#!/usr/bin/env bash
# Finds named entities in CoNLL-2003 (table 7), with a cased model and the context of the document:
# fine-tuning, and a two-layer BiLSTM of size 768 on the frozen hidden states of several layers.
#
# Hardware   a GPU of 12 GB holds 6 sequences of BERT-Base: --gradient_accumulation_steps=8.
# Time       not known; five seeds for each setting.
# Expected   F1, mean of five restarts. Fine-tuning: dev 96.4 and test 92.4 for BERT-Base; 96.6 and
#            92.8 for BERT-Large (SIZE=large). Features of BERT-Base, on dev: embeddings 91.0, second
#            to last layer 95.6, last 94.9, weighted sum of the last four 95.9, the last four
#            concatenated 96.1, weighted sum of all layers 95.5.
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# MODEL=cased_L-12_H-768_A-12 CONLL=conll2003 OUT=ner \
#   bash run_scripts/recipes/table7_ner.sh [further flags of run_ner.py]
#
# The fine-tuning has the learning rate of RATES that is best on dev. FEATURES selects some of the
# kinds of features. The paper does not give the settings of the BiLSTM; FEATURE_RATE and
# FEATURE_EPOCHS change them. LOWER_CASE=true is for an uncased model.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require MODEL "checkpoint to fine-tune" CONLL "folder with the train, dev and test files" \
  OUT "folder of the results"
FEATURES=${FEATURES:-embeddings second_to_last last weighted_sum_last_four \
concat_last_four weighted_sum_all}

ner() {  # arguments: output folder, learning rates, epochs, flags
  sweep run_ner.py "$1" "$2" "${SEEDS:-5}" --data_dir="$CONLL" --init_checkpoint="$MODEL" \
    --do_lower_case="${LOWER_CASE:-false}" --document_context=true \
    --max_seq_length="${LENGTH:-512}" --train_batch_size=32 --num_train_epochs="$3" "${@:4}"
}

ner "$OUT/fine_tuning" "${RATES:-5e-5,3e-5,2e-5}" "${EPOCHS:-3}" --do_predict=true "$@"
row "Fine-tuning" "dev F1" "$(by_size 96.4 96.6)" "$OUT/fine_tuning" eval_f1 \
  best_setting:eval_f1
row "Fine-tuning" "test F1" "$(by_size 92.4 92.8)" "$OUT/fine_tuning" test_f1 \
  best_setting:eval_f1

# Arguments: label, value of --feature_layers, figure of the paper for BERT-Base, flags.
features() {
  if contains "$FEATURES" "$2"; then
    ner "$OUT/$2" "${FEATURE_RATE:-1e-3}" "${FEATURE_EPOCHS:-20}" --approach=features \
      --head=bilstm --feature_layers="$2" --feature_cache_dir="$OUT/feature_cache" "${@:4}"
  fi
  row "$1" "dev F1" "$(by_size "$3" -)" "$OUT/$2" eval_f1
}
features "Embeddings" embeddings 91.0 "$@"
features "Second-to-last hidden layer" second_to_last 95.6 "$@"
features "Last hidden layer" last 94.9 "$@"
features "Weighted sum of last four" weighted_sum_last_four 95.9 "$@"
features "Concatenation of last four" concat_last_four 96.1 "$@"
features "Weighted sum of all layers" weighted_sum_all 95.5 "$@"
print_table "Table 7, CoNLL-2003, mean of the restarts."
