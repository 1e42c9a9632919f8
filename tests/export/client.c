/* Runs a SavedModel through the C API of TensorFlow, as a server does.
 *
 *   client FOLDER LIBRARIES INPUTS OUTPUTS TEXT...
 *
 * LIBRARIES: libraries with operations, separated by commas.
 * INPUTS, OUTPUTS: tensors such as serving_default_text:0, separated by commas.
 * TEXT...: for each input one text. For an input of rank 2, texts separated by "|".
 *
 * Prints each value of each output on a line: the number of the output, and the value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

#define MAX_TENSORS 16

static void check(TF_Status *status, const char *action) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", action, TF_Message(status));
  exit(1);
}

/* Looks up tensors by name; returns their number. */
static int find_tensors(TF_Graph *graph, char *names, TF_Output *tensors) {
  int count = 0;
  for (char *name = strtok(names, ","); name && count < MAX_TENSORS; name = strtok(NULL, ",")) {
    char *colon = strrchr(name, ':');
    if (!colon) exit(1);
    *colon = 0;
    TF_Output found = {TF_GraphOperationByName(graph, name), atoi(colon + 1)};
    if (!found.oper) {
      fprintf(stderr, "no operation %s\n", name);
      exit(1);
    }
    tensors[count++] = found;
  }
  return count;
}

/* Returns a string tensor [1], or [1, number of texts] if the rank is 2. */
static TF_Tensor *text_tensor(const char *text, int rank) {
  int64_t shape[2] = {1, 1};
  for (const char *at = text; rank == 2 && *at; at++) shape[1] += *at == '|';
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, shape, rank, shape[1] * sizeof(TF_TString));
  TF_TString *values = TF_TensorData(tensor);
  for (int64_t i = 0; i < shape[1]; i++) {
    const size_t size = rank == 2 ? strcspn(text, "|") : strlen(text);
    TF_StringInit(&values[i]);
    TF_StringCopy(&values[i], text, size);
    text += size + 1;
  }
  return tensor;
}

static void print_values(int number, TF_Tensor *tensor) {
  const int64_t count = TF_TensorElementCount(tensor);
  const void *data = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    printf("%d ", number);
    switch (TF_TensorType(tensor)) {
      case TF_FLOAT:
        printf("%.9g\n", ((const float *)data)[i]);
        break;
      case TF_INT32:
        printf("%d\n", ((const int *)data)[i]);
        break;
      case TF_BOOL:
        printf("%d\n", ((const unsigned char *)data)[i]);
        break;
      case TF_STRING: {
        const TF_TString *text = (const TF_TString *)data + i;
        fwrite(TF_StringGetDataPointer(text), 1, TF_StringGetSize(text), stdout);
        printf("\n");
        break;
      }
      default:
        fprintf(stderr, "unexpected dtype %d\n", TF_TensorType(tensor));
        exit(1);
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 6) return 2;
  TF_Status *status = TF_NewStatus();
  for (char *name = strtok(argv[2], ","); name; name = strtok(NULL, ",")) {
    TF_LoadLibrary(name, status);
    check(status, name);
  }
  TF_Graph *graph = TF_NewGraph();
  TF_SessionOptions *options = TF_NewSessionOptions();
  const char *tags[] = {"serve"};
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, "load");
  TF_Output inputs[MAX_TENSORS], outputs[MAX_TENSORS];
  TF_Tensor *values[MAX_TENSORS], *results[MAX_TENSORS];
  const int num_inputs = find_tensors(graph, argv[3], inputs);
  const int num_outputs = find_tensors(graph, argv[4], outputs);
  if (argc != 5 + num_inputs) return 2;
  for (int i = 0; i < num_inputs; i++) {
    const int rank = TF_GraphGetTensorNumDims(graph, inputs[i], status);
    check(status, "rank");
    values[i] = text_tensor(argv[5 + i], rank);
  }
  TF_SessionRun(session, NULL, inputs, values, num_inputs, outputs, results, num_outputs, NULL, 0,
                NULL, status);
  check(status, "run");
  for (int i = 0; i < num_outputs; i++) print_values(i, results[i]);
  return 0;
}
