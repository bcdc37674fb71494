/* What the files of the core share. Private: applications include rheostat.h only. */
#ifndef RHEOSTAT_CORE_H
#define RHEOSTAT_CORE_H

#include "kernels.h"
#include "rheostat.h"

#define RHEO_LINE 64 /* bytes of a cache line: parts of a memory begin that far apart */

static inline size_t rheo_lines(size_t bytes) { return (bytes + RHEO_LINE - 1) / RHEO_LINE * RHEO_LINE; }

/* A matrix as it lies in the file: int8 with a scale per row, or float32 (then integers and scales are NULL). */
typedef struct rheo_matrix {
    const int8_t *integers;
    const float *scales;
    const float *floats;
    int32_t rows;
    int32_t columns;
} rheo_matrix;

typedef struct rheo_layer {
    rheo_matrix weight; /* [3 · filters, window · inputs]: rows z, f, o; columns oldest input first */
    const float *bias;
} rheo_layer;

typedef struct rheo_weights {
    rheo_matrix embedding; /* [vocabulary, embedding_size] */
    rheo_matrix output;    /* the embedding itself, or a matrix of its own where the model was cut */
    const float *output_bias;
    rheo_matrix clusters; /* one row per tail */
    const float *cluster_bias;
    rheo_layer layers[RHEO_MAX_LAYERS];
} rheo_weights;

struct rheo_model {
    rheo_config config;
    rheo_weights weights;
    const rheo_kernels *kernels;
    const char *words;           /* all words, a newline between two */
    uint32_t *word_start;        /* [vocabulary + 1] */
    int32_t *order;              /* [vocabulary] ids in the order of the words' bytes */
    const float *path_cost;      /* [positions] */
    const int32_t *path_widths;  /* [positions, layers] */
    int32_t unknown_id, end_id;
    int32_t widest;              /* of the embedding and all layers, padded */
};

/* The state: for each layer c [hidden], then its last window - 1 inputs, oldest first; and h of the last layer. */
struct rheo_state {
    float values[1]; /* rheo_state_bytes tells how many there are */
};

void rheo_find_prefix(const rheo_model *model, const char *prefix, size_t length, int32_t *first, int32_t *last);
rheo_status rheo_fail(rheo_error *error, rheo_status status, const char *text, const char *detail);

#endif
