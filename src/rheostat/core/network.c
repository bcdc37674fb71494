/* Running a model: words in, probabilities of the next word out.
 *
 * Layer l with window r reads X_t = x_{t-r+1} ⊕ … ⊕ x_t:
 *
 *     Z = tanh(W_z X + b_z)    F = σ(W_f X + b_f)    O = σ(W_o X + b_o)
 *     c_t = f_t c_{t-1} + (1 - f_t) z_t              h_t = o_t c_t
 *
 * The three products are one matrix, rows z, f, o. A position of the knob bounds the rows of each by the width of the
 * layer, and the columns by the width of the layer before; its bit bounds say which rows are read in 8 bits and which
 * in 4. In either case every x_t is quantised once, with its own scale. The products of a block of words do not depend
 * on each other, so each row of weights is read once per block.
 *
 * Rows do not depend on each other either. Where the model has workers, they share the filters of each layer, then the
 * words of the output layer; the thread that asked sums over all words, in the usual order. */

#include "core.h"

#include <string.h>

enum {
    READ_WORDS = 16,    /* read at once by rheo_steps: more are hardly faster, and take more scratch */
    BLOCK_WORDS = 32,   /* read at once by rheo_evaluate: in float32, each block of words reads all of a large model */
    CACHED = 16384,     /* bytes of weights that all words of a block are multiplied by at once: half of a level-1 cache
    */
    OUTPUT_ROWS = 1024, /* of the output layer, whose exponentials are summed up together */
    PIECE = 128,        /* words whose largest logit is kept, so that most of them need not be looked at again */
    SHARES = 4,         /* of a product per thread: a late thread then leaves more to the others */
    GATES = 3
};

/* --- memory ------------------------------------------------------------------------------------------------------- */

static size_t widest(const rheo_model *model) { return (size_t)model->widest; }

/* A vector as products read it: 8 bits or floats, padded. */
typedef struct vector {
    float *floats;
    int8_t *values;
    float scale;
    int32_t sum; /* of the values */
} vector;

/* Where the parts of a scratch for up to BLOCK_WORDS words lie. Inputs: one vector per word and per step of the longest
 * window. */
typedef struct room {
    vector inputs[BLOCK_WORDS + RHEO_MAX_WINDOW - 1];
    float *hidden[BLOCK_WORDS]; /* h of the layer at work */
    float *gates[BLOCK_WORDS];  /* [3 · widest] before their activation */
    int32_t *sums;              /* of one product, in whole blocks of rows */
} room;

static size_t gates_floats(const rheo_model *model) { return GATES * widest(model); }

/* A product may begin and end within a block of rows. */
static size_t sums_count(const rheo_model *model) { return widest(model) + 2 * RHEO_ROWS; }

static size_t room_bytes(const rheo_model *model, size_t words) {
    size_t vectors = words + RHEO_MAX_WINDOW - 1, wide = widest(model);
    return vectors * (rheo_lines(wide * sizeof(float)) + rheo_lines(wide)) +
           words * (rheo_lines(wide * sizeof(float)) + rheo_lines(gates_floats(model) * sizeof(float))) +
           rheo_lines(sums_count(model) * sizeof(int32_t));
}

size_t rheo_scratch_bytes(const rheo_model *model) { return room_bytes(model, READ_WORDS); }

/* The answers to the words of a block come last. */
size_t rheo_evaluation_bytes(const rheo_model *model) {
    return room_bytes(model, BLOCK_WORDS) + BLOCK_WORDS * rheo_answer_bytes(model);
}

static void *cut_off(char **at, size_t bytes) {
    void *part = *at;
    *at += rheo_lines(bytes);
    return part;
}

static room divide(const rheo_model *model, int32_t words, rheo_scratch *scratch) {
    room parts;
    char *at = (char *)scratch;
    size_t wide = widest(model);
    memset(&parts, 0, sizeof parts);
    for (int32_t place = 0; place < words + RHEO_MAX_WINDOW - 1; place++) {
        parts.inputs[place].floats = cut_off(&at, wide * sizeof(float));
        parts.inputs[place].values = cut_off(&at, wide);
    }
    for (int32_t word = 0; word < words; word++) {
        parts.hidden[word] = cut_off(&at, wide * sizeof(float));
        parts.gates[word] = cut_off(&at, gates_floats(model) * sizeof(float));
    }
    parts.sums = cut_off(&at, sums_count(model) * sizeof(int32_t));
    return parts;
}

static size_t layer_floats(const rheo_config *config, int32_t layer) {
    int32_t inputs = layer ? config->hidden_sizes[layer - 1] : config->embedding_size;
    return (size_t)config->hidden_sizes[layer] + (size_t)(config->windows[layer] - 1) * (size_t)inputs;
}

static size_t state_floats(const rheo_model *model) {
    const rheo_config *config = &model->config;
    size_t total = (size_t)config->hidden_sizes[config->layers - 1];
    for (int32_t layer = 0; layer < config->layers; layer++) total += layer_floats(config, layer);
    return total;
}

/* The last words are part of the state where the file has counts. */
static size_t recent_floats(const rheo_model *model) { return model->counts.orders ? RHEO_MAX_ORDER - 1 : 0; }

size_t rheo_state_bytes(const rheo_model *model) { return (state_floats(model) + recent_floats(model)) * sizeof(float); }

void rheo_start(const rheo_model *model, rheo_state *state) { memset(state, 0, rheo_state_bytes(model)); }

