/* What is mixed into the network's answer: counts, a small n-gram model in the file; and the cache of the last words.
 *
 * Counts. Each order n has rows of n words, ascending. Each row has a share d: the discounted frequency of its last
 * word after the others. From the shortest context to the longest that the file has,
 *
 *     q_1 = p of the network      q_n(w) = a_n d(w | context) + (1 - a_n Σ d) q_{n-1}(w)
 *
 * a_n is the weight of order n at this position of the knob. Only words that have a row are touched; all others keep
 * their order, and their sum is divided out. So a query looks up a few rows and never the whole vocabulary. */

#include "core.h"

#include <string.h>

enum { LEVELS_PER_NAT = 16 }; /* d = exp(-level / 16) */

#define LARGEST_SUM 0.999 /* of a_n Σ d: the network keeps a share of every answer */

static int compare_rows(const uint16_t *row, const uint16_t *context, int32_t words) {
    for (int32_t place = 0; place < words; place++) {
        if (row[place] != context[place]) return row[place] < context[place] ? -1 : 1;
    }
    return 0;
}

/* The first row of an order whose context is not before this one. */
static size_t find_row(const rheo_ngrams *of, int32_t order, const uint16_t *context) {
    size_t low = 0, high = of->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_rows(of->rows + middle * (size_t)order, context, order - 1) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static double share_of(uint8_t level) { return (double)rheo_exp(-(float)level / (float)LEVELS_PER_NAT); }

/* The weight of an order at this cost: between the two nearest entries of the table, which is sorted from the largest
 * cost down. */
static double weight_at(const rheo_counts *counts, int32_t order, float cost) {
    int32_t last = counts->table - 1, columns = counts->orders - 1, place = 0;
    const float *weights = counts->weights + (order - 2);
    if (!(cost < counts->costs[0])) return (double)weights[0];
    while (place < last && cost < counts->costs[place + 1]) place++;
    if (place == last) return (double)weights[last * columns];
    double high = (double)counts->costs[place], low = (double)counts->costs[place + 1];
    double above = (double)weights[place * columns], below = (double)weights[(place + 1) * columns];
    return below + ((double)cost - low) / (high - low) * (above - below);
}

typedef struct span {
    size_t first, last;
    double scale; /* of d in the answer */
} span;

void rheo_mix_counts(const rheo_model *model, float cost, const int32_t *recent, rheo_answer *answer) {
    const rheo_counts *counts = &model->counts;
    span spans[RHEO_MAX_ORDER + 1];
    uint16_t context[RHEO_MAX_ORDER];
    double left = 1.0;
    for (int32_t order = counts->orders; order >= 2; order--) {
        const rheo_ngrams *of = &counts->ngrams[order];
        span *found = &spans[order];
        int known = 1;
        memset(found, 0, sizeof *found);
        for (int32_t place = 0; place < order - 1; place++) {
            int32_t word = recent[RHEO_MAX_ORDER - 1 - (order - 1) + place];
            known &= word >= 0;
            context[place] = (uint16_t)word;
        }
        if (!known) continue;
        found->first = find_row(of, order, context);
        found->last = found->first;
        double sum = 0.0, weight = weight_at(counts, order, cost);
        for (; found->last < of->count &&
               !compare_rows(of->rows + found->last * (size_t)order, context, order - 1);
             found->last++) {
            sum += share_of(of->levels[found->last]);
        }
        if (weight * sum > LARGEST_SUM) weight = LARGEST_SUM / sum;
        found->scale = left * weight;
        left *= 1.0 - weight * sum;
    }
    for (int32_t order = counts->orders; order >= 2; order--) {
        const rheo_ngrams *of = &counts->ngrams[order];
        for (size_t row = spans[order].first; row < spans[order].last && spans[order].scale > 0.0; row++) {
            int32_t word = of->rows[row * (size_t)order + (size_t)order - 1];
            rheo_answer_add(model, answer, word, spans[order].scale / left * share_of(of->levels[row]));
        }
    }
    rheo_answer_keep(answer, left);
}

/* --- the cache ----------------------------------------------------------------------------------------------------
 *
 * The last words written, as pairs (h, next word): words that followed a similar h become more probable,
 *
 *     p_cache(w) ∝ Σ_{i: w_i = w} exp(θ h · h_i)      p = (1 - λ) p + λ p_cache
 *
 * h is kept in 8 bits with a scale, so products are exact in integers and the bits are the same everywhere. */

struct rheo_cache {
    int32_t room, count, next; /* pairs that fit, pairs there are, where the next one goes */
    int32_t width;             /* of h */
};

typedef struct pairs {
    int32_t *words;
    float *scales;
    int8_t *hidden; /* [room, width of the last layer] */
} pairs;

static int32_t full_width(const rheo_model *model) { return model->config.hidden_sizes[model->config.layers - 1]; }

static pairs pairs_of(rheo_cache *cache, int32_t room) {
    char *at = (char *)cache + rheo_lines(sizeof(struct rheo_cache));
    pairs found;
    found.words = (int32_t *)(void *)at;
    at += rheo_lines((size_t)room * sizeof(int32_t));
    found.scales = (float *)(void *)at;
    at += rheo_lines((size_t)room * sizeof(float));
    found.hidden = (int8_t *)(void *)at;
    return found;
}

size_t rheo_cache_bytes(const rheo_model *model, int32_t words) {
    size_t room = words > 0 ? (size_t)words : 0;
    return rheo_lines(sizeof(struct rheo_cache)) + rheo_lines(room * sizeof(int32_t)) + rheo_lines(room * sizeof(float)) +
           (room + 1) * (size_t)full_width(model); /* one more: room for the h that is compared */
}

rheo_status rheo_cache_start(const rheo_model *model, rheo_cache *cache, int32_t words, rheo_error *error) {
    if (words < 1 || words > RHEO_MAX_CACHE) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "a cache has 1 to 1024 words", NULL);
    }
    if (model->config.clusters > 1) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "the cache needs a model with a plain softmax", NULL);
    }
    memset(cache, 0, rheo_cache_bytes(model, words));
    cache->room = words;
    return RHEO_OK;
}

