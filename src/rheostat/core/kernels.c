/* The arithmetic of the core. Each kernel stands first in plain C, which is its specification; the versions for one
 * instruction set give the same bits. What works element by element is written once, in plain C, and the compiler makes
 * vectors of it; only sums over a row, whose order matters, are written by hand. */

#include "kernels.h"

#include <string.h>

#if defined(__FAST_MATH__)
#error "compile without -ffast-math: every processor must give the same bits"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define RHEO_X86 1
#elif defined(__aarch64__)
#include <arm_neon.h>
#define RHEO_NEON 1
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define RHEO_WASM 1
#endif

#if defined(__GNUC__)
#define RHEO_INLINE static inline __attribute__((always_inline))
#else
#define RHEO_INLINE static inline
#endif

enum { LANES = 8 }; /* partial sums of a float product */

/* Eight floats, or eight whole numbers, in the vector notation of GCC and Clang: the compiler maps it to one register of
 * AVX2, to two of SSE, NEON or WebAssembly. Each lane is an IEEE float, so the bits are the same everywhere. */
typedef float floats8 __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints8 __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef int8_t bytes8 __attribute__((vector_size(LANES)));
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* about calls between files; all of these are inlined */
#endif

RHEO_INLINE floats8 splat(float value) {
    return (floats8){value, value, value, value, value, value, value, value};
}

RHEO_INLINE floats8 load(const float *from) {
    floats8 found;
    memcpy(&found, from, sizeof found);
    return found;
}

RHEO_INLINE void store(float *to, floats8 values) { memcpy(to, &values, sizeof values); }

/* The first `count` < 8 of eight floats; the rest is `filler`. */
RHEO_INLINE floats8 load_some(const float *from, int32_t count, float filler) {
    floats8 found = splat(filler);
    for (int32_t lane = 0; lane < count; lane++) found[lane] = from[lane];
    return found;
}

RHEO_INLINE void store_some(float *to, int32_t count, floats8 values) {
    for (int32_t lane = 0; lane < count; lane++) to[lane] = values[lane];
}

/* Lane by lane: where the mask is set `chosen`, else `other`. */
RHEO_INLINE floats8 blend(ints8 mask, floats8 chosen, floats8 other) {
    return (floats8)((mask & (ints8)chosen) | (~mask & (ints8)other));
}

RHEO_INLINE floats8 greater(floats8 one, floats8 other) { return blend(one > other, one, other); }

/* ((0+4)+(2+6)) + ((1+5)+(3+7)): what halving a vector of eight, then of four, then of two gives. */
RHEO_INLINE float add_lanes(floats8 lanes) {
    float even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
    float odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
    return even + odd;
}

/* --- elementary functions ----------------------------------------------------------------------------------------- */

/* Adding 1.5 · 2²³ to a float of at most 2²² rounds it to a whole number, ties to even, and leaves that number in the
 * low bits; subtracting it again gives the number as a float. */
static const float ROUNDER = 12582912.0f;
static const float LOWEST = -87.0f; /* exp of it is nearly the smallest float */

/* exp(x) = 2ⁿ · exp(r), n = round(x / ln 2), |r| ≤ ln 2 / 2, with ln 2 in two parts so that n · ln 2 loses nothing.
 * exp(r) = 1 + r + r² · p(r), p of degree 4 by Chebyshev interpolation. Below LOWEST it is 0. */
RHEO_INLINE floats8 exp8(floats8 x) {
    ints8 is_low = x < splat(LOWEST);
    floats8 clipped = blend(is_low, splat(LOWEST), x);
    floats8 shifted = clipped * splat(1.4426950216293335f) + splat(ROUNDER);
    floats8 n = shifted - splat(ROUNDER);
    floats8 r = (clipped - n * splat(0.693115234375f)) - n * splat(3.194618329871446e-05f);
    floats8 p = splat(0.0013926184037700295f);
    p = p * r + splat(0.008363178931176662f);
    p = p * r + splat(0.041666556149721146f);
    p = p * r + splat(0.16666576266288757f);
    p = p * r + splat(0.5f);
    floats8 e = (p * (r * r) + r) + splat(1.0f);
    ints8 scaled = (ints8)e + ((ints8)shifted << 23); /* n, added to the exponent */
    return (floats8)(~is_low & scaled);
}

float rheo_exp(float x) { return exp8(splat(x))[0]; }