const float *rheo_last_hidden(const rheo_model *model, const rheo_state *state) {
    return state->values + state_floats(model) - model->config.hidden_sizes[model->config.layers - 1];
}

/* The last words, oldest first; -1 where there is none. */
static void recent_words(const rheo_model *model, const float *state, int32_t *recent) {
    const float *kept = state + state_floats(model);
    for (size_t place = 0; place < recent_floats(model); place++) recent[place] = (int32_t)kept[place] - 1;
}

static void push_word(int32_t *recent, int32_t word) {
    memmove(recent, recent + 1, (RHEO_MAX_ORDER - 2) * sizeof *recent);
    recent[RHEO_MAX_ORDER - 2] = word;
}

static void keep_words(const rheo_model *model, float *state, const int32_t *words, int32_t count) {
    int32_t recent[RHEO_MAX_ORDER - 1];
    if (!recent_floats(model)) return;
    recent_words(model, state, recent);
    for (int32_t place = 0; place < count; place++) push_word(recent, words[place]);
    for (size_t place = 0; place < recent_floats(model); place++) {
        state[state_floats(model) + place] = (float)(recent[place] + 1);
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Make a vector ready for products: in 8 bits, or padded with zeros. */
static void prepare(const rheo_model *model, const float *x, int32_t count, vector *ready) {
    if (model->config.is_int8) {
        rheo_vector8 made = model->kernels->quantize(x, count, ready->values);
        ready->scale = made.scale;
        ready->sum = made.sum;
    } else {
        size_t rest = rheo_padded((size_t)count) - (size_t)count;
        if (ready->floats != x) memcpy(ready->floats, x, (size_t)count * sizeof(float));
        memset(ready->floats + count, 0, rest * sizeof(float));
    }
}

/* Some rows of one part of a matrix, and some columns of one step of it. */
typedef struct region {
    int32_t part, first, rows;
    int32_t step, columns;
    int32_t bound; /* the rows of the part before it are read in 8 bits, the rest in 4 */
} region;

/* sums[i] = Σ_j w[i, j] · x[j] for the rows of the blocks from `first` to `last` - 1 of a part. */
static void multiply_blocks(const rheo_model *model, const rheo_matrix *w, const region *at, int32_t first, int32_t last,
                            const vector *x, int32_t *sums) {
    size_t stride = rheo_block_bytes(w);
    size_t start = (size_t)(at->part * rheo_blocks(w->rows) + first) * stride +
                   (size_t)at->step * (size_t)rheo_column_lines(w->columns) * RHEO_LINE;
    int32_t lines = rheo_column_lines(at->columns), exact = at->bound / RHEO_ROWS;
    if (!w->lower) exact = 0;
    else if (at->bound >= w->rows) exact = last;
    int32_t middle = exact < first ? first : exact < last ? exact : last;
    rheo_vector8 with = {x->values, x->scale, x->sum};
    if (first < middle) {
        rheo_planes whole = {w->upper + start, w->lower + start, stride, middle - first, lines};
        model->kernels->multiply8(&whole, &with, sums);
    }
    if (middle < last) {
        size_t skipped = (size_t)(middle - first) * stride;
        rheo_planes upper = {w->upper + start + skipped, NULL, stride, last - middle, lines};
        model->kernels->multiply4(&upper, &with, sums + (middle - first) * RHEO_ROWS);
    }
}

/* out[word][i] (+)= Σ_j w[first + i, j] · x[word][j] for some words. `sums` has room for all blocks of rows that are
 * touched. */
static void multiply(const rheo_model *model, const rheo_matrix *w, const region *at, const vector *x, int32_t words,
                     int adds, int32_t *sums, float *const *out) {
    size_t row = (size_t)at->part * (size_t)w->rows + (size_t)at->first;
    if (model->config.is_int8) {
        int32_t block = at->first / RHEO_ROWS, end = rheo_blocks(at->first + at->rows);
        for (int32_t word = 0; word < words; word++, x++) {
            multiply_blocks(model, w, at, block, end, x, sums);
            model->kernels->rescale(sums + at->first % RHEO_ROWS, w->scales + row, x->scale, at->rows, adds, out[word]);
        }
    } else {
        size_t stride = (size_t)w->columns * (size_t)w->steps, start = row * stride + (size_t)(at->step * w->columns);
        rheo_rows32 part = {w->floats + start, stride, at->rows, at->columns};
        const float *with[BLOCK_WORDS];
        for (int32_t word = 0; word < words; word++) with[word] = x[word].floats;
        model->kernels->multiply32(&part, with, words, adds, out);
    }
}

/* How many rows to multiply by all words of a block before the next ones are read: as many 8-bit rows as stay in the
 * cache. Products of floats see to that themselves. */
static int32_t rows_at_once(const rheo_matrix *w, int32_t columns) {
    if (w->floats) return OUTPUT_ROWS;
    int32_t rows = CACHED / columns / RHEO_ROWS * RHEO_ROWS;
    return rows < RHEO_ROWS ? RHEO_ROWS : rows;
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

void rheo_use_workers(rheo_model *model, const rheo_workers *workers) {
    rheo_workers none = {1, NULL, NULL};
    model->workers = workers ? *workers : none;
}

/* How many shares to split this many blocks of rows, or words, into. */
static int32_t share_count(const rheo_model *model, int32_t items) {
    int64_t most = model->workers.run && model->workers.threads > 1 ? SHARES * (int64_t)model->workers.threads : 1;
    return items < most ? items : (int32_t)most;
}

/* The first item of a share; that of the next one is its end. */
static int32_t share_start(int32_t items, int32_t share, int32_t shares) {
    return (int32_t)((int64_t)items * share / shares);
}

static void share_out(const rheo_model *model, void (*work)(void *job, int32_t share), void *job, int32_t shares) {
    if (shares == 1) work(job, 0);
    else model->workers.run(model->workers.pool, work, job, shares);
}

/* --- layers ------------------------------------------------------------------------------------------------------- */

/* One layer for a block of words: inputs are parts->inputs[0 … window-2+count-1], the oldest first; gives h of each. */
typedef struct layer_job {
    const rheo_model *model;
    const rheo_layer *weights;
    int32_t inputs, width, bound;
    int32_t count; /* of words */
    room *parts;
    float *c;
    int32_t shares;
} layer_job;

/* The gates of the filters start … end-1 of all words, then their pooling. */
static void run_filters(void *of, int32_t share) {
    const layer_job *job = of;
    const rheo_matrix *w = &job->weights->weight;
    const rheo_kernels *kernels = job->model->kernels;
    room *parts = job->parts;
    int32_t width = job->width, blocks = rheo_blocks(width);
    int32_t start = share_start(blocks, share, job->shares) * RHEO_ROWS;
    int32_t end = share_start(blocks, share + 1, job->shares) * RHEO_ROWS;
    if (end > width) end = width;
    int32_t at_once = job->count > 1 ? rows_at_once(w, w->steps * job->inputs) : end - start;
    for (int32_t gate = 0; gate < GATES; gate++) {
        for (int32_t first = start; first < end; first += at_once) {
            int32_t rows = end - first < at_once ? end - first : at_once;
            float *out[BLOCK_WORDS];
            for (int32_t word = 0; word < job->count; word++) {
                out[word] = parts->gates[word] + (size_t)gate * (size_t)width + first;
            }
            for (int32_t step = 0; step < w->steps; step++) {
                region at = {gate, first, rows, step, job->inputs, job->bound};
                multiply(job->model, w, &at, parts->inputs + step, job->count, step > 0, parts->sums + first, out);
            }
            for (int32_t word = 0; word < job->count; word++) {
                kernels->add(job->weights->bias + gate * w->rows + first, rows, out[word]);
            }
        }
    }
    for (int32_t word = 0; word < job->count; word++) {
        const float *z = parts->gates[word] + start, *f = z + width, *o = f + width;
        kernels->pool(z, f, o, end - start, job->c + start, parts->hidden[word] + start);
    }
}

/* One weight of a row of planes. */
static int32_t weight_at(const rheo_matrix *w, int32_t row, int32_t column, int is_exact) {
    size_t at = (size_t)(row / RHEO_ROWS) * rheo_block_bytes(w) + (size_t)(column / RHEO_COLUMNS) * RHEO_LINE +
                (size_t)(row % RHEO_ROWS * RHEO_QUAD + column % RHEO_QUAD);
    int shift = column % RHEO_COLUMNS < RHEO_QUAD ? 0 : 4;
    int32_t upper = w->upper[at] >> shift & 15;
    return 16 * upper + (is_exact ? w->lower[at] >> shift & 15 : 8) - 128;
}

/* The input row of a word, in the bits of its output row. */
static void embed(const rheo_model *model, int32_t word, int32_t bound, float *x) {
    const rheo_matrix *w = &model->weights.embedding;
    if (w->floats) {
        memcpy(x, w->floats + (size_t)word * (size_t)w->columns, (size_t)w->columns * sizeof(float));
        return;
    }
    int is_exact = w->lower && word < bound;
    for (int32_t column = 0; column < w->columns; column++) {
        x[column] = (float)weight_at(w, word, column, is_exact) * w->scales[word];
    }
}

/* Read a block of words. Leaves h of the last layer of each in parts->hidden, and that of the last one in the state. */
static void read_block(const rheo_model *model, const rheo_position *position, float *state, const int32_t *words,
                       int32_t count, room *parts) {
    const rheo_config *config = &model->config;
    int32_t inputs = config->embedding_size, full_inputs = inputs;
    for (int32_t word = 0; word < count; word++) {
        embed(model, words[word], position->bounds[config->layers], parts->hidden[word]);
    }
    keep_words(model, state, words, count);
    for (int32_t layer = 0; layer < config->layers; layer++) {
        int32_t width = position->widths[layer], before = config->windows[layer] - 1;
        float *c = state, *past = state + config->hidden_sizes[layer];
        for (int32_t place = 0; place < before; place++) {
            prepare(model, past + (size_t)place * (size_t)full_inputs, inputs, &parts->inputs[place]);
        }
        for (int32_t word = 0; word < count; word++) {
            prepare(model, parts->hidden[word], inputs, &parts->inputs[before + word]);
        }
        for (int32_t place = 0; place < before; place++) { /* the last `before` inputs, for the next block */
            int32_t from = count - before + place;
            const float *x = from < 0 ? past + (size_t)(before + from) * (size_t)full_inputs : parts->hidden[from];
            memmove(past + (size_t)place * (size_t)full_inputs, x, (size_t)inputs * sizeof(float));
        }
        layer_job job = {model, &model->weights.layers[layer], inputs, width, position->bounds[layer], count, parts, c,
                         share_count(model, rheo_blocks(width))};
        share_out(model, run_filters, &job, job.shares);
        state += layer_floats(config, layer);
        inputs = width;
        full_inputs = config->hidden_sizes[layer];
    }
    memcpy(state, parts->hidden[count - 1], (size_t)inputs * sizeof(float));
}

rheo_status rheo_check_position(const rheo_model *model, const rheo_position *position, rheo_error *error) {
    if (rheo_fits(model, position->widths, position->bounds)) return RHEO_OK;
    return rheo_fail(error, RHEO_BAD_ARGUMENT, "the position has a width or a bit bound that the model does not have", NULL);
}

rheo_status rheo_check_words(const rheo_model *model, const int32_t *words, size_t count, rheo_error *error) {
    for (size_t place = 0; place < count; place++) {
        if (words[place] < 0 || words[place] >= model->config.vocabulary_size) {
            return rheo_fail(error, RHEO_BAD_ARGUMENT, "a word's id is not in the vocabulary", NULL);
        }
    }
    return RHEO_OK;
}

rheo_status rheo_steps(const rheo_model *model, const rheo_position *position, rheo_state *state, const int32_t *words,
                       size_t count, rheo_scratch *scratch, rheo_error *error) {
    rheo_status status = rheo_check_position(model, position, error);
    if (!status) status = rheo_check_words(model, words, count, error);
    if (status) return status;
    room parts = divide(model, READ_WORDS, scratch);
    for (size_t first = 0; first < count; first += READ_WORDS) {
        size_t left = count - first;
        int32_t some = left < READ_WORDS ? (int32_t)left : READ_WORDS;
        read_block(model, position, state->values, words + first, some, &parts);
    }
    return RHEO_OK;
}

rheo_status rheo_step(const rheo_model *model, const rheo_position *position, rheo_state *state, int32_t word,
                      rheo_scratch *scratch, rheo_error *error) {
    return rheo_steps(model, position, state, &word, 1, scratch, error);
}

/* --- the output layer --------------------------------------------------------------------------------------------- */

/* An answer: logits of all words and of the tail clusters, the largest logit of each piece of a cluster, and h as the
 * output layer reads it, to open clusters later. `opened` says which clusters have known logits. */
struct rheo_answer {
    int64_t layer_products;
    double normalizer[RHEO_MAX_CLUSTERS]; /* log Σ exp of the logits of each cluster; of 0, with the tails */
    int32_t width;                        /* of the last layer */
    int32_t bound;                        /* the words before it are read in 8 bits */
    int32_t sum;                          /* of h in 8 bits, and its scale */
    float scale;
    uint8_t opened[RHEO_MAX_CLUSTERS];
};

static size_t answer_logits(void) { return rheo_lines(sizeof(struct rheo_answer)); }

static size_t logits_count(const rheo_model *model) {
    return (size_t)model->config.vocabulary_size + (size_t)model->config.clusters - 1;
}

static float *logits_of(rheo_answer *answer) { return (float *)(void *)((char *)answer + answer_logits()); }

static size_t pieces_count(const rheo_model *model) {
    return (size_t)model->config.vocabulary_size / PIECE + (size_t)model->config.clusters;
}

/* The largest logits of the pieces of a cluster. Each cluster begins a piece of its own. */
static float *peaks_of(const rheo_model *model, rheo_answer *answer, int32_t cluster) {
    size_t first = (size_t)model->config.cluster_start[cluster] / PIECE + (size_t)cluster;
    float *all = (float *)(void *)((char *)answer + answer_logits() + rheo_lines(logits_count(model) * sizeof(float)));
    return all + first;
}

static vector hidden_of(const rheo_model *model, rheo_answer *answer) {
    char *at = (char *)answer + answer_logits() + rheo_lines(logits_count(model) * sizeof(float)) +
               rheo_lines(pieces_count(model) * sizeof(float));
    size_t width = rheo_padded((size_t)model->config.hidden_sizes[model->config.layers - 1]);
    vector hidden;
    hidden.scale = answer->scale;
    hidden.sum = answer->sum;
    hidden.floats = cut_off(&at, width * sizeof(float));
    hidden.values = cut_off(&at, width);
    return hidden;
}

size_t rheo_answer_bytes(const rheo_model *model) {
    size_t width = rheo_padded((size_t)model->config.hidden_sizes[model->config.layers - 1]);
    return answer_logits() + rheo_lines(logits_count(model) * sizeof(float)) +
           rheo_lines(pieces_count(model) * sizeof(float)) + rheo_lines(width * sizeof(float)) + rheo_lines(width);
}

/* log Σ exp, block by block: each block relative to its own largest logit, so that one pass is enough. */
typedef struct total {
    double sum;
    float shift;
    int is_started;
} total;

/* shift: the largest of these logits. */
static void add_block(const rheo_model *model, const float *logits, int32_t count, float shift, total *sum) {
    double block = (double)model->kernels->sum_exp(logits, count, shift);
    if (!sum->is_started) {
        sum->sum = block;
        sum->shift = shift;
        sum->is_started = 1;
    } else if (shift > sum->shift) {
        sum->sum = sum->sum * (double)rheo_exp(sum->shift - shift) + block;
        sum->shift = shift;
    } else {
        sum->sum = sum->sum + block * (double)rheo_exp(shift - sum->shift);
    }
}

static double normalizer(const total *sum) { return (double)sum->shift + rheo_log(sum->sum); }

/* The largest of these logits, and of each piece of them. */
static float find_peaks(const rheo_model *model, const float *logits, int32_t count, float *peaks) {
    float largest = logits[0];
    for (int32_t first = 0; first < count; first += PIECE) {
        float peak = model->kernels->largest(logits + first, count - first < PIECE ? count - first : PIECE);
        largest = peak > largest ? peak : largest;
        *peaks++ = peak;
    }
    return largest;
}

/* Products with the rows of some words become their logits: the bias is added, peaks and the sum are found. */
static void finish_scores(const rheo_model *model, int32_t row, int32_t rows, float *logits, float *peaks, total *sum) {
    model->kernels->add(model->weights.output_bias + row, rows, logits);
    add_block(model, logits, rows, find_peaks(model, logits, rows, peaks), sum);
}

/* What the output layer is multiplied by: h of the width, in the bits of the position. */
typedef struct reading {
    const vector *hidden;
    int32_t width, bound;
} reading;

/* Products of the output layer with the words first … last-1. */
typedef struct words_job {
    const rheo_model *model;
    const reading *of;
    int32_t first, last;
    float *out;
    int32_t shares;
} words_job;

static void multiply_words(const words_job *job, int32_t first, int32_t last) {
    int32_t sums[OUTPUT_ROWS + 2 * RHEO_ROWS];
    for (int32_t row = first; row < last; row += OUTPUT_ROWS) {
        region at = {0, row, last - row < OUTPUT_ROWS ? last - row : OUTPUT_ROWS, 0, job->of->width, job->of->bound};
        float *out = job->out + (row - job->first);
        multiply(job->model, &job->model->weights.output, &at, job->of->hidden, 1, 0, sums, &out);
    }
}

static void multiply_share(void *of, int32_t share) {
    const words_job *job = of;
    int32_t before = job->first / RHEO_ROWS, blocks = rheo_blocks(job->last) - before;
    int32_t first = (before + share_start(blocks, share, job->shares)) * RHEO_ROWS;
    int32_t last = (before + share_start(blocks, share + 1, job->shares)) * RHEO_ROWS;
    multiply_words(job, first < job->first ? job->first : first, last < job->last ? last : job->last);
}

/* Logits of the words first … last-1, with their peaks, added to `sum`. A single thread turns products into logits
 * while they are in its cache. */
static void score_words(const rheo_model *model, const reading *of, int32_t first, int32_t last, float *logits,
                        float *peaks, total *sum) {
    words_job job = {model, of, first, last, logits, 0};
    job.shares = share_count(model, rheo_blocks(last) - first / RHEO_ROWS);
    if (job.shares > 1) share_out(model, multiply_share, &job, job.shares);
    for (int32_t row = first; row < last; row += OUTPUT_ROWS) {
        int32_t rows = last - row < OUTPUT_ROWS ? last - row : OUTPUT_ROWS;
        if (job.shares == 1) multiply_words(&job, row, row + rows);
        finish_scores(model, row, rows, logits + (row - first), peaks + (row - first) / PIECE, sum);
    }
}

/* All words of a cluster have their logits, whose sum this is. That of the head has the tails' too. */
static void finish_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster, const vector *hidden,
                           total *sum) {
    int32_t tails = model->config.clusters - 1;
    if (cluster == 0 && tails) {
        int32_t sums[RHEO_MAX_CLUSTERS + 2 * RHEO_ROWS];
        float *out = logits_of(answer) + model->config.vocabulary_size;
        region at = {0, 0, tails, 0, answer->width, tails};
        multiply(model, &model->weights.clusters, &at, hidden, 1, 0, sums, &out);
        model->kernels->add(model->weights.cluster_bias, tails, out);
        add_block(model, out, tails, model->kernels->largest(out, tails), sum);
    }
    answer->normalizer[cluster] = normalizer(sum);
    answer->opened[cluster] = 1;
}

static void open_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster, const vector *hidden) {
    const int32_t *start = model->config.cluster_start;
    reading of = {hidden, answer->width, answer->bound};
    total sum = {0, 0, 0};
    score_words(model, &of, start[cluster], start[cluster + 1], logits_of(answer) + start[cluster],
                peaks_of(model, answer, cluster), &sum);
    finish_cluster(model, answer, cluster, hidden, &sum);
}

void rheo_answer_add(const rheo_model *model, rheo_answer *answer, int32_t word, double extra) {
    float *logit = logits_of(answer) + word, *peak = peaks_of(model, answer, 0) + word / PIECE;
    double own = (double)rheo_exp((float)((double)*logit - answer->normalizer[0]));
    *logit = (float)(answer->normalizer[0] + rheo_log(own + extra));
    if (*logit > *peak) *peak = *logit;
}

void rheo_answer_keep(rheo_answer *answer, double kept) { answer->normalizer[0] -= rheo_log(kept); }

/* An answer that no word has a logit in yet. Gives h as products read it. */
static vector start_answer(const rheo_model *model, const rheo_position *position, const float *h, rheo_answer *answer) {
    const rheo_config *config = &model->config;
    memset(answer, 0, sizeof *answer);
    int64_t inputs = config->embedding_size;
    for (int32_t layer = 0; layer < config->layers; layer++) {
        answer->layer_products += GATES * (int64_t)position->widths[layer] * inputs * config->windows[layer];
        inputs = position->widths[layer];
    }
    answer->width = position->widths[config->layers - 1];
    answer->bound = position->bounds[config->layers];
    vector hidden = hidden_of(model, answer);
    prepare(model, h, answer->width, &hidden);
    answer->scale = hidden.scale;
    answer->sum = hidden.sum;
    return hidden;
}

/* recent: the last words. */
static void mix_counts(const rheo_model *model, const rheo_position *position, const int32_t *recent,
                       rheo_answer *answer) {
    if (model->counts.orders && !position->without_counts) rheo_mix_counts(model, position->cost, recent, answer);
}

rheo_status rheo_predict(const rheo_model *model, const rheo_position *position, const rheo_state *state,
                         rheo_answer *answer, rheo_error *error) {
    rheo_status status = rheo_check_position(model, position, error);
    if (status) return status;
    int32_t recent[RHEO_MAX_ORDER - 1];
    recent_words(model, state->values, recent);
    vector hidden = start_answer(model, position, rheo_last_hidden(model, state), answer);
    open_cluster(model, answer, 0, &hidden);
    mix_counts(model, position, recent, answer);
    return status;
}

/* log p of a tail cluster as a whole. */
static float tail_log_probability(const rheo_model *model, rheo_answer *answer, int32_t cluster) {
    float logit = logits_of(answer)[model->config.vocabulary_size + cluster - 1];
    return (float)((double)logit - answer->normalizer[0]);
}

/* log p of a word of a cluster that is open. */
static float word_log_probability(const rheo_model *model, rheo_answer *answer, int32_t word, int32_t cluster) {
    double own = (double)logits_of(answer)[word] - answer->normalizer[cluster];
    if (cluster == 0) return (float)own;
    double whole = (double)logits_of(answer)[model->config.vocabulary_size + cluster - 1] - answer->normalizer[0];
    return (float)(whole + own);
}

int64_t rheo_executed(const rheo_model *model, const rheo_answer *answer) {
    int64_t rows = model->config.clusters - 1;
    for (int32_t cluster = 0; cluster < model->config.clusters; cluster++) {
        const int32_t *start = model->config.cluster_start + cluster;
        if (answer->opened[cluster]) rows += start[1] - start[0];
    }
    return answer->layer_products + rows * answer->width;
}

rheo_status rheo_log_probabilities(const rheo_model *model, rheo_answer *answer, float *log_probabilities,
                                   rheo_error *error) {
    vector hidden = hidden_of(model, answer);
    (void)error;
    for (int32_t cluster = 0; cluster < model->config.clusters; cluster++) {
        const int32_t *start = model->config.cluster_start + cluster;
        if (!answer->opened[cluster]) open_cluster(model, answer, cluster, &hidden);
        for (int32_t word = start[0]; word < start[1]; word++) {
            log_probabilities[word] = word_log_probability(model, answer, word, cluster);
        }
    }
    return RHEO_OK;
}

int rheo_open_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster) {
    if (answer->opened[cluster]) return 0;
    vector hidden = hidden_of(model, answer);
    open_cluster(model, answer, cluster, &hidden);
    return 1;
}