/* h in 8 bits; gives the scale, 0 where h is 0. */
static float quantize_hidden(const float *h, int32_t width, int8_t *values) {
    float largest = 0.0f;
    for (int32_t place = 0; place < width; place++) {
        float size = h[place] < 0.0f ? -h[place] : h[place];
        if (size > largest) largest = size;
    }
    for (int32_t place = 0; place < width; place++) {
        float scaled = largest > 0.0f ? h[place] / largest * 127.0f : 0.0f;
        values[place] = (int8_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
    }
    return largest / 127.0f;
}

rheo_status rheo_cache_add(const rheo_model *model, const rheo_position *position, rheo_cache *cache,
                           const rheo_state *state, int32_t word, rheo_error *error) {
    rheo_status status = rheo_check_position(model, position, error);
    if (!status) status = rheo_check_words(model, &word, 1, error);
    if (status) return status;
    int32_t width = position->widths[model->config.layers - 1];
    pairs of = pairs_of(cache, cache->room);
    if (cache->width != width) cache->count = cache->next = 0; /* h of another position cannot be compared */
    int32_t place = cache->next;
    float scale = quantize_hidden(rheo_last_hidden(model, state), width,
                                  of.hidden + (size_t)place * (size_t)full_width(model));
    if (!(scale > 0.0f)) return RHEO_OK; /* nothing was read yet */
    of.words[place] = word;
    of.scales[place] = scale;
    cache->width = width;
    cache->next = place + 1 < cache->room ? place + 1 : 0;
    if (cache->count < cache->room) cache->count++;
    return RHEO_OK;
}

rheo_status rheo_cache_mix(const rheo_model *model, const rheo_position *position, rheo_cache *cache,
                           const rheo_state *state, float weight, float sharpness, rheo_answer *answer,
                           rheo_error *error) {
    rheo_status status = rheo_check_position(model, position, error);
    if (status) return status;
    int32_t width = position->widths[model->config.layers - 1];
    pairs of = pairs_of(cache, cache->room);
    float scores[RHEO_MAX_CACHE], largest = 0.0f;
    double total = 0.0;
    if (!(weight >= 0.0f && weight < 1.0f) || !(sharpness >= 0.0f && sharpness <= 1000.0f)) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "the weight is below 1, the sharpness at most 1000", NULL);
    }
    if (cache->count && cache->width != width) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "the cache was written at another position: read the text again", NULL);
    }
    if (!cache->count || !(weight > 0.0f)) return RHEO_OK;
    int8_t *own = of.hidden + (size_t)cache->room * (size_t)full_width(model);
    float scale = quantize_hidden(rheo_last_hidden(model, state), width, own) * sharpness;
    for (int32_t pair = 0; pair < cache->count; pair++) {
        const int8_t *other = of.hidden + (size_t)pair * (size_t)full_width(model);
        int32_t product = 0;
        for (int32_t place = 0; place < width; place++) product += own[place] * other[place];
        scores[pair] = (float)product * (scale * of.scales[pair]);
        if (!pair || scores[pair] > largest) largest = scores[pair];
    }
    for (int32_t pair = 0; pair < cache->count; pair++) {
        scores[pair] = rheo_exp(scores[pair] - largest);
        total += (double)scores[pair];
    }
    double share = (double)weight * (double)cache->count / (double)cache->room; /* a few words say little */
    double kept = 1.0 - share;
    for (int32_t pair = 0; pair < cache->count; pair++) {
        rheo_answer_add(model, answer, of.words[pair], share / kept * ((double)scores[pair] / total));
    }
    rheo_answer_keep(answer, kept);
    return RHEO_OK;
}
