#!/usr/bin/env bash
# Fine-tunes a model on the tasks of GLUE (table 1): batches of 32, 3 epochs, and the learning rate
# that is best on dev. If there are test files, also writes OUT/submission.zip for the GLUE server.
#
# Hardware   a GPU of 12 GB holds a batch of BERT-Base.
# Time       not known; 4 learning rates for each of 8 tasks.
# Expected   GLUE test server, BERT-Base: MNLI-m/mm 84.6/83.4, QQP 71.2, QNLI 90.5, SST-2 93.5, CoLA
#            52.1, STS-B 85.8, MRPC 88.9, RTE 66.4, mean 79.6. The recipe prints figures on dev,
#            which differ. The figures for SIZE=large are in the rows at the end. For BERT-Large, the
#            paper took the best of several restarts on the small data sets: SEEDS=5.
#            This recipe has not been run at this size; tests/run_scripts/test_recipes.py runs a
#            small version.
#
# MODEL=uncased_L-12_H-768_A-12 GLUE=glue_data OUT=glue \
#   bash run_scripts/recipes/table1_glue.sh [further flags of run_classifier.py]
#
# TASKS selects some of the tasks. The server also requires predictions for WNLI and AX.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
require MODEL "checkpoint to fine-tune" GLUE "folder with the folders of the tasks" \
  OUT "folder of the results"
TASKS=${TASKS:-CoLA SST-2 MRPC QQP STS-B MNLI QNLI RTE}
RATES=${RATES:-5e-5,4e-5,3e-5,2e-5} SEEDS=${SEEDS:-1}
for task in $TASKS; do require_files "$GLUE/$task"; done

metric_of() {
  case $1 in
    CoLA) echo matthews_correlation ;;
    STS-B) echo spearman ;;
    MRPC | QQP) echo f1 ;;
    *) echo accuracy ;;
  esac
}

submissions=""
for task in $TASKS; do
  sweep run_classifier.py "$OUT/$task" "$RATES" "$SEEDS" --task_name="$task" \
    --data_dir="$GLUE/$task" --init_checkpoint="$MODEL" --max_seq_length="${LENGTH:-128}" \
    --train_batch_size=32 --num_train_epochs="${EPOCHS:-3}" "$@"
  if [ -e "$GLUE/$task/test.tsv" ] || [ -e "$GLUE/$task/test_matched.tsv" ]; then
    best=$(best_run "$OUT/$task" "eval_$(metric_of "$task")")
    run run_scripts/run_classifier.py --do_predict=true --task_name="$task" \
      --data_dir="$GLUE/$task" --init_checkpoint="$best" --output_dir="$OUT/submission/$task"
    submissions=$submissions,$OUT/submission/$task
  fi
done
if [ -n "$submissions" ]; then
  run run_scripts/make_glue_submission.py --input_dirs="${submissions#,}" \
    --output_file="$OUT/submission.zip"
fi

# Arguments: label, task, figures of BERT-Base and BERT-Large, metric if it is not that of the task.
score() {
  local metric
  metric=$(metric_of "$2")
  row "$1" "${5:-$metric}" "$(by_size "$3" "$4")" "$OUT/$2" "100*eval_${5:-$metric}" \
    "best_run:eval_$metric"
}
score MNLI-m MNLI 84.6 86.7
score MNLI-mm MNLI 83.4 85.9 accuracy_mismatched
score QQP QQP 71.2 72.1
score QNLI QNLI 90.5 92.7
score SST-2 SST-2 93.5 94.9
score CoLA CoLA 52.1 60.5
score STS-B STS-B 85.8 86.5
score MRPC MRPC 88.9 89.3
score RTE RTE 66.4 70.1
row Average "" "$(by_size 79.6 82.1)" "" mean_of_rows
print_table "Table 1, GLUE. Paper: test server. Result: best run on dev, which is not comparable."