void rheo_bound_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster, float *log_probabilities) {
    const int32_t *start = model->config.cluster_start + cluster;
    for (int32_t word = start[0]; word < start[1]; word++) {
        log_probabilities[word] = answer->opened[cluster] ? word_log_probability(model, answer, word, cluster)
                                                          : tail_log_probability(model, answer, cluster);
    }
}

/* --- the best words ----------------------------------------------------------------------------------------------- */

/* The best words so far, best first. */
typedef struct top_k {
    int32_t *words;
    float *scores;
    int32_t count, room;
    float least; /* a score below this does not enter */
} top_k;

static void offer(top_k *best, int32_t word, float score) {
    int32_t place = best->count < best->room ? best->count : best->room;
    while (place > 0 && (best->scores[place - 1] < score ||
                         (best->scores[place - 1] == score && best->words[place - 1] > word))) {
        place--;
    }
    if (place >= best->room) return;
    int32_t moved = (best->count < best->room ? best->count : best->room - 1) - place;
    memmove(best->words + place + 1, best->words + place, (size_t)moved * sizeof(int32_t));
    memmove(best->scores + place + 1, best->scores + place, (size_t)moved * sizeof(float));
    best->words[place] = word;
    best->scores[place] = score;
    if (best->count < best->room) best->count++;
    if (best->count == best->room) best->least = best->scores[best->room - 1];
}