RHEO_INLINE floats8 sigmoid8(floats8 x) {
    floats8 clipped = blend(x > splat(-LOWEST), splat(-LOWEST), greater(x, splat(LOWEST)));
    return splat(1.0f) / (splat(1.0f) + exp8(-clipped));
}

/* tanh(x) = 2 σ(2x) - 1 */
RHEO_INLINE floats8 tanh8(floats8 x) { return splat(2.0f) * sigmoid8(splat(2.0f) * x) - splat(1.0f); }

/* log(x) = e · ln 2 + 2 (t + t³/3 + t⁵/5 + …), x = 2ᵉ · m, m in [√½, √2), t = (m - 1) / (m + 1), |t| ≤ 0.172. */
double rheo_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m = m * 0.5;
        exponent += 1;
    }
    double t = (m - 1.0) / (m + 1.0), square = t * t, series = 0.0;
    for (int power = 17; power >= 1; power -= 2) {
        series = series * square + 1.0 / power;
    }
    return exponent * 0.6931471805599453 + 2.0 * t * series;
}

/* --- element by element ------------------------------------------------------------------------------------------- */

RHEO_INLINE float quantize_body(const float *x, int32_t count, int8_t *values, uint8_t *magnitudes) {
    floats8 extremes = splat(0.0f);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) extremes = greater(greater(load(x + i), -load(x + i)), extremes);
    floats8 rest = load_some(x + i, count - i, 0.0f);
    extremes = greater(greater(rest, -rest), extremes);
    float largest = extremes[0];
    for (int lane = 1; lane < LANES; lane++) largest = extremes[lane] > largest ? extremes[lane] : largest;

    floats8 inverse = splat(largest > 1e-30f ? 127.0f / largest : 0.0f);
    size_t padded = rheo_padded((size_t)count);
    memset(values + i, 0, padded - (size_t)i);
    memset(magnitudes + i, 0, padded - (size_t)i);
    for (i = 0; i < count; i += LANES) {
        floats8 some = count - i < LANES ? rest : load(x + i);
        ints8 whole = (ints8)(some * inverse + splat(ROUNDER)) - (ints8)splat(ROUNDER);
        ints8 sign = whole >> 31;
        bytes8 narrow = __builtin_convertvector(whole, bytes8);
        bytes8 magnitude = __builtin_convertvector((whole ^ sign) - sign, bytes8);
        memcpy(values + i, &narrow, sizeof narrow);
        memcpy(magnitudes + i, &magnitude, sizeof magnitude);
    }
    return largest / 127.0f;
}

RHEO_INLINE void rescale_body(const int32_t *sums, const float *row_scale, float x_scale, int32_t count, int adds,
                              float *out) {
    if (adds) {
        for (int32_t i = 0; i < count; i++) out[i] = out[i] + (float)sums[i] * (x_scale * row_scale[i]);
    } else {
        for (int32_t i = 0; i < count; i++) out[i] = (float)sums[i] * (x_scale * row_scale[i]);
    }
}

RHEO_INLINE void add_body(const float *bias, int32_t count, float *out) {
    for (int32_t i = 0; i < count; i++) out[i] = out[i] + bias[i];
}

/* c = f c + (1 - f) z, h = o c */
RHEO_INLINE void pool8(floats8 z, floats8 f, floats8 o, floats8 *c, floats8 *h) {
    floats8 forget = sigmoid8(f);
    *c = forget * *c + (splat(1.0f) - forget) * tanh8(z);
    *h = sigmoid8(o) * *c;
}

RHEO_INLINE void pool_body(const float *z, const float *f, const float *o, int32_t count, float *c, float *h) {
    int32_t i = 0, rest = count % LANES;
    floats8 cell, hidden;
    for (; i + LANES <= count; i += LANES) {
        cell = load(c + i);
        pool8(load(z + i), load(f + i), load(o + i), &cell, &hidden);
        store(c + i, cell);
        store(h + i, hidden);
    }
    if (!rest) return;
    cell = load_some(c + i, rest, 0.0f);
    pool8(load_some(z + i, rest, 0.0f), load_some(f + i, rest, 0.0f), load_some(o + i, rest, 0.0f), &cell, &hidden);
    store_some(c + i, rest, cell);
    store_some(h + i, rest, hidden);
}

