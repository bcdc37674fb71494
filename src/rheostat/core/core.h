/* What the files of the core share. Private: applications include rheostat.h only. */
#ifndef RHEOSTAT_CORE_H
#define RHEOSTAT_CORE_H

#include "kernels.h"
#include "rheostat.h"

/* Rounds up to whole cache lines: every part of a block of memory begins with one. */
static inline size_t rheo_lines(size_t bytes) { return (bytes + RHEO_LINE - 1) / RHEO_LINE * RHEO_LINE; }

/* A matrix as it lies in the file: 8 bits in two planes with a scale per row (kernels.h), or float32 in rows (then there
 * are no planes and no scales). Rows come in `parts` of equal size, columns in `steps` of equal size; in a plane each part
 * begins with a block of its own, and each step with a line of its own. */
typedef struct rheo_matrix {
    const uint8_t *upper;
    const uint8_t *lower; /* NULL in a file of 4 bits */
    const float *scales;
    const float *floats;
    int32_t parts, rows;    /* rows: of one part */
    int32_t steps, columns; /* columns: of one step */
} rheo_matrix;

/* How many blocks this many rows take, and how many lines of a block this many columns take. */
static inline int32_t rheo_blocks(int32_t rows) { return (rows + RHEO_ROWS - 1) / RHEO_ROWS; }
static inline int32_t rheo_column_lines(int32_t columns) { return (columns + RHEO_COLUMNS - 1) / RHEO_COLUMNS; }

/* Bytes from one block of rows to the next. */
static inline size_t rheo_block_bytes(const rheo_matrix *w) {
    return (size_t)w->steps * (size_t)rheo_column_lines(w->columns) * RHEO_LINE;
}

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

/* The n-grams of one length: rows of that many words, ascending, and the level of each. */
typedef struct rheo_ngrams {
    const uint16_t *rows;
    const uint8_t *levels;
    size_t count;
} rheo_ngrams;

/* Counts, if the file has them; otherwise orders is 0. */
typedef struct rheo_counts {
    int32_t orders;                          /* the length of the longest n-grams */
    rheo_ngrams ngrams[RHEO_MAX_ORDER + 1];  /* by length, from 2 */
    int32_t table;                           /* entries of the table of weights */
    const float *costs;                      /* [table], from the largest down */
    const float *weights;                    /* [table, orders - 1] */
} rheo_counts;

struct rheo_model {
    rheo_config config;
    rheo_weights weights;
    rheo_counts counts;
    const rheo_kernels *kernels;
    rheo_workers workers;        /* run is NULL where there are none */
    const char *words;           /* all words, a newline between two */
    uint32_t *word_start;        /* [vocabulary + 1] */
    int32_t *order;              /* [vocabulary] ids in the order of the words' bytes */
    const float *path_cost;      /* [positions] */
    const int32_t *path_widths;  /* [positions, layers] */
    const int32_t *path_bounds;  /* [positions, layers + 1]; NULL: 8 bits everywhere */
    int32_t unknown_id, end_id;
    int32_t widest;              /* of the embedding and all layers, padded */
};

/* The state: for each layer c [hidden], then its last window - 1 inputs, oldest first; and h of the last layer. With
 * counts, then the last words, id + 1 each, oldest first; 0 where there is none. */
struct rheo_state {
    float values[1]; /* rheo_state_bytes tells how many there are */
};

/* Whether the model has this position, and all of these words. */
rheo_status rheo_check_position(const rheo_model *model, const rheo_position *position, rheo_error *error);
rheo_status rheo_check_words(const rheo_model *model, const int32_t *words, size_t count, rheo_error *error);

/* Whether the model has a position of these widths [layers] and bounds [layers + 1]. */
int rheo_fits(const rheo_model *model, const int32_t *widths, const int32_t *bounds);

void rheo_find_prefix(const rheo_model *model, const char *prefix, size_t length, int32_t *first, int32_t *last);
/* log p of the words of a cluster; while it is closed, that of the cluster itself, which none of them exceeds. */
void rheo_bound_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster, float *log_probabilities);
/* Open a cluster; whether it was closed. */
int rheo_open_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster);

/* Mix counts into an answer whose only cluster is open. recent: the last RHEO_MAX_ORDER - 1 words, oldest first; -1 where
 * there is none. */
void rheo_mix_counts(const rheo_model *model, float cost, const int32_t *recent, rheo_answer *answer);

/* p(word) becomes p(word) + extra; then all of them are multiplied by `kept`, so that they sum to 1 again. */
void rheo_answer_add(const rheo_model *model, rheo_answer *answer, int32_t word, double extra);
void rheo_answer_keep(rheo_answer *answer, double kept);

/* h of the last layer: what the output layer reads. */
const float *rheo_last_hidden(const rheo_model *model, const rheo_state *state);

rheo_status rheo_fail(rheo_error *error, rheo_status status, const char *text, const char *detail);

#endif