/* Words that may be chosen, apart from the mask: all (candidates NULL), or a list. */
typedef struct choice {
    const uint8_t *mask;
    const int32_t *candidates;
    size_t count;
} choice;

static int may_choose(const choice *from, int32_t word) { return !from->mask || from->mask[word]; }

/* Whether any word from `first` to `last` - 1 may be chosen. */
static int has_words(const choice *from, int32_t first, int32_t last) {
    if (from->candidates) {
        for (size_t place = 0; place < from->count; place++) {
            int32_t word = from->candidates[place];
            if (word >= first && word < last && may_choose(from, word)) return 1;
        }
        return 0;
    }
    if (!from->mask) return 1;
    uint8_t allowed = 0;
    for (int32_t word = first; word < last; word++) allowed |= from->mask[word];
    return allowed != 0;
}

static double size_of(double value) { return value < 0.0 ? -value : value; }

/* The least logit that can still enter, where log p = logit + shift up to rounding: a margin, larger for larger numbers,
 * keeps what rounding could let in. */
static float least_logit(const top_k *best, double shift) {
    if (best->count < best->room) return -3.4e38f;
    double least = (double)best->least - shift;
    return (float)(least - (1e-3 + 1e-6 * (size_of(least) + size_of((double)best->least))));
}

static void offer_all(const rheo_model *model, rheo_answer *answer, int32_t cluster, const choice *from, top_k *best) {
    int32_t first = model->config.cluster_start[cluster], last = model->config.cluster_start[cluster + 1];
    const float *logits = logits_of(answer), *peaks = peaks_of(model, answer, cluster);
    double shift = -answer->normalizer[cluster];
    if (cluster) shift += (double)logits[model->config.vocabulary_size + cluster - 1] - answer->normalizer[0];
    float least = least_logit(best, shift);
    for (int32_t start = first; start < last; start += PIECE) {
        int32_t end = last - start < PIECE ? last : start + PIECE;
        if (*peaks++ < least) continue;
        for (int32_t word = start; word < end; word++) {
            if (logits[word] < least || !may_choose(from, word)) continue;
            offer(best, word, word_log_probability(model, answer, word, cluster));
            least = least_logit(best, shift);
        }
    }
}