RHEO_INLINE float largest_body(const float *values, int32_t count) {
    floats8 lanes = splat(values[0]);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) lanes = greater(load(values + i), lanes);
    lanes = greater(load_some(values + i, count - i, values[0]), lanes);
    float largest = lanes[0];
    for (int lane = 1; lane < LANES; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
    return largest;
}

RHEO_INLINE float sum_exp_body(const float *values, int32_t count, float shift) {
    floats8 lanes = splat(0.0f);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) lanes = lanes + exp8(load(values + i) - splat(shift));
    if (i < count) lanes = lanes + exp8(load_some(values + i, count - i, 2.0f * LOWEST + shift) - splat(shift));
    return add_lanes(lanes);
}

/* --- sums over a row: plain C ------------------------------------------------------------------------------------- */

RHEO_INLINE int32_t dot8_plain(const int8_t *w, const int8_t *x, int32_t columns) {
    int32_t sum = 0;
    for (int32_t i = 0; i < columns; i++) sum += (int32_t)w[i] * (int32_t)x[i];
    return sum;
}

RHEO_INLINE float dot32_plain(const float *w, const float *x, int32_t columns) {
    floats8 lanes = splat(0.0f);
    int32_t i = 0;
    for (; i + LANES <= columns; i += LANES) lanes = lanes + load(w + i) * load(x + i);
    if (i < columns) lanes = lanes + load_some(w + i, columns - i, 0.0f) * load_some(x + i, columns - i, 0.0f);
    return add_lanes(lanes);
}

static void multiply8_plain(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t r = 0; r < w->rows; r++) {
        out[r] = dot8_plain(w->first + (size_t)r * w->stride, x->values, w->columns);
    }
}

/* Four rows at once: x is loaded once for them. */
RHEO_INLINE void multiply32_body(const rheo_rows32 *w, const float *x, float *out) {
    size_t stride = w->stride;
    int32_t whole = w->columns / LANES * LANES, r = 0;
    for (; r + 4 <= w->rows && whole == w->columns; r += 4) {
        const float *row = w->first + (size_t)r * stride;
        floats8 a = splat(0.0f), b = a, c = a, d = a;
        for (int32_t i = 0; i < whole; i += LANES) {
            floats8 some = load(x + i);
            a = a + load(row + i) * some;
            b = b + load(row + stride + i) * some;
            c = c + load(row + 2 * stride + i) * some;
            d = d + load(row + 3 * stride + i) * some;
        }
        out[r] = add_lanes(a);
        out[r + 1] = add_lanes(b);
        out[r + 2] = add_lanes(c);
        out[r + 3] = add_lanes(d);
    }
    for (; r < w->rows; r++) out[r] = dot32_plain(w->first + (size_t)r * stride, x, w->columns);
}

static void multiply32_plain(const rheo_rows32 *w, const float *x, float *out) { multiply32_body(w, x, out); }
static float quantize_plain(const float *x, int32_t count, int8_t *values, uint8_t *magnitudes) {
    return quantize_body(x, count, values, magnitudes);
}
static void rescale_plain(const int32_t *sums, const float *row_scale, float x_scale, int32_t count, int adds,
                          float *out) {
    rescale_body(sums, row_scale, x_scale, count, adds, out);
}
static void add_plain(const float *bias, int32_t count, float *out) { add_body(bias, count, out); }
static void pool_plain(const float *z, const float *f, const float *o, int32_t count, float *c, float *h) {
    pool_body(z, f, o, count, c, h);
}
static float largest_plain(const float *values, int32_t count) { return largest_body(values, count); }
static float sum_exp_plain(const float *values, int32_t count, float shift) {
    return sum_exp_body(values, count, shift);
}

static int is_always(void) { return 1; }

static const rheo_kernels PLAIN = {"plain",     is_always,     multiply8_plain, multiply32_plain, quantize_plain,
                                   rescale_plain, add_plain, pool_plain,      largest_plain,    sum_exp_plain};

#if defined(RHEO_X86) || defined(RHEO_NEON) || defined(RHEO_WASM)
/* How many of the rows may be read in whole blocks of `block` columns without passing the end of the matrix. */
RHEO_INLINE int32_t rows_in_blocks(size_t items, size_t stride, int32_t rows, int32_t columns, int32_t block) {
    size_t wide = ((size_t)columns + (size_t)block - 1) / (size_t)block * (size_t)block;
    if (items < wide || rows < 1) return 0;
    size_t fit = (items - wide) / stride + 1;
    return fit < (size_t)rows ? (int32_t)fit : rows;
}
#endif

