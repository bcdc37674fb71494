/* A keyboard in a few lines: open a model, turn the knob, complete a sentence.
 *
 *     cc -std=c11 -O3 -ffp-contract=off -Wno-psabi example.c model.c network.c mixing.c kernels.c typing.c -o example
 *     ./example chat.safetensors 0.5 "see you at the ga"
 */

#include "rheostat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *text) {
    fprintf(stderr, "example: %s\n", text);
    return 1;
}

/* malloc is aligned as the library asks for. */
static void *read_file(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return NULL;
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    if (bytes && fread(bytes, 1, *size, file) != *size) return NULL;
    fclose(file);
    return bytes;
}

int main(int count, char **arguments) {
    if (count != 4) return fail("expected MODEL KNOB TEXT");
    size_t file_bytes, workspace_bytes;
    rheo_error error;
    rheo_model *model;
    void *file = read_file(arguments[1], &file_bytes);
    if (!file) return fail("the model file cannot be read");
    if (rheo_workspace_bytes(file, file_bytes, &workspace_bytes, &error)) return fail(error.text);
    void *workspace = malloc(workspace_bytes);
    if (rheo_open(&model, file, file_bytes, workspace, workspace_bytes, NULL, &error)) return fail(error.text);

    rheo_position position;
    if (rheo_position_near(model, strtof(arguments[2], NULL), &position, &error)) return fail(error.text);

    /* Read all whole words; a real keyboard also splits off punctuation and puts words in lower case. */
    rheo_state *state = malloc(rheo_state_bytes(model));
    rheo_answer *answer = malloc(rheo_answer_bytes(model));
    rheo_scratch *scratch = malloc(rheo_scratch_bytes(model));
    rheo_start(model, state);
    rheo_step(model, &position, state, rheo_end_id(model), scratch, NULL);
    char *word = arguments[3], *end;
    while ((end = strchr(word, ' ')) != NULL) {
        int32_t id = rheo_find_word(model, word, (size_t)(end - word));
        rheo_step(model, &position, state, id < 0 ? rheo_unknown_id(model) : id, scratch, NULL);
        word = end + 1;
    }

    /* What follows the last space is an unfinished word. */
    rheo_choice choice = {0};
    choice.prefix = word;
    choice.prefix_length = strlen(word);
    int32_t words[3], found, length;
    float log_probabilities[3];
    rheo_predict(model, &position, state, answer, NULL);
    rheo_best(model, answer, &choice, 3, words, log_probabilities, &found, NULL);
    printf("%.0f %% of the cost, kernel %s:", 100 * position.cost, rheo_kernel_of(model));
    for (int32_t place = 0; place < found; place++) {
        const char *bytes = rheo_word(model, words[place], &length);
        printf(" %.*s", (int)length, bytes);
    }
    printf("\n");
    free(file), free(workspace), free(state), free(answer), free(scratch);
    return 0;
}
