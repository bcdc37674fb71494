/* Opens a model file with some of its bytes changed, over and over: mutate MODEL COUNT. What is refused is counted; what
 * is opened is used, so that a size that slipped through would be found by the sanitizers. */

#include "rheostat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % below;
}

/* Digits and signs of the header are changed most: numbers, names, nesting. Sometimes the end is cut off. */
static size_t mutate(char *bytes, size_t size, size_t header) {
    static const char SIGNS[] = "0123456789{}[]\":,\\-e \x00\xff";
    size_t changes = 1 + draw(4);
    for (size_t change = 0; change < changes; change++) {
        size_t place = draw(8) ? draw(header) : draw(size);
        bytes[place] = draw(4) ? SIGNS[draw(sizeof SIGNS - 1)] : (char)draw(256);
    }
    return draw(16) ? size : draw(size);
}

static void use(const rheo_model *model) {
    rheo_position position;
    int32_t words[3], found, length;
    float scores[3];
    rheo_state *state = malloc(rheo_state_bytes(model));
    rheo_answer *answer = malloc(rheo_answer_bytes(model));
    rheo_scratch *scratch = malloc(rheo_scratch_bytes(model));
    rheo_position_full(model, &position);
    rheo_start(model, state);
    rheo_step(model, &position, state, rheo_config_of(model)->vocabulary_size - 1, scratch, NULL);
    if (!rheo_position_near(model, 0.6f, &position, NULL)) rheo_step(model, &position, state, 1, scratch, NULL);
    rheo_predict(model, &position, state, answer, NULL);
    rheo_best(model, answer, NULL, 3, words, scores, &found, NULL);
    for (int32_t place = 0; place < found; place++) {
        const char *word = rheo_word(model, words[place], &length);
        if (rheo_find_word(model, word, (size_t)length) != words[place]) abort();
    }
    free(state), free(answer), free(scratch);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    FILE *file = fopen(arguments[1], "rb");
    if (!file || fseek(file, 0, SEEK_END)) return 2;
    size_t size = (size_t)ftell(file), header;
    rewind(file);
    char *original = malloc(size);
    if (fread(original, 1, size, file) != size) return 2;
    fclose(file);
    header = (size_t)(unsigned char)original[0] + ((size_t)(unsigned char)original[1] << 8) + 8;
    long rounds = strtol(arguments[2], NULL, 10), refused = 0;
    for (long round = 0; round < rounds; round++) {
        /* Memory of exactly the file's size: one byte beyond it is an error. */
        char *all = malloc(size);
        memcpy(all, original, size);
        size_t length = mutate(all, size, header), needed;
        char *bytes = malloc(length ? length : 1);
        memcpy(bytes, all, length);
        rheo_error error;
        rheo_model *model;
        void *workspace = NULL;
        int bad = rheo_workspace_bytes(bytes, length, &needed, &error) != RHEO_OK;
        if (!bad) {
            workspace = malloc(needed);
            bad = !workspace || rheo_open(&model, bytes, length, workspace, needed, NULL, &error) != RHEO_OK;
        }
        if (bad) refused++;
        else use(model);
        free(all), free(bytes), free(workspace);
    }
    free(original);
    printf("%ld of %ld refused\n", refused, rounds);
    return 0;
}