/* --- x86-64 with AVX2 --------------------------------------------------------------------------------------------- */

#if defined(RHEO_X86)
#define RHEO_AVX2 __attribute__((target("avx2")))

/* w · x = |x| · (w with the sign of x): the product of unsigned and signed bytes adds pairs in 16 bits, and
 * 2 · 127² fits there. */
RHEO_AVX2 RHEO_INLINE __m256i accumulate8(__m256i sum, const int8_t *w, __m256i x, __m256i magnitude) {
    __m256i signed_w = _mm256_sign_epi8(_mm256_loadu_si256((const __m256i *)w), x);
    __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_w);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

RHEO_AVX2 RHEO_INLINE int32_t add_lanes8(__m256i sum) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

RHEO_AVX2 RHEO_INLINE void store_sums(int32_t *out, __m256i a, __m256i b, __m256i c, __m256i d) {
    __m256i quads = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(quads), _mm256_extracti128_si256(quads, 1));
    _mm_storeu_si128((__m128i *)out, sums);
}

/* What the next four rows will need, four cache lines ahead of every 64 columns of these. Whole rows lie one after
 * another and are fetched in that order, which memory answers fastest; of narrow ones only the columns in use are.
 * Fetching is a hint and never a fault, also beyond the end. */
RHEO_INLINE void prefetch_next(const int8_t *row, size_t stride, int32_t columns, int32_t column) {
    int is_whole = (size_t)columns + RHEO_BLOCK > stride;
    size_t start = 4 * stride + (size_t)column * (is_whole ? 4 : 1), step = is_whole ? 64 : stride;
    for (size_t line = 0; line < 4; line++) {
        _mm_prefetch((const char *)((uintptr_t)row + start + line * step), _MM_HINT_T0);
    }
}

/* Four rows at once: x is loaded once for them, and their sums are added up together. */
RHEO_AVX2 static void multiply8_avx2(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out) {
    size_t stride = w->stride;
    int32_t safe = rows_in_blocks((size_t)(w->end - w->first), stride, w->rows, w->columns, RHEO_BLOCK);
    int32_t r = 0;
    for (; r + 4 <= safe; r += 4) {
        const int8_t *row = w->first + (size_t)r * stride;
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            __m256i values = _mm256_loadu_si256((const __m256i *)(x->values + i));
            __m256i magnitudes = _mm256_loadu_si256((const __m256i *)(x->magnitudes + i));
            if (!(i & 63)) prefetch_next(row, stride, w->columns, i);
            a = accumulate8(a, row + i, values, magnitudes);
            b = accumulate8(b, row + stride + i, values, magnitudes);
            c = accumulate8(c, row + 2 * stride + i, values, magnitudes);
            d = accumulate8(d, row + 3 * stride + i, values, magnitudes);
        }
        store_sums(out + r, a, b, c, d);
    }
    for (; r < safe; r++) {
        const int8_t *row = w->first + (size_t)r * stride;
        __m256i sum = _mm256_setzero_si256();
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            sum = accumulate8(sum, row + i, _mm256_loadu_si256((const __m256i *)(x->values + i)),
                              _mm256_loadu_si256((const __m256i *)(x->magnitudes + i)));
        }
        out[r] = add_lanes8(sum);
    }
    for (; r < w->rows; r++) out[r] = dot8_plain(w->first + (size_t)r * stride, x->values, w->columns);
}

RHEO_AVX2 static void multiply32_avx2(const rheo_rows32 *w, const float *x, float *out) { multiply32_body(w, x, out); }
RHEO_AVX2 static float quantize_avx2(const float *x, int32_t count, int8_t *values, uint8_t *magnitudes) {
    return quantize_body(x, count, values, magnitudes);
}
RHEO_AVX2 static void rescale_avx2(const int32_t *sums, const float *row_scale, float x_scale, int32_t count, int adds,
                                   float *out) {
    rescale_body(sums, row_scale, x_scale, count, adds, out);
}
RHEO_AVX2 static void add_avx2(const float *bias, int32_t count, float *out) { add_body(bias, count, out); }
RHEO_AVX2 static void pool_avx2(const float *z, const float *f, const float *o, int32_t count, float *c, float *h) {
    pool_body(z, f, o, count, c, h);
}
RHEO_AVX2 static float largest_avx2(const float *values, int32_t count) { return largest_body(values, count); }
RHEO_AVX2 static float sum_exp_avx2(const float *values, int32_t count, float shift) {
    return sum_exp_body(values, count, shift);
}

