/* Prints the bits of the core's answers, so that builds for different processors can be compared with one committed
 * text: bits MODEL. For every kernel and position the model reads a fixed text; each line has the kernel, the number of
 * the position, and a hash of the log-probabilities, the best words and the state. One more line per kernel, "typing",
 * has a hash of the words that explain letters typed with slips, with and without taps. For a model with a plain softmax
 * there is a line "mixing" too: with a cache, masks, queries in one call and evaluation. */

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

/* The same numbers everywhere. */
static uint32_t draw(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* Made-up words of 1 to 9 letters, one per line, with apostrophes and letters beyond ASCII; gives the bytes. */
static size_t make_forms(char *forms, int32_t words) {
    static const char *const letters[] = {"e", "t", "a", "o", "i", "n", "s", "r", "h", "l", "d", "b", "'", "é", "ü", "ж"};
    uint32_t seed = 7;
    size_t used = 0;
    for (int32_t word = 0; word < words; word++) {
        uint32_t length = 1 + draw(&seed, 9);
        if (word) forms[used++] = '\n';
        for (uint32_t place = 0; place < length; place++) {
            const char *letter = letters[draw(&seed, 16)];
            memcpy(forms + used, letter, strlen(letter));
            used += strlen(letter);
        }
    }
    return used;
}

/* Words typed letter by letter, most of them with slips, after a text of the model. */
static uint64_t type_words(const rheo_model *model, const rheo_typing *typing, rheo_answer *answer, uint64_t hash) {
    static const char *const typed[] = {"teh", "sno't", "hallo", "rats", "éte", "oooo", "nahtsb", "x", "dolhsi", "bre''", "ünes"};
    rheo_key keys[26];
    rheo_channel channel;
    for (uint32_t key = 0; key < 26; key++) {
        keys[key] = (rheo_key){'a' + key, (float)(key % 10) + 0.25f * (float)(key / 10), (float)(key / 10)};
    }
    rheo_prices prices = {5.0f, 3.0f, 12.0f, 6.0f, 6.0f, 3.5f, 9.0f, 5.0f, 5.0f, 0.2525f};
    rheo_typing_set_keys(&channel, keys, 26, &prices, NULL);
    size_t needed = rheo_typed_bytes(typing);
    void *room = memory(needed);
    rheo_typed *word;
    uint32_t seed = 3;
    rheo_typed_open_answer(&word, typing, model, answer, room, needed, NULL);
    for (size_t number = 0; number < sizeof typed / sizeof *typed; number++) {
        for (size_t length = 1; length <= strlen(typed[number]); length++) {
            float taps[2 * RHEO_MAX_TYPED];
            for (size_t place = 0; place < 2 * length; place++) taps[place] = (float)draw(&seed, 160) / 16.0f;
            for (int32_t kind = 0; kind < 3; kind++) {
                rheo_explained found[8];
                rheo_keystrokes asked = {typed[number], length, kind == 2 ? taps : NULL, length, kind == 1};
                int32_t best = 0;
                if (rheo_typed_best(word, &channel, &asked, model, answer, 8, found, &best, NULL)) best = 0;
                hash = add_to_hash(hash, &best, sizeof best);
                hash = add_to_hash(hash, found, (size_t)best * sizeof *found);
            }
        }
    }
    free(room);
    return hash;
}

static void run_typing(const rheo_model *model) {
    int32_t vocabulary = rheo_config_of(model)->vocabulary_size;
    char *forms = memory((size_t)vocabulary * 20);
    size_t bytes = make_forms(forms, vocabulary), needed = rheo_typing_bytes(vocabulary, bytes);
    void *room = memory(needed);
    rheo_typing *typing;
    rheo_position position;
    rheo_state *state = memory(rheo_state_bytes(model));
    rheo_answer *answer = memory(rheo_answer_bytes(model));
    rheo_scratch *scratch = memory(rheo_scratch_bytes(model));
    uint64_t hash = 14695981039346656037u;
    rheo_position_full(model, &position);
    rheo_typing_open(&typing, forms, bytes, NULL, vocabulary, vocabulary, room, needed, NULL);
    rheo_start(model, state);
    for (int32_t step = 0; step < 4; step++) {
        rheo_step(model, &position, state, (5 * step + 1) % vocabulary, scratch, NULL);
        rheo_predict(model, &position, state, answer, NULL);
        hash = type_words(model, typing, answer, hash);
    }
    printf("%s typing %08x%08x\n", rheo_kernel_of(model), (unsigned)(hash >> 32), (unsigned)hash);
    free(forms), free(room), free(state), free(answer), free(scratch);
}

/* A model with a plain softmax, its counts if it has any, and a cache of the last words. */
static void run_mixing(const rheo_model *model) {
    enum { CACHED = 7, TEXT = 60 };
    int32_t vocabulary = rheo_config_of(model)->vocabulary_size, text[TEXT + 1], words[5], ranks[TEXT], found;
    float scores[TEXT], *all = memory((size_t)vocabulary * sizeof(float));
    uint8_t *mask = memory((size_t)vocabulary);
    rheo_position position;
    rheo_state *state = memory(rheo_state_bytes(model));
    rheo_answer *answer = memory(rheo_answer_bytes(model));
    rheo_scratch *scratch = memory(rheo_evaluation_bytes(model));
    rheo_cache *cache = memory(rheo_cache_bytes(model, CACHED));
    rheo_choice choice = {.mask = mask};
    uint64_t hash = 14695981039346656037u;
    uint32_t seed = 11;
    rheo_position_full(model, &position);
    rheo_cache_start(model, cache, CACHED, NULL);
    rheo_start(model, state);
    for (int32_t word = 0; word < vocabulary; word++) mask[word] = (uint8_t)(word % 3);
    for (int32_t step = 0; step <= TEXT; step++) text[step] = (int32_t)draw(&seed, 9);
    for (int32_t step = 0; step < TEXT; step++) {
        rheo_cache_add(model, &position, cache, state, text[step], NULL);
        rheo_query(model, &position, state, text[step], state, answer, &choice, 5, words, scores, &found, scratch, NULL);
        hash = add_to_hash(hash, words, (size_t)found * sizeof *words);
        hash = add_to_hash(hash, scores, (size_t)found * sizeof *scores);
        rheo_cache_mix(model, &position, cache, state, 0.3f, 0.2f, answer, NULL);
        rheo_log_probabilities(model, answer, all, NULL);
        hash = add_to_hash(hash, all, (size_t)vocabulary * sizeof *all);
    }
    rheo_start(model, state);
    rheo_evaluate(model, &position, state, text, TEXT, scores, ranks, scratch, NULL);
    hash = add_to_hash(hash, scores, sizeof scores);
    hash = add_to_hash(hash, ranks, sizeof ranks);
    printf("%s mixing %08x%08x\n", rheo_kernel_of(model), (unsigned)(hash >> 32), (unsigned)hash);
    free(all), free(mask), free(state), free(answer), free(scratch), free(cache);
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
        run_typing(model);
        if (rheo_config_of(model)->clusters == 1) run_mixing(model);
        free(workspace);
    }
    free(bytes);
    return 0;
}
