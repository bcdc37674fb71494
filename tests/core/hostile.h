/* For programs that open model files with changed bytes: how bytes are changed, and how what opens is used. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "rheostat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed % below;
}

/* Most changes are in the header. Half of them put a digit in the place of a digit, so that the text stays well formed and
 * its numbers get past the parser; the others strike names, nesting and any byte. Sometimes the end is cut off. */
static size_t mutate(char *bytes, size_t size, size_t header) {
    static const char SIGNS[] = "0123456789{}[]\":,\\-e \x00\xff";
    size_t changes = 1 + draw(4);
    int only_digits = draw(2) == 0;
    for (size_t change = 0; change < changes; change++) {
        size_t place = draw(8) ? draw(header) : draw(size);
        while (only_digits && place < header && (bytes[place] < '0' || bytes[place] > '9')) place++;
        if (place == size) continue;
        if (only_digits && place < header) bytes[place] = (char)('0' + draw(10));
        else bytes[place] = draw(4) ? SIGNS[draw(sizeof SIGNS - 1)] : (char)draw(256);
    }
    return draw(16) ? size : draw(size);
}

static void *memory(size_t bytes) {
    void *made = malloc(bytes ? bytes : 1);
    if (!made) abort();
    return made;
}

static void use_at(const rheo_model *model, const rheo_position *position) {
    const rheo_config *config = rheo_config_of(model);
    const int32_t text[] = {config->vocabulary_size - 1, 0, 1 % config->vocabulary_size, 0};
    int32_t words[3], ranks[3], found, length;
    float scores[3], *all = memory((size_t)config->vocabulary_size * sizeof(float));
    rheo_state *state = memory(rheo_state_bytes(model));
    rheo_answer *answer = memory(rheo_answer_bytes(model));
    rheo_scratch *scratch = memory(rheo_evaluation_bytes(model));
    rheo_start(model, state);
    rheo_steps(model, position, state, text, 4, scratch, NULL);
    rheo_evaluate(model, position, state, text, 3, scores, ranks, scratch, NULL);
    rheo_step(model, position, state, text[0], scratch, NULL);
    rheo_predict(model, position, state, answer, NULL);
    rheo_best(model, answer, NULL, 3, words, scores, &found, NULL);
    for (int32_t place = 0; place < found; place++) {
        const char *word = rheo_word(model, words[place], &length);
        if (rheo_find_word(model, word, (size_t)length) != words[place]) abort();
        const rheo_choice choice = {.prefix = word, .prefix_length = (size_t)(length + 1) / 2};
        int32_t others[3], more;
        float their_scores[3];
        rheo_best(model, answer, &choice, 3, others, their_scores, &more, NULL);
    }
    rheo_cache *cache = memory(rheo_cache_bytes(model, 3));
    if (!rheo_cache_start(model, cache, 3, NULL)) {
        const int32_t others[] = {-5, config->vocabulary_size, 1 << 30};
        for (size_t place = 0; place < 3; place++) {
            if (!rheo_cache_add(model, position, cache, state, others[place], NULL)) abort();
            rheo_cache_add(model, position, cache, state, text[place], NULL);
        }
        rheo_cache_mix(model, position, cache, state, 0.5f, 0.5f, answer, NULL);
    }
    uint8_t *mask = memory((size_t)config->vocabulary_size);
    for (int32_t word = 0; word < config->vocabulary_size; word++) mask[word] = (uint8_t)draw(256);
    const rheo_choice masked = {.mask = mask};
    rheo_query(model, position, state, text[1], state, answer, &masked, 3, words, scores, &found, scratch, NULL);
    if (rheo_find_word(model, NULL, 0) != -1) abort();
    rheo_log_probabilities(model, answer, all, NULL);
    free(all), free(mask), free(state), free(answer), free(scratch), free(cache);
}

static void use(const rheo_model *model) {
    rheo_position position;
    rheo_position_full(model, &position);
    use_at(model, &position);
    for (int32_t number = 0; number < rheo_config_of(model)->positions; number++)
        if (!rheo_position_at(model, number, &position, NULL)) use_at(model, &position);
}

/* Opens a file in memory of exactly its size, where one byte beyond it is an error, and uses what opens at every position
 * of its knob. Whether it was opened. */
static int open_and_use(const void *original, size_t size) {
    size_t needed;
    char *bytes = memory(size);
    if (size) memcpy(bytes, original, size);
    rheo_error error;
    rheo_model *model;
    void *workspace = NULL;
    int good = rheo_workspace_bytes(bytes, size, &needed, &error) == RHEO_OK;
    if (good) {
        workspace = malloc(needed);
        good = workspace && rheo_open(&model, bytes, size, workspace, needed, NULL, &error) == RHEO_OK;
    }
    if (good) use(model);
    free(bytes), free(workspace);
    return good;
}

static char *read_file(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return NULL;
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = memory(*size);
    if (fread(bytes, 1, *size, file) != *size) return NULL;
    fclose(file);
    return bytes;
}

#endif