/* With VNNI one instruction multiplies bytes and adds four products to a 32-bit sum. */
#define RHEO_VNNI __attribute__((target("avx2,avx512f,avx512vl,avx512vnni")))

RHEO_VNNI RHEO_INLINE __m256i accumulate8_vnni(__m256i sum, const int8_t *w, __m256i x, __m256i magnitude) {
    return _mm256_dpbusd_epi32(sum, magnitude, _mm256_sign_epi8(_mm256_loadu_si256((const __m256i *)w), x));
}

RHEO_VNNI static void multiply8_vnni(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out) {
    size_t stride = w->stride;
    int32_t safe = rows_in_blocks((size_t)(w->end - w->first), stride, w->rows, w->columns, RHEO_BLOCK);
    int32_t r = 0;
    for (; r + 4 <= safe; r += 4) {
        const int8_t *row = w->first + (size_t)r * stride;
        __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            __m256i values = _mm256_loadu_si256((const __m256i *)(x->values + i));
            __m256i magnitudes = _mm256_loadu_si256((const __m256i *)(x->magnitudes + i));
            if (!(i & 63)) prefetch_next(row, stride, w->columns, i);
            a = accumulate8_vnni(a, row + i, values, magnitudes);
            b = accumulate8_vnni(b, row + stride + i, values, magnitudes);
            c = accumulate8_vnni(c, row + 2 * stride + i, values, magnitudes);
            d = accumulate8_vnni(d, row + 3 * stride + i, values, magnitudes);
        }
        store_sums(out + r, a, b, c, d);
    }
    for (; r < safe; r++) {
        const int8_t *row = w->first + (size_t)r * stride;
        __m256i sum = _mm256_setzero_si256();
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            sum = accumulate8_vnni(sum, row + i, _mm256_loadu_si256((const __m256i *)(x->values + i)),
                                   _mm256_loadu_si256((const __m256i *)(x->magnitudes + i)));
        }
        out[r] = add_lanes8(sum);
    }
    for (; r < w->rows; r++) out[r] = dot8_plain(w->first + (size_t)r * stride, x->values, w->columns);
}

static int has_vnni(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }

static const rheo_kernels AVX2 = {"avx2",       has_avx2, multiply8_avx2, multiply32_avx2, quantize_avx2,
                                  rescale_avx2, add_avx2, pool_avx2,      largest_avx2,    sum_exp_avx2};

static const rheo_kernels VNNI = {"avx512-vnni", has_vnni, multiply8_vnni, multiply32_avx2, quantize_avx2,
                                  rescale_avx2,  add_avx2, pool_avx2,      largest_avx2,    sum_exp_avx2};
#endif

/* --- AArch64: NEON, and NEON with the dot product ----------------------------------------------------------------- */

#if defined(RHEO_NEON)
RHEO_INLINE int32x4_t accumulate8_neon(int32x4_t sum, int8x16_t w, int8x16_t x) {
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    int16x8_t both = vmlal_s8(low, vget_high_s8(w), vget_high_s8(x)); /* 2 · 127² fits 16 bits */
    return vpadalq_s16(sum, both);
}

static void multiply8_neon(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out) {
    size_t stride = w->stride;
    int32_t safe = rows_in_blocks((size_t)(w->end - w->first), stride, w->rows, w->columns, RHEO_BLOCK);
    int32_t r = 0;
    for (; r < safe; r++) {
        const int8_t *row = w->first + (size_t)r * stride;
        int32x4_t a = vdupq_n_s32(0), b = a;
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            a = accumulate8_neon(a, vld1q_s8(row + i), vld1q_s8(x->values + i));
            b = accumulate8_neon(b, vld1q_s8(row + i + 16), vld1q_s8(x->values + i + 16));
        }
        out[r] = vaddvq_s32(vaddq_s32(a, b));
    }
    for (; r < w->rows; r++) out[r] = dot8_plain(w->first + (size_t)r * stride, x->values, w->columns);
}

static const rheo_kernels NEON = {"neon",        is_always, multiply8_neon, multiply32_plain, quantize_plain,
                                  rescale_plain, add_plain, pool_plain,     largest_plain,   sum_exp_plain};

