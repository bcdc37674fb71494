/* Prints the bits of the core's answers, so that builds for different processors can be compared with one committed
 * text: bits MODEL. For every kernel and position the model reads a fixed text; each line has the kernel, the number of
 * the position, and a hash of the log-probabilities, the best words and the state. */

#include "rheostat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t add_to_hash(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t place = 0; place < count; place++) hash = (hash ^ at[place]) * 1099511628211u;
    return hash;
}

static void *memory(size_t bytes) { return calloc(bytes / 64 + 2, 64); }

static int fail(const char *text) {
    fprintf(stderr, "bits: %s\n", text);
    return 1;
}

static void run(const rheo_model *model, int32_t number) {
    rheo_position position;
    rheo_position_at(model, number, &position, NULL);
    const rheo_config *config = rheo_config_of(model);
    int32_t words[5], found, vocabulary = config->vocabulary_size;
    float scores[5], *all = memory((size_t)vocabulary * sizeof(float));
    rheo_state *state = memory(rheo_state_bytes(model));
    rheo_answer *answer = memory(rheo_answer_bytes(model));
    rheo_scratch *scratch = memory(rheo_scratch_bytes(model));
    uint64_t hash = 14695981039346656037u;
    rheo_start(model, state);
    for (int32_t step = 0; step < 40; step++) {
        rheo_step(model, &position, state, (step * step + 3 * step + 1) % vocabulary, scratch, NULL);
        rheo_predict(model, &position, state, answer, NULL);
        rheo_best(model, answer, NULL, 5, words, scores, &found, NULL);
        rheo_log_probabilities(model, answer, all, NULL);
        hash = add_to_hash(hash, words, (size_t)found * sizeof *words);
        hash = add_to_hash(hash, scores, (size_t)found * sizeof *scores);
        hash = add_to_hash(hash, all, (size_t)vocabulary * sizeof *all);
    }
    hash = add_to_hash(hash, state, rheo_state_bytes(model));
    printf("%s %d %08x%08x\n", rheo_kernel_of(model), (int)number, (unsigned)(hash >> 32), (unsigned)hash);
    free(all), free(state), free(answer), free(scratch);
}

int main(int count, char **arguments) {
    if (count != 2) return fail("expected the name of a model file");
    FILE *file = fopen(arguments[1], "rb");
    if (!file || fseek(file, 0, SEEK_END)) return fail("the file cannot be read");
    long size = ftell(file);
    rewind(file);
    char *bytes = memory((size_t)size);
    if (fread(bytes, 1, (size_t)size, file) != (size_t)size) return fail("the file cannot be read");
    fclose(file);
    const char *kernel;
    for (int32_t number = 0; (kernel = rheo_kernel_name(number)) != NULL; number++) {
        size_t needed;
        rheo_error error;
        rheo_model *model;
        if (rheo_workspace_bytes(bytes, (size_t)size, &needed, &error)) return fail(error.text);
        void *workspace = memory(needed);
        if (rheo_open(&model, bytes, (size_t)size, workspace, needed, kernel, &error)) return fail(error.text);
        for (int32_t position = 0; position < rheo_config_of(model)->positions; position++) run(model, position);
        free(workspace);
    }
    free(bytes);
    return 0;
}
