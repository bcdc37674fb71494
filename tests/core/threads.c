/* Threads that share the work of a query: threads MODEL. For 1, 2, 3 and 5 threads of a pool, several threads ask at
 * once, read the same text and compare every answer with that of a model without a pool. Prints how many answers were
 * compared. Made to be compiled with the thread sanitizer. */

#include "pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ASKERS = 3, TEXT = 33, STEPS = 12 };

static void *memory(size_t bytes) { return calloc(bytes / 64 + 2, 64); }

static void fail(const char *text) {
    fprintf(stderr, "threads: %s\n", text);
    exit(1);
}

static rheo_model *open(const char *bytes, size_t size, void **workspace) {
    size_t needed;
    rheo_error error;
    rheo_model *model;
    if (rheo_workspace_bytes(bytes, size, &needed, &error)) fail(error.text);
    *workspace = memory(needed);
    if (rheo_open(&model, bytes, size, *workspace, needed, NULL, &error)) fail(error.text);
    return model;
}

/* Everything that a model says of a text: by single words, of many at once, of each next word. */
typedef struct record {
    float *all, *scores;
    int32_t ranks[TEXT];
    rheo_state *single, *many, *evaluated;
    size_t all_bytes;
} record;

static record read_text(const rheo_model *model, int32_t number) {
    rheo_position position;
    rheo_position_at(model, number, &position, NULL);
    int32_t vocabulary = rheo_config_of(model)->vocabulary_size, text[TEXT + 1];
    for (int32_t place = 0; place <= TEXT; place++) text[place] = (place * place + 3 * place + 1) % vocabulary;
    record found;
    memset(&found, 0, sizeof found);
    found.all_bytes = STEPS * (size_t)vocabulary * sizeof(float);
    found.all = memory(found.all_bytes);
    found.scores = memory(TEXT * sizeof(float));
    found.single = memory(rheo_state_bytes(model));
    found.many = memory(rheo_state_bytes(model));
    found.evaluated = memory(rheo_state_bytes(model));
    rheo_answer *answer = memory(rheo_answer_bytes(model));
    rheo_scratch *scratch = memory(rheo_evaluation_bytes(model));
    rheo_start(model, found.single), rheo_start(model, found.many), rheo_start(model, found.evaluated);
    for (int32_t step = 0; step < STEPS; step++) {
        rheo_step(model, &position, found.single, text[step], scratch, NULL);
        rheo_predict(model, &position, found.single, answer, NULL);
        rheo_log_probabilities(model, answer, found.all + (size_t)step * (size_t)vocabulary, NULL);
    }
    rheo_steps(model, &position, found.many, text, TEXT, scratch, NULL);
    rheo_evaluate(model, &position, found.evaluated, text, TEXT, found.scores, found.ranks, scratch, NULL);
    free(answer), free(scratch);
    return found;
}

static void drop(record *of) { free(of->all), free(of->scores), free(of->single), free(of->many), free(of->evaluated); }

static int equal(const rheo_model *model, const record *one, const record *other) {
    size_t state = rheo_state_bytes(model);
    return !memcmp(one->all, other->all, one->all_bytes) && !memcmp(one->scores, other->scores, TEXT * sizeof(float)) &&
           !memcmp(one->ranks, other->ranks, sizeof one->ranks) && !memcmp(one->single, other->single, state) &&
           !memcmp(one->many, other->many, state) && !memcmp(one->evaluated, other->evaluated, state);
}

typedef struct question {
    const rheo_model *alone, *together;
} question;

static void *ask(void *of) {
    const question *asked = of;
    for (int32_t number = 0; number < rheo_config_of(asked->alone)->positions; number++) {
        record expected = read_text(asked->alone, number), found = read_text(asked->together, number);
        if (!equal(asked->alone, &expected, &found)) fail("an answer depends on the number of threads");
        drop(&expected), drop(&found);
    }
    return NULL;
}

static void compare(const rheo_model *alone, rheo_model *together, int32_t threads) {
    pthread_t askers[ASKERS];
    question asked = {alone, together};
    rheo_error error;
    rheo_pool *pool;
    void *room = memory(rheo_pool_bytes(threads));
    if (rheo_pool_start(&pool, threads, room, rheo_pool_bytes(threads), &error)) fail(error.text);
    rheo_use_workers(together, rheo_pool_workers(pool));
    ask(&asked);
    for (int32_t number = 0; number < ASKERS; number++) pthread_create(&askers[number], NULL, ask, &asked);
    for (int32_t number = 0; number < ASKERS; number++) pthread_join(askers[number], NULL);
    rheo_use_workers(together, NULL);
    rheo_pool_stop(pool);
    free(room);
}

static void refuse(void) {
    rheo_pool *pool;
    char *room = memory(rheo_pool_bytes(2));
    if (rheo_pool_start(&pool, 0, room, 64, NULL) != RHEO_BAD_ARGUMENT) fail("no threads were started");
    if (rheo_pool_start(&pool, RHEO_MAX_THREADS + 1, room, 64, NULL) != RHEO_BAD_ARGUMENT) fail("too many were started");
    if (rheo_pool_start(&pool, 2, room, rheo_pool_bytes(2) - 1, NULL) != RHEO_NO_ROOM) fail("a pool without room");
    if (rheo_pool_start(&pool, 2, room + 1, rheo_pool_bytes(2), NULL) != RHEO_NO_ROOM) fail("a pool at an odd address");
    if (rheo_pool_start(&pool, 2, room, rheo_pool_bytes(2), NULL) != RHEO_OK) fail("a pool was refused");
    rheo_pool_stop(pool); /* without any work */
    free(room);
}

int main(int count, char **arguments) {
    FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
    if (!file || fseek(file, 0, SEEK_END)) fail("expected the name of a model file");
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *bytes = memory(size);
    if (fread(bytes, 1, size, file) != size) fail("the file cannot be read");
    fclose(file);
    void *workspaces[2];
    rheo_model *alone = open(bytes, size, &workspaces[0]), *together = open(bytes, size, &workspaces[1]);
    static const int32_t threads[] = {1, 2, 3, 5};
    refuse();
    for (size_t place = 0; place < sizeof threads / sizeof *threads; place++) compare(alone, together, threads[place]);
    printf("%d\n", (int)(4 * (ASKERS + 1) * rheo_config_of(alone)->positions));
    free(workspaces[0]), free(workspaces[1]), free(bytes);
    return 0;
}