static void offer_cluster(const rheo_model *model, rheo_answer *answer, int32_t cluster, const choice *from,
                          top_k *best) {
    int32_t first = model->config.cluster_start[cluster], last = model->config.cluster_start[cluster + 1];
    if (!from->candidates) {
        offer_all(model, answer, cluster, from, best);
        return;
    }
    for (size_t place = 0; place < from->count; place++) {
        int32_t word = from->candidates[place];
        if (word >= first && word < last && may_choose(from, word)) {
            offer(best, word, word_log_probability(model, answer, word, cluster));
        }
    }
}

/* The tail cluster that was not offered yet and is the most probable; 0 if there is none. */
static int32_t next_tail(const rheo_model *model, rheo_answer *answer, const uint8_t *is_done) {
    int32_t likeliest = 0;
    float highest = 0.0f;
    for (int32_t cluster = 1; cluster < model->config.clusters; cluster++) {
        float score = tail_log_probability(model, answer, cluster);
        if (!is_done[cluster] && (!likeliest || score > highest)) {
            likeliest = cluster;
            highest = score;
        }
    }
    return likeliest;
}

/* A word of a tail is at most as probable as the tail itself. So the likeliest tail that cannot enter ends the search. */
static void offer_tails(const rheo_model *model, rheo_answer *answer, const choice *from, top_k *best) {
    uint8_t is_done[RHEO_MAX_CLUSTERS] = {0};
    vector hidden = hidden_of(model, answer);
    for (int32_t tail; (tail = next_tail(model, answer, is_done)) != 0;) {
        is_done[tail] = 1;
        if (best->count == best->room && tail_log_probability(model, answer, tail) < best->least) return;
        if (!has_words(from, model->config.cluster_start[tail], model->config.cluster_start[tail + 1])) continue;
        if (!answer->opened[tail]) open_cluster(model, answer, tail, &hidden);
        offer_cluster(model, answer, tail, from, best);
    }
}

