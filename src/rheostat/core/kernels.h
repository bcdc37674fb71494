/* The arithmetic of the core, once per instruction set. Private: applications include rheostat.h only. */
#ifndef RHEOSTAT_KERNELS_H
#define RHEOSTAT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Vectors are padded with zeros to whole blocks, so that a product may read a block beyond its last column. */
#define RHEO_BLOCK 32

/* Rounds up to whole blocks. */
static inline size_t rheo_padded(size_t count) { return (count + RHEO_BLOCK - 1) / RHEO_BLOCK * RHEO_BLOCK; }

/* A vector in 8 bits: x = values · scale, |values| ≤ 127. The array is padded; the sum is that of the values. */
typedef struct rheo_vector8 {
    const int8_t *values;
    float scale;
    int32_t sum;
} rheo_vector8;

enum {
    RHEO_ROWS = 16,   /* in a block of rows */
    RHEO_QUAD = 4,    /* columns of a row that lie side by side */
    RHEO_COLUMNS = 8, /* in a line: four in the low halves of its bytes, the next four in the high ones */
    RHEO_LINE = 64    /* bytes of a cache line, which holds 16 rows × 8 columns of a plane */
};

/* A part of a matrix of 8-bit weights, stored as two planes: w = 16 · upper + lower - 128, both 0 to 15. A plane is a
 * sequence of blocks of 16 rows that begin `stride` bytes apart; a block is a sequence of lines. Byte 4 r + c of a line
 * holds row r: column c in its low half, column c + 4 in its high half. */
typedef struct rheo_planes {
    const uint8_t *upper;
    const uint8_t *lower; /* not read by multiply4 */
    size_t stride;
    int32_t blocks;
    int32_t lines; /* to be read of each block */
} rheo_planes;

typedef struct rheo_rows32 {
    const float *first;
    size_t stride;
    int32_t rows;
    int32_t columns;
} rheo_rows32;

typedef struct rheo_kernels {
    const char *name;
    int (*is_available)(void);
    /* out[r] = Σ_i w[r, i] · x[i] for the 16 rows of each block, exact: 128 · 127 · 2¹⁷ columns fit 32 bits. */
    void (*multiply8)(const rheo_planes *w, const rheo_vector8 *x, int32_t *out);
    /* The same from the upper plane alone, with w = 16 · upper + 8 - 128: the middle of what the lower one can add. */
    void (*multiply4)(const rheo_planes *w, const rheo_vector8 *x, int32_t *out);
    /* The same in float32, for some words, (+ out[word][r] where `adds`): eight partial sums, i modulo 8, added as
     * ((0+4)+(2+6))+((1+5)+(3+7)). x is padded. */
    void (*multiply32)(const rheo_rows32 *w, const float *const *x, int32_t words, int adds, float *const *out);
    /* x = values · scale with scale = max |x| / 127, rounded to nearest, ties to even. */
    rheo_vector8 (*quantize)(const float *x, int32_t count, int8_t *values);
    /* out[i] = sums[i] · (x_scale · row_scale[i]) (+ out[i] where `adds`) */
    void (*rescale)(const int32_t *sums, const float *row_scale, float x_scale, int32_t count, int adds, float *out);
    /* out[i] = out[i] + bias[i] */
    void (*add)(const float *bias, int32_t count, float *out);
    /* One step of pooling: c = σ(f) c + (1 - σ(f)) tanh(z), h = σ(o) c. */
    void (*pool)(const float *z, const float *f, const float *o, int32_t count, float *c, float *h);
    float (*largest)(const float *values, int32_t count);
    /* Σ_i exp(values[i] - shift), in the order of multiply32. */
    float (*sum_exp)(const float *values, int32_t count, float shift);
} rheo_kernels;

/* The kernels of this build, fastest first; the last one is plain C and always available. */
const rheo_kernels *rheo_kernels_at(int32_t number);

/* exp(x) for x ≤ 88; below -87 it is 0. */
float rheo_exp(float x);

/* log(x) for a finite x > 0. */
double rheo_log(double x);

/* Whether this file was compiled without options that change the bits of floats. */
int rheo_floats_are_exact(void);

#endif
