#!/usr/bin/env bash
# Runs the ablations of the pretraining tasks (table 5): pretrains BERT-Base, "No NSP" and "LTR & No
# NSP" with the same settings, and fine-tunes each of them; the last also with a BiLSTM on top. The
# left-to-right attention stays in fine-tuning: the programs read it from the checkpoint.
#
# Hardware   as for pretrain_base.sh, for each of the three models.
# Time       4 days in the paper for BERT-Base.
# Expected   dev              MNLI-m  QNLI  MRPC  SST-2  SQuAD F1
#            BERT-Base          84.4  88.4  86.7   92.7      88.5
#            No NSP             83.9  84.9  86.5   92.6      87.9
#            LTR & No NSP       82.1  84.3  77.5   92.1      77.8
#            + BiLSTM           82.1  84.1  75.7   91.6      84.9
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# TEXT='wiki/*.txt' VOCAB=vocab.txt CONFIG=bert_config.json GLUE=glue_data SQUAD=squad \
#   OUT=ablations bash run_scripts/recipes/table5_ablations.sh [flags of run_pretraining.py]
#
# TASKS selects some of the tasks. The paper does not give the settings of the fine-tuning; RATE and
# EPOCHS change those of GLUE.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require_corpus
require CONFIG "path of bert_config.json"
TASKS=${TASKS:-MNLI QNLI MRPC SST-2 SQuAD}
for task in $TASKS; do
  if [ "$task" = SQuAD ]; then
    require SQUAD "folder with train-v1.1.json and dev-v1.1.json"
    require_files "$SQUAD/train-v1.1.json" "$SQUAD/dev-v1.1.json"
  else
    require GLUE "folder with the folders of the tasks"
    require_files "$GLUE/$task"
  fi
done

# Fine-tunes a model on all tasks. Arguments: pretrained model, output folder, flags.
fine_tune_all() {
  local task
  for task in $TASKS; do
    if [ "$task" = SQuAD ]; then
      fine_tune run_squad.py "$2/SQuAD" --train_file="$SQUAD/train-v1.1.json" \
        --predict_file="$SQUAD/dev-v1.1.json" --init_checkpoint="$1" \
        --max_seq_length="${SQUAD_LENGTH:-384}" --train_batch_size=32 --learning_rate=5e-5 \
        --num_train_epochs="${EPOCHS:-3}" "${@:3}"
    else
      fine_tune run_classifier.py "$2/$task" --task_name="$task" --data_dir="$GLUE/$task" \
        --init_checkpoint="$1" --max_seq_length="${LENGTH:-128}" --train_batch_size=32 \
        --learning_rate="${RATE:-2e-5}" --num_train_epochs="${EPOCHS:-3}" "${@:3}"
    fi
  done
}

for objective in mlm_nsp mlm causal; do
  make_records "$OUT/$objective" --objective="$objective"
  pretrain "$OUT/$objective" "$OUT/$objective" --objective="$objective" \
    --bert_config_file="$CONFIG" "$@"
  fine_tune_all "$(last_phase "$OUT/$objective")" "$OUT/$objective"
done
fine_tune_all "$(last_phase "$OUT/causal")" "$OUT/bilstm" --head=bilstm

model() {  # arguments: label, folder, figures of the paper for the five tasks
  row "$1" MNLI-m "$3" "$2/MNLI" "100*eval_accuracy"
  row "$1" QNLI "$4" "$2/QNLI" "100*eval_accuracy"
  row "$1" MRPC "$5" "$2/MRPC" "100*eval_accuracy"
  row "$1" SST-2 "$6" "$2/SST-2" "100*eval_accuracy"
  row "$1" "SQuAD F1" "$7" "$2/SQuAD" eval_f1
}
model BERT-Base "$OUT/mlm_nsp" 84.4 88.4 86.7 92.7 88.5
model "No NSP" "$OUT/mlm" 83.9 84.9 86.5 92.6 87.9
model "LTR & No NSP" "$OUT/causal" 82.1 84.3 77.5 92.1 77.8
model "+ BiLSTM" "$OUT/bilstm" 82.1 84.1 75.7 91.6 84.9
print_table "Table 5, pretraining tasks, on dev. GLUE: accuracy."