rheo_status rheo_best(const rheo_model *model, rheo_answer *answer, const rheo_choice *asked, int32_t k,
                      int32_t *words, float *log_probabilities, int32_t *found, rheo_error *error) {
    choice from = {NULL, NULL, 0};
    if (k < 1 || k > RHEO_MAX_BEST) return rheo_fail(error, RHEO_BAD_ARGUMENT, "k must be 1 to 1024", NULL);
    if (asked) {
        if (asked->prefix && asked->candidates) {
            return rheo_fail(error, RHEO_BAD_ARGUMENT, "give a prefix or candidates, not both", NULL);
        }
        from.mask = asked->mask;
        from.candidates = asked->candidates;
        from.count = asked->candidate_count;
        if (asked->candidates) {
            rheo_status status = rheo_check_words(model, asked->candidates, asked->candidate_count, error);
            if (status) return status;
        }
        if (asked->prefix) {
            int32_t first, last;
            rheo_find_prefix(model, asked->prefix, asked->prefix_length, &first, &last);
            from.candidates = model->order + first;
            from.count = (size_t)(last - first);
        }
    }
    top_k best = {words, log_probabilities, 0, k, 0.0f};
    offer_cluster(model, answer, 0, &from, &best);
    if (model->config.clusters > 1) offer_tails(model, answer, &from, &best);
    *found = best.count;
    return RHEO_OK;
}

