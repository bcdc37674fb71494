/* The arithmetic of the core, once per instruction set. Private: applications include rheostat.h only. */
#ifndef RHEOSTAT_KERNELS_H
#define RHEOSTAT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Vectors are padded with zeros to whole blocks, so that a product may read a block beyond its last column. */
#define RHEO_BLOCK 32

/* Rounds up to whole blocks. */
static inline size_t rheo_padded(size_t count) { return (count + RHEO_BLOCK - 1) / RHEO_BLOCK * RHEO_BLOCK; }

/* A vector in 8 bits: x = values · scale, |values| ≤ 127. Both arrays are padded. */
typedef struct rheo_vector8 {
    const int8_t *values;
    const uint8_t *magnitudes; /* |values|: what the x86 product multiplies with */
    float scale;
} rheo_vector8;

/* A part of a matrix: the first `columns` of `rows` rows that begin `stride` items apart. No item at or beyond `end` is
 * read. */
typedef struct rheo_rows8 {
    const int8_t *first;
    const int8_t *end;
    size_t stride;
    int32_t rows;
    int32_t columns;
} rheo_rows8;

typedef struct rheo_rows32 {
    const float *first;
    const float *end;
    size_t stride;
    int32_t rows;
    int32_t columns;
} rheo_rows32;

typedef struct rheo_kernels {
    const char *name;
    int (*is_available)(void);
    /* out[r] = Σ_i w[r, i] · x[i], exact: 127² · 2¹⁷ columns fit 32 bits. */
    void (*multiply8)(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out);
    /* The same in float32: eight partial sums, i modulo 8, added as ((0+4)+(2+6))+((1+5)+(3+7)). x is padded. */
    void (*multiply32)(const rheo_rows32 *w, const float *x, float *out);
    /* x = values · scale with scale = max |x| / 127, rounded to nearest, ties to even. Gives the scale. */
    float (*quantize)(const float *x, int32_t count, int8_t *values, uint8_t *magnitudes);
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

#endif
