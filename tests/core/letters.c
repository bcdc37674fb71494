/* Types at random on trees of random words: letters ROUNDS. Run under sanitizers. Some of what is asked for is wrong: too
 * many letters, taps that are no numbers, memory that is too small, forms and ids that do not fit. Every call answers or
 * refuses, and what is found is in order. Prints how many calls were answered and refused. */

#include "rheostat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 11;
static long answered, refused;

static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void *memory(size_t bytes) { return aligned_alloc(64, (bytes / 64 + 1) * 64); }

/* Any bytes but newlines, often letters of few kinds: many words then share their beginnings. */
static size_t write_letters(char *text, size_t most) {
    size_t length = 1 + draw((uint32_t)most);
    for (size_t place = 0; place < length; place++) {
        text[place] = draw(12) ? (char)('a' + draw(6)) : draw(3) ? '\'' : (char)(128 + draw(127));
    }
    return length;
}

static float some_number(void) {
    uint32_t kind = draw(20);
    if (kind == 0) return 0.0f / (float)(kind * 0.0f);
    if (kind == 1) return 1e38f;
    return (float)draw(2000) / 100.0f - 5.0f;
}

static int32_t choose_keys(rheo_channel *channel) {
    rheo_key keys[RHEO_MAX_KEYS];
    int32_t count = 1 + (int32_t)draw(26);
    for (int32_t key = 0; key < count; key++) keys[key] = (rheo_key){'a' + (uint32_t)key, some_number(), some_number()};
    rheo_prices prices = {5.0f, 3.0f, 12.0f, 6.0f, 6.0f, 3.5f, 9.0f, 5.0f, 5.0f, 0.2525f};
    if (!draw(8)) prices.extra = some_number();
    if (!draw(8)) prices.spread = some_number();
    return rheo_typing_set_keys(channel, keys, count, &prices, NULL);
}

static void type(rheo_typed *typed, const rheo_channel *channel) {
    char text[2 * RHEO_MAX_TYPED];
    float taps[2 * (2 * RHEO_MAX_TYPED + 1)];
    size_t length = write_letters(text, draw(6) ? 12 : sizeof text);
    for (size_t begin = 0; begin <= length; begin++) {
        rheo_explained found[RHEO_MAX_EXPLAINED];
        size_t tap_count = draw(9) ? begin : begin + 1;
        int32_t count = -1, k = draw(9) ? 1 + (int32_t)draw(8) : (int32_t)draw(70) - 2;
        for (size_t place = 0; place < 2 * tap_count; place++) taps[place] = some_number();
        rheo_keystrokes asked = {text, begin, draw(2) ? taps : NULL, tap_count, (int32_t)draw(2)};
        if (rheo_typed_best(typed, channel, &asked, NULL, NULL, k, found, &count, NULL)) {
            refused++;
            continue;
        }
        answered++;
        if (count < 0 || count > k) abort();
        for (int32_t place = 1; place < count; place++) {
            float before = found[place - 1].log_probability - found[place - 1].cost;
            if (before + 0.001f < found[place].log_probability - found[place].cost) abort();
        }
    }
}

static void run_once(void) {
    int32_t words = 1 + (int32_t)draw(draw(2) ? 8 : 400), vocabulary = words + (int32_t)draw(5) - 1;
    char *forms = memory((size_t)words * 32);
    int32_t *ids = memory((size_t)words * sizeof *ids);
    size_t bytes = 0;
    for (int32_t word = 0; word < words; word++) {
        if (word) forms[bytes++] = '\n';
        bytes += write_letters(forms + bytes, 24);
        ids[word] = word;
    }
    if (!draw(10)) ids[draw((uint32_t)words)] = (int32_t)draw(4000) - 2000;
    if (!draw(10)) forms[draw((uint32_t)bytes)] = '\n';
    size_t needed = rheo_typing_bytes(words, bytes);
    void *room = memory(needed);
    rheo_typing *typing;
    rheo_channel channel;
    float *scores = memory((size_t)(vocabulary + 1) * sizeof *scores);
    for (int32_t word = 0; word <= vocabulary; word++) scores[word] = draw(30) ? -(float)draw(4000) / 200.0f : some_number();
    if (rheo_typing_open(&typing, forms, bytes, draw(4) ? ids : NULL, words, vocabulary, room, needed - (draw(10) ? 0 : 9), NULL) ||
        choose_keys(&channel)) {
        refused++;
    } else {
        size_t typed_bytes = rheo_typed_bytes(typing);
        void *more = memory(typed_bytes);
        rheo_typed *typed;
        memset(more, 0x5a, typed_bytes); /* nothing may depend on what was there */
        if (rheo_typed_open(&typed, typing, scores, more, typed_bytes, NULL)) abort();
        for (int turn = 0; turn < 6; turn++) type(typed, &channel);
        free(more);
    }
    free(forms), free(ids), free(room), free(scores);
}

int main(int count, char **arguments) {
    long rounds = count == 2 ? atol(arguments[1]) : 0;
    for (long round = 0; round < rounds; round++) run_once();
    printf("%ld answered, %ld refused\n", answered, refused);
    return rounds < 1;
}