rheo_status rheo_query(const rheo_model *model, const rheo_position *position, const rheo_state *before, int32_t word,
                       rheo_state *after, rheo_answer *answer, const rheo_choice *choice, int32_t k, int32_t *words,
                       float *log_probabilities, int32_t *found, rheo_scratch *scratch, rheo_error *error) {
    if (after != before) memcpy(after, before, rheo_state_bytes(model));
    if (found) *found = 0;
    rheo_status status = rheo_step(model, position, after, word, scratch, error);
    if (!status) status = rheo_predict(model, position, after, answer, error);
    if (!status && k) status = rheo_best(model, answer, choice, k, words, log_probabilities, found, error);
    return status;
}

/* --- evaluation --------------------------------------------------------------------------------------------------- */

/* How many words of a cluster have a logit above this one. */
static int32_t count_above(const rheo_model *model, rheo_answer *answer, int32_t cluster, float logit) {
    int32_t first = model->config.cluster_start[cluster], last = model->config.cluster_start[cluster + 1], above = 0;
    const float *logits = logits_of(answer), *peaks = peaks_of(model, answer, cluster);
    for (int32_t start = first; start < last; start += PIECE) {
        int32_t end = last - start < PIECE ? last : start + PIECE;
        if (*peaks++ <= logit) continue;
        for (int32_t word = start; word < end; word++) above += logits[word] > logit;
    }
    return above;
}

