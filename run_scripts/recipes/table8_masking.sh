#!/usr/bin/env bash
# Runs the ablation of the masking (table 8): pretrains BERT-Base with six ways to replace the tokens
# to predict, and fine-tunes each model on MNLI and CoNLL-2003; named entities also with a BiLSTM on
# the last four hidden layers.
#
# Hardware   as for pretrain_base.sh, for each of the six models.
# Time       4 days in the paper for BERT-Base.
# Expected   dev; in percent of the tokens to predict: replaced by [MASK], unchanged, random
#            MASK  SAME  RND  MNLI  NER fine-tuned  NER features
#              80    10   10  84.2            95.4          94.9
#             100     0    0  84.3            94.9          94.0
#              80     0   20  84.1            95.2          94.6
#              80    20    0  84.4            95.2          94.7
#               0    20   80  83.7            94.8          94.6
#               0     0  100  83.6            94.9          94.6
#            This recipe has not been run at this size; a test checks its commands.
#
# TEXT='wiki/*.txt' VOCAB=vocab.txt CONFIG=bert_config.json GLUE=glue_data CONLL=conll2003 \
#   OUT=masking bash run_scripts/recipes/table8_masking.sh [further flags of run_pretraining.py]
#
# MIXES (such as "80-10-10") and TASKS (of "MNLI NER FEATURES") select some of the models and tasks.
# LOWER_CASE=false is for a cased vocabulary. The paper does not give the settings of the
# fine-tuning; see table7_ner.sh.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require_corpus
require CONFIG "path of bert_config.json"
MIXES=${MIXES:-80-10-10 100-0-0 80-0-20 80-20-0 0-20-80 0-0-100}
TASKS=${TASKS:-MNLI NER FEATURES}
if contains "$TASKS" MNLI; then
  require GLUE "folder with the folder MNLI"
  require_files "$GLUE/MNLI"
fi
if contains "$TASKS" NER || contains "$TASKS" FEATURES; then
  require CONLL "folder with the train and dev files"
  require_files "$CONLL"
fi

ner() {  # arguments: output folder, pretrained model, learning rate, epochs, flags
  fine_tune run_ner.py "$1" --data_dir="$CONLL" --init_checkpoint="$2" --document_context=true \
    --max_seq_length="${NER_LENGTH:-512}" --train_batch_size=32 --learning_rate="$3" \
    --num_train_epochs="$4" "${@:5}"
}

fine_tune_all() {  # arguments: pretrained model, output folder
  if contains "$TASKS" MNLI; then
    fine_tune run_classifier.py "$2/MNLI" --task_name=MNLI --data_dir="$GLUE/MNLI" \
      --init_checkpoint="$1" --max_seq_length="${LENGTH:-128}" --train_batch_size=32 \
      --learning_rate="${RATE:-2e-5}" --num_train_epochs="${EPOCHS:-3}"
  fi
  if contains "$TASKS" NER; then
    ner "$2/NER" "$1" "${NER_RATE:-5e-5}" "${EPOCHS:-3}"
  fi
  if contains "$TASKS" FEATURES; then
    ner "$2/FEATURES" "$1" "${FEATURE_RATE:-1e-3}" "${FEATURE_EPOCHS:-20}" --approach=features \
      --head=bilstm --feature_layers=concat_last_four
  fi
}

# Pretrains and fine-tunes one model, and adds its rows. Arguments: percentages MASK-SAME-RND, the
# shares MASK and RND, three figures of the paper, flags.
mix() {
  local folder=$OUT/$1
  if contains "$MIXES" "$1"; then
    make_records "$folder" --mask_token_prob="$2" --random_token_prob="$3"
    pretrain "$folder" "$folder" --bert_config_file="$CONFIG" "${@:7}"
    fine_tune_all "$(last_phase "$folder")" "$folder"
  fi
  row "$1" "MNLI accuracy" "$4" "$folder/MNLI" "100*eval_accuracy"
  row "$1" "NER F1, fine-tuned" "$5" "$folder/NER" eval_f1
  row "$1" "NER F1, features" "$6" "$folder/FEATURES" eval_f1
}
mix 80-10-10 0.8 0.1 84.2 95.4 94.9 "$@"
mix 100-0-0 1.0 0.0 84.3 94.9 94.0 "$@"
mix 80-0-20 0.8 0.2 84.1 95.2 94.6 "$@"
mix 80-20-0 0.8 0.0 84.4 95.2 94.7 "$@"
mix 0-20-80 0.0 0.8 83.7 94.8 94.6 "$@"
mix 0-0-100 0.0 1.0 83.6 94.9 94.6 "$@"
print_table "Table 8, masking (MASK-SAME-RND in percent), on dev."