#if defined(__linux__) || defined(__APPLE__)
#define RHEO_NEON_DOT 1
#if defined(__linux__)
#include <sys/auxv.h>
static int has_dot(void) { return (getauxval(AT_HWCAP) >> 20) & 1; } /* HWCAP_ASIMDDP */
#else
static int has_dot(void) { return 1; } /* every Apple processor of this architecture since 2018 */
#endif

#if defined(__clang__)
#define RHEO_DOT __attribute__((target("dotprod")))
#else
#define RHEO_DOT __attribute__((target("+dotprod")))
#endif

RHEO_DOT static void multiply8_neon_dot(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out) {
    size_t stride = w->stride;
    int32_t safe = rows_in_blocks((size_t)(w->end - w->first), stride, w->rows, w->columns, RHEO_BLOCK);
    int32_t r = 0;
    for (; r < safe; r++) {
        const int8_t *row = w->first + (size_t)r * stride;
        int32x4_t a = vdupq_n_s32(0), b = a;
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            a = vdotq_s32(a, vld1q_s8(row + i), vld1q_s8(x->values + i));
            b = vdotq_s32(b, vld1q_s8(row + i + 16), vld1q_s8(x->values + i + 16));
        }
        out[r] = vaddvq_s32(vaddq_s32(a, b));
    }
    for (; r < w->rows; r++) out[r] = dot8_plain(w->first + (size_t)r * stride, x->values, w->columns);
}

static const rheo_kernels NEON_DOT = {"neon-dot",    has_dot,   multiply8_neon_dot, multiply32_plain, quantize_plain,
                                      rescale_plain, add_plain, pool_plain,         largest_plain,   sum_exp_plain};
#endif
#endif

/* --- WebAssembly with 128-bit vectors ----------------------------------------------------------------------------- */

#if defined(RHEO_WASM)
RHEO_INLINE v128_t accumulate8_wasm(v128_t sum, v128_t w, v128_t x) {
    v128_t low = wasm_i16x8_extmul_low_i8x16(w, x);
    v128_t high = wasm_i16x8_extmul_high_i8x16(w, x);
    return wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(low, high)));
}

static void multiply8_wasm(const rheo_rows8 *w, const rheo_vector8 *x, int32_t *out) {
    size_t stride = w->stride;
    int32_t safe = rows_in_blocks((size_t)(w->end - w->first), stride, w->rows, w->columns, RHEO_BLOCK);
    int32_t r = 0;
    for (; r < safe; r++) {
        const int8_t *row = w->first + (size_t)r * stride;
        v128_t a = wasm_i32x4_splat(0), b = a;
        for (int32_t i = 0; i < w->columns; i += RHEO_BLOCK) {
            a = accumulate8_wasm(a, wasm_v128_load(row + i), wasm_v128_load(x->values + i));
            b = accumulate8_wasm(b, wasm_v128_load(row + i + 16), wasm_v128_load(x->values + i + 16));
        }
        v128_t sum = wasm_i32x4_add(a, b);
        out[r] = wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1) +
                 wasm_i32x4_extract_lane(sum, 2) + wasm_i32x4_extract_lane(sum, 3);
    }
    for (; r < w->rows; r++) out[r] = dot8_plain(w->first + (size_t)r * stride, x->values, w->columns);
}

static const rheo_kernels WASM = {"wasm-simd",   is_always, multiply8_wasm, multiply32_plain, quantize_plain,
                                  rescale_plain, add_plain, pool_plain,     largest_plain,   sum_exp_plain};
#endif

/* --- the choice --------------------------------------------------------------------------------------------------- */

const rheo_kernels *rheo_kernels_at(int32_t number) {
    static const rheo_kernels *const ALL[] = {
#if defined(RHEO_X86)
        &VNNI,
        &AVX2,
#endif
#if defined(RHEO_NEON_DOT)
        &NEON_DOT,
#endif
#if defined(RHEO_NEON)
        &NEON,
#endif
#if defined(RHEO_WASM)
        &WASM,
#endif
        &PLAIN,
    };
    int32_t count = (int32_t)(sizeof ALL / sizeof ALL[0]);
    for (int32_t place = 0; place < count; place++) {
        if (ALL[place]->is_available() && number-- == 0) return ALL[place];
    }
    return NULL;
}