/* How probable a word was, and how many were more probable. Its own cluster is opened, and those that could hold a word
 * that is more probable. */
static void find_rank(const rheo_model *model, rheo_answer *answer, int32_t word, float *log_probability,
                      int32_t *rank) {
    const int32_t *start = model->config.cluster_start;
    int32_t home = 0;
    while (word >= start[home + 1]) home++;
    rheo_open_cluster(model, answer, home);
    float own = word_log_probability(model, answer, word, home);
    int32_t above = count_above(model, answer, home, logits_of(answer)[word]);
    for (int32_t cluster = 0; cluster < model->config.clusters; cluster++) {
        if (cluster == home || (cluster && tail_log_probability(model, answer, cluster) <= own)) continue;
        rheo_open_cluster(model, answer, cluster);
        for (int32_t other = start[cluster]; other < start[cluster + 1]; other++) {
            above += word_log_probability(model, answer, other, cluster) > own;
        }
    }
    *log_probability = own;
    *rank = above;
}

/* A block of words, whose h is in parts->hidden, and how probable the word after each was. */
typedef struct block_job {
    const rheo_model *model;
    const rheo_position *position;
    const int32_t *words;  /* [count + 1] */
    const int32_t *recent; /* the last words before them */
    int32_t count;
    room *parts;
    char *answers;
    float *log_probabilities;
    int32_t *ranks;
    int32_t shares;
} block_job;

/* Each block of rows of the head is multiplied by all words start … end-1 before the next one is read. */
static void evaluate_words(void *of, int32_t share) {
    const block_job *job = of;
    const rheo_model *model = job->model;
    const rheo_matrix *w = &model->weights.output;
    int32_t start = share_start(job->count, share, job->shares), end = share_start(job->count, share + 1, job->shares);
    int32_t words = end - start, head = model->config.cluster_start[1];
    int32_t width = job->position->widths[model->config.layers - 1], bound = job->position->bounds[model->config.layers];
    int32_t at_once = rows_at_once(w, width), recent[RHEO_MAX_ORDER - 1];
    rheo_answer *answers[BLOCK_WORDS];
    vector hidden[BLOCK_WORDS];
    total totals[BLOCK_WORDS];
    float *out[BLOCK_WORDS];
    int32_t sums[OUTPUT_ROWS + 2 * RHEO_ROWS];
    memset(totals, 0, sizeof totals);
    for (int32_t word = 0; word < words; word++) {
        answers[word] = (rheo_answer *)(void *)(job->answers + (size_t)(start + word) * rheo_answer_bytes(model));
        hidden[word] = start_answer(model, job->position, job->parts->hidden[start + word], answers[word]);
    }
    for (int32_t row = 0; row < head; row += OUTPUT_ROWS) {
        int32_t rows = head - row < OUTPUT_ROWS ? head - row : OUTPUT_ROWS;
        for (int32_t first = 0; first < rows; first += at_once) {
            region at = {0, row + first, rows - first < at_once ? rows - first : at_once, 0, width, bound};
            for (int32_t word = 0; word < words; word++) out[word] = logits_of(answers[word]) + at.first;
            multiply(model, w, &at, hidden, words, 0, sums, out);
        }
        for (int32_t word = 0; word < words; word++) {
            finish_scores(model, row, rows, logits_of(answers[word]) + row, peaks_of(model, answers[word], 0) + row / PIECE,
                          &totals[word]);
        }
    }
    memcpy(recent, job->recent, sizeof recent);
    for (int32_t word = 0; word < start; word++) push_word(recent, job->words[word]);
    for (int32_t word = 0; word < words; word++) {
        int32_t place = start + word;
        push_word(recent, job->words[place]);
        finish_cluster(model, answers[word], 0, &hidden[word], &totals[word]);
        mix_counts(model, job->position, recent, answers[word]);
        find_rank(model, answers[word], job->words[place + 1], job->log_probabilities + place, job->ranks + place);
    }
}

rheo_status rheo_evaluate(const rheo_model *model, const rheo_position *position, rheo_state *state,
                          const int32_t *words, size_t count, float *log_probabilities, int32_t *ranks,
                          rheo_scratch *scratch, rheo_error *error) {
    rheo_status status = rheo_check_position(model, position, error);
    if (!status) status = rheo_check_words(model, words, count + 1, error);
    if (status) return status;
    room parts = divide(model, BLOCK_WORDS, scratch);
    for (size_t first = 0; first < count; first += BLOCK_WORDS) {
        size_t left = count - first;
        int32_t some = left < BLOCK_WORDS ? (int32_t)left : BLOCK_WORDS, recent[RHEO_MAX_ORDER - 1];
        recent_words(model, state->values, recent);
        read_block(model, position, state->values, words + first, some, &parts);
        block_job job = {model, position, words + first, recent, some, &parts,
                         (char *)scratch + room_bytes(model, BLOCK_WORDS), log_probabilities + first, ranks + first,
                         share_count(model, some)};
        share_out(model, evaluate_words, &job, job.shares);
    }
    return RHEO_OK;
}
