/* The arithmetic of the core. Each kernel comes first in plain C, which is its specification; the versions for an
 * instruction set give the same bits. What works element by element is written once, in plain C, and vectorised by the
 * compiler; only sums over a row, whose order matters, are written by hand. */

#include "kernels.h"

#include <string.h>

#if defined(__FAST_MATH__)
#error "compile without -ffast-math: every processor must give the same bits"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#include <immintrin.h>
#define RHEO_X86 1
#define RHEO_PLAIN static __attribute__((cold)) /* hardly any such processor lacks AVX2, so that plain C is kept small */
#elif defined(__aarch64__)
#include <arm_neon.h>
#define RHEO_NEON 1
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define RHEO_WASM 1
#endif

#if !defined(RHEO_PLAIN)
#define RHEO_PLAIN static
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
typedef uint32_t wholes8 __attribute__((vector_size(LANES * sizeof(uint32_t)))); /* sums that may wrap around */
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

/* The first `count` of eight floats; the rest is `filler`. */
RHEO_INLINE floats8 load_some(const float *from, int32_t count, float filler) {
    if (count == LANES) return load(from);
    float found[LANES];
    for (int32_t lane = 0; lane < LANES; lane++) found[lane] = filler;
    memcpy(found, from, (size_t)count * sizeof(float));
    return load(found);
}

RHEO_INLINE void store_some(float *to, int32_t count, floats8 values) {
    if (count == LANES) store(to, values);
    else memcpy(to, &values, (size_t)count * sizeof(float));
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
#define ROUNDER 12582912.0f
#define LOWEST (-87.0f) /* exp of it is nearly the smallest float */
enum { VECTORS = 4 };   /* of exponentials, taken together */

/* The same number eight times, from a literal. GCC turns splat of one into eight instructions where it is inlined late. */
#define EIGHT(literal) ((floats8){literal, literal, literal, literal, literal, literal, literal, literal})

/* exp(x) = 2ⁿ · exp(r), n = round(x / ln 2), |r| ≤ ln 2 / 2, with ln 2 in two parts so that n · ln 2 loses nothing.
 * exp(r) = 1 + r + r² · p(r), p of degree 4 by Chebyshev interpolation. x is not below LOWEST. The error is at most
 * 1.5e-7 of exp(x). Each step is taken for all vectors before the next: a processor finds work while it waits for a
 * result. */
RHEO_INLINE void exp_all(floats8 *x, int32_t vectors) {
    floats8 r[VECTORS], p[VECTORS];
    ints8 scale[VECTORS];
    for (int32_t v = 0; v < vectors; v++) {
        floats8 shifted = x[v] * EIGHT(1.4426950216293335f) + EIGHT(ROUNDER), n = shifted - EIGHT(ROUNDER);
        scale[v] = (ints8)shifted << 23; /* n, where it is added to the exponent */
        r[v] = (x[v] - n * EIGHT(0.693115234375f)) - n * EIGHT(3.194618329871446e-05f);
    }
    for (int32_t v = 0; v < vectors; v++) p[v] = EIGHT(0.0013926184037700295f) * r[v] + EIGHT(0.008363178931176662f);
    for (int32_t v = 0; v < vectors; v++) p[v] = p[v] * r[v] + EIGHT(0.041666556149721146f);
    for (int32_t v = 0; v < vectors; v++) p[v] = p[v] * r[v] + EIGHT(0.16666576266288757f);
    for (int32_t v = 0; v < vectors; v++) p[v] = p[v] * r[v] + EIGHT(0.5f);
    for (int32_t v = 0; v < vectors; v++) {
        floats8 e = (p[v] * (r[v] * r[v]) + r[v]) + EIGHT(1.0f);
        x[v] = (floats8)((ints8)e + scale[v]);
    }
}

/* exp of any x up to 88. Below LOWEST it is 0. */
RHEO_INLINE floats8 exp8(floats8 x) {
    ints8 is_low = x < EIGHT(LOWEST);
    floats8 found = blend(is_low, EIGHT(LOWEST), x);
    exp_all(&found, 1);
    return (floats8)(~is_low & (ints8)found);
}

float rheo_exp(float x) { return exp8(splat(x))[0]; }

/* σ(x) = 1 / (1 + exp(-x)), with an error of at most 1.2e-7 */
RHEO_INLINE void sigmoid_all(floats8 *x, int32_t vectors) {
    for (int32_t v = 0; v < vectors; v++) {
        x[v] = -blend(x[v] > EIGHT(-LOWEST), EIGHT(-LOWEST), greater(x[v], EIGHT(LOWEST)));
    }
    exp_all(x, vectors);
    for (int32_t v = 0; v < vectors; v++) x[v] = EIGHT(1.0f) / (EIGHT(1.0f) + x[v]);
}

/* log(x) = e · ln 2 + 2 (t + t³/3 + t⁵/5 + …), x = 2ᵉ · m, m in [√½, √2), t = (m - 1) / (m + 1), |t| ≤ 0.172. The error
 * is at most 1e-14 of log(x), or 1e-15. */
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

/* Whether floats are computed as written. The values are volatile, so that nothing is known when this is compiled.
 * (1 + 2⁻¹²)² - (1 + 2⁻¹¹) is 0 if the product is rounded before the sum, and 2⁻²⁴ if the two are contracted. 2²⁴ + 1 is
 * 2²⁴ as a float, so that taking 2²⁴ away again leaves 0, unless additions are put in another order. 5 · (1 / 3) is not
 * the same float as 5 / 3; compilers multiply when they would divide by one number several times. */
int rheo_floats_are_exact(void) {
    volatile float factor = 1.0f + 1.0f / 4096.0f, sum = -(1.0f + 1.0f / 2048.0f), large = 16777216.0f, one = 1.0f;
    volatile float five = 5.0f, three = 3.0f;
    float f = factor, s = sum, l = large, o = one, divisor = three;
    float divided[] = {five / divisor, o / divisor, f / divisor, l / divisor};
    volatile float all = divided[1] + divided[2] + divided[3]; /* so that they are computed */
    (void)all;
    return f * f + s == 0.0f && (l + o) - l == 0.0f && divided[0] == 1.66666662693023681640625f;
}

/* --- element by element ------------------------------------------------------------------------------------------- */

RHEO_INLINE rheo_vector8 quantize_body(const float *x, int32_t count, int8_t *values) {
    floats8 extremes = splat(0.0f);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) extremes = greater(greater(load(x + i), -load(x + i)), extremes);
    floats8 rest = load_some(x + i, count - i, 0.0f);
    extremes = greater(greater(rest, -rest), extremes);
    float largest = extremes[0];
    for (int lane = 1; lane < LANES; lane++) largest = extremes[lane] > largest ? extremes[lane] : largest;

    floats8 inverse = splat(largest > 1e-30f ? 127.0f / largest : 0.0f);
    wholes8 sums = {0}; /* of a damaged model, values can be anything */
    memset(values + i, 0, rheo_padded((size_t)count) - (size_t)i);
    for (i = 0; i < count; i += LANES) {
        floats8 some = count - i < LANES ? rest : load(x + i);
        ints8 whole = (ints8)(some * inverse + splat(ROUNDER)) - (ints8)splat(ROUNDER);
        bytes8 narrow = __builtin_convertvector(whole, bytes8);
        memcpy(values + i, &narrow, sizeof narrow);
        sums = sums + (wholes8)whole;
    }
    uint32_t sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    rheo_vector8 found = {values, largest / 127.0f, (int32_t)sum};
    return found;
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

/* c = f c + (1 - f) z, h = o c, with tanh(z) = 2 σ(2z) - 1, whose error is at most 2.4e-7 */
RHEO_INLINE void pool8(floats8 z, floats8 f, floats8 o, floats8 *c, floats8 *h) {
    floats8 gates[] = {EIGHT(2.0f) * z, f, o};
    sigmoid_all(gates, 3);
    floats8 tanh = EIGHT(2.0f) * gates[0] - EIGHT(1.0f), forget = gates[1];
    *c = forget * *c + (EIGHT(1.0f) - forget) * tanh;
    *h = gates[2] * *c;
}

RHEO_INLINE void pool_body(const float *z, const float *f, const float *o, int32_t count, float *c, float *h) {
    for (int32_t i = 0; i < count; i += LANES) {
        int32_t some = count - i < LANES ? count - i : LANES;
        floats8 cell = load_some(c + i, some, 0.0f), hidden;
        pool8(load_some(z + i, some, 0.0f), load_some(f + i, some, 0.0f), load_some(o + i, some, 0.0f), &cell, &hidden);
        store_some(c + i, some, cell);
        store_some(h + i, some, hidden);
    }
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

/* shift is the largest value, so that exp(LOWEST) in place of less, or of nothing, changes no bit of the sum. */
RHEO_INLINE float sum_exp_body(const float *values, int32_t count, float shift) {
    float shifts[LANES], rest[VECTORS * LANES]; /* in memory: see EIGHT */
    for (int32_t lane = 0; lane < LANES; lane++) shifts[lane] = shift;
    floats8 lanes = EIGHT(0.0f), all = load(shifts), some[VECTORS];
    for (int32_t left = count; left > 0; left -= VECTORS * LANES, values += VECTORS * LANES) {
        const float *from = values;
        if (left < VECTORS * LANES) {
            for (int32_t place = 0; place < VECTORS * LANES; place++) rest[place] = shift + 2.0f * LOWEST;
            from = memcpy(rest, values, (size_t)left * sizeof(float));
        }
        for (int32_t v = 0; v < VECTORS; v++) some[v] = greater(load(from + v * LANES) - all, EIGHT(LOWEST));
        exp_all(some, VECTORS);
        for (int32_t v = 0; v < VECTORS; v++) lanes = lanes + some[v];
    }
    return add_lanes(lanes);
}

/* --- sums over a row: plain C ------------------------------------------------------------------------------------- */

RHEO_INLINE float dot32_plain(const float *w, const float *x, int32_t columns) {
    floats8 lanes = splat(0.0f);
    int32_t i = 0;
    for (; i + LANES <= columns; i += LANES) lanes = lanes + load(w + i) * load(x + i);
    if (i < columns) lanes = lanes + load_some(w + i, columns - i, 0.0f) * load_some(x + i, columns - i, 0.0f);
    return add_lanes(lanes);
}

/* The offset that the planes leave out, because w is stored as w + 128 or read as the middle of 16 values: Σ_i x[i]
 * times this is added to the product of the planes. All sums are modulo 2³², and the final result fits in 31 bits. */
enum { OFFSET8 = -128, OFFSET4 = 8 - 128 };

RHEO_INLINE uint32_t offset_of(const rheo_vector8 *x, int32_t offset) { return (uint32_t)x->sum * (uint32_t)offset; }

RHEO_INLINE uint32_t product_plain(uint32_t w, int8_t x) {
    int32_t value = x;
    return w * (uint32_t)value;
}

static void multiply8_plain(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++, out += RHEO_ROWS) {
        const uint8_t *upper = w->upper + (size_t)block * w->stride, *lower = w->lower + (size_t)block * w->stride;
        for (int32_t row = 0; row < RHEO_ROWS; row++) {
            uint32_t sum = offset_of(x, OFFSET8);
            for (int32_t line = 0; line < w->lines; line++) {
                const int8_t *with = x->values + line * RHEO_COLUMNS;
                for (int32_t column = 0; column < RHEO_QUAD; column++) {
                    int32_t at = line * RHEO_LINE + row * RHEO_QUAD + column;
                    sum += product_plain((upper[at] & 15u) << 4 | (lower[at] & 15u), with[column]);
                    sum += product_plain((upper[at] & 240u) | (uint32_t)lower[at] >> 4, with[column + RHEO_QUAD]);
                }
            }
            out[row] = (int32_t)sum;
        }
    }
}

static void multiply4_plain(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++, out += RHEO_ROWS) {
        const uint8_t *upper = w->upper + (size_t)block * w->stride;
        for (int32_t row = 0; row < RHEO_ROWS; row++) {
            uint32_t sum = offset_of(x, OFFSET4);
            for (int32_t line = 0; line < w->lines; line++) {
                const int8_t *with = x->values + line * RHEO_COLUMNS;
                for (int32_t column = 0; column < RHEO_QUAD; column++) {
                    int32_t at = line * RHEO_LINE + row * RHEO_QUAD + column;
                    sum += product_plain((upper[at] & 15u) << 4, with[column]);
                    sum += product_plain(upper[at] & 240u, with[column + RHEO_QUAD]);
                }
            }
            out[row] = (int32_t)sum;
        }
    }
}

enum { TILE_ROWS = 4, TILE_WORDS = 2, FETCHED = 64 /* bytes */ };

/* The same value, kept in a register of AVX2. GCC would rather load it again for each product, and loading is what takes
 * longest here. */
RHEO_INLINE floats8 held(floats8 value, int in_avx2) {
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__clang__)
    if (in_avx2) __asm__("" : "+x"(value));
#endif
    (void)in_avx2;
    return value;
}

/* Four rows and one or two words at once, so that a value is loaded once for all of them. */
RHEO_INLINE void multiply32_tile(const rheo_rows32 *w, int32_t first, const float *const *x, int32_t words,
                                 int in_avx2, floats8 sums[TILE_WORDS][TILE_ROWS]) {
    const float *row = w->first + (size_t)first * w->stride;
    for (int32_t word = 0; word < words; word++) {
        for (int32_t r = 0; r < TILE_ROWS; r++) sums[word][r] = splat(0.0f);
    }
    int32_t i = 0, rest = w->columns % LANES;
    for (; i + LANES <= w->columns; i += LANES) {
        for (int32_t r = 0; r < TILE_ROWS; r++) {
            floats8 weights = held(load(row + (size_t)r * w->stride + i), in_avx2);
            for (int32_t word = 0; word < words; word++) sums[word][r] = sums[word][r] + weights * load(x[word] + i);
        }
    }
    if (!rest) return;
    float last[TILE_ROWS][LANES] = {{0}};
    for (int32_t r = 0; r < TILE_ROWS; r++) memcpy(last[r], row + (size_t)r * w->stride + i, (size_t)rest * sizeof(float));
    for (int32_t r = 0; r < TILE_ROWS; r++) {
        for (int32_t word = 0; word < words; word++) sums[word][r] = sums[word][r] + load(last[r]) * load(x[word] + i);
    }
}

RHEO_INLINE void keep32(float product, int adds, float *out) { *out = adds ? *out + product : product; }

RHEO_INLINE void multiply32_rows(const rheo_rows32 *w, int32_t first, const float *const *x, int32_t words, int adds,
                                 int in_avx2, float *const *out) {
    floats8 sums[TILE_WORDS][TILE_ROWS];
    multiply32_tile(w, first, x, words, in_avx2, sums);
    for (int32_t word = 0; word < words; word++) {
        for (int32_t r = 0; r < TILE_ROWS; r++) keep32(add_lanes(sums[word][r]), adds, out[word] + first + r);
    }
}

/* Ask for a share of some rows before they are needed: all words together ask for all of them. */
RHEO_INLINE void fetch32(const rheo_rows32 *w, int32_t first, int32_t rows, int32_t share, int32_t shares) {
    const char *from = (const char *)(w->first + (size_t)first * w->stride);
    int32_t lines = (int32_t)((size_t)rows * w->stride * sizeof(float) / FETCHED);
    for (int32_t line = lines / shares * share; line <= lines / shares * (share + 1); line++) {
        __builtin_prefetch(from + (size_t)line * FETCHED);
    }
}

RHEO_INLINE void multiply32_body(const rheo_rows32 *w, const float *const *x, int32_t words, int adds,
                                 int in_avx2, float *const *out) {
    int32_t r = 0;
    for (; r + TILE_ROWS <= w->rows; r += TILE_ROWS) {
        int32_t word = 0;
        for (; word + TILE_WORDS <= words; word += TILE_WORDS) {
            if (r + 2 * TILE_ROWS < w->rows) fetch32(w, r + TILE_ROWS, TILE_ROWS, word / TILE_WORDS, words / TILE_WORDS);
            multiply32_rows(w, r, x + word, TILE_WORDS, adds, in_avx2, out + word);
        }
        for (; word < words; word++) multiply32_rows(w, r, x + word, 1, adds, in_avx2, out + word);
    }
    for (; r < w->rows; r++) {
        for (int32_t word = 0; word < words; word++) {
            keep32(dot32_plain(w->first + (size_t)r * w->stride, x[word], w->columns), adds, out[word] + r);
        }
    }
}

RHEO_PLAIN void multiply32_plain(const rheo_rows32 *w, const float *const *x, int32_t words, int adds, float *const *out) {
    multiply32_body(w, x, words, adds, 0, out);
}
RHEO_PLAIN rheo_vector8 quantize_plain(const float *x, int32_t count, int8_t *values) {
    return quantize_body(x, count, values);
}
RHEO_PLAIN void rescale_plain(const int32_t *sums, const float *row_scale, float x_scale, int32_t count, int adds,
                          float *out) {
    rescale_body(sums, row_scale, x_scale, count, adds, out);
}
RHEO_PLAIN void add_plain(const float *bias, int32_t count, float *out) { add_body(bias, count, out); }
RHEO_PLAIN void pool_plain(const float *z, const float *f, const float *o, int32_t count, float *c, float *h) {
    pool_body(z, f, o, count, c, h);
}
RHEO_PLAIN float largest_plain(const float *values, int32_t count) { return largest_body(values, count); }
RHEO_PLAIN float sum_exp_plain(const float *values, int32_t count, float shift) {
    return sum_exp_body(values, count, shift);
}

static int is_always(void) { return 1; }

static const rheo_kernels PLAIN = {"plain",        is_always,      multiply8_plain, multiply4_plain,
                                   multiply32_plain, quantize_plain, rescale_plain,   add_plain,
                                   pool_plain,     largest_plain,  sum_exp_plain};

/* Four values of x, side by side. */
RHEO_INLINE int32_t quad_of(const int8_t *x) {
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return quad;
}

/* --- x86-64 with AVX2 --------------------------------------------------------------------------------------------- */

#if defined(RHEO_X86)
#define RHEO_AVX2 __attribute__((target("avx2")))

/* Halves of bytes are 0 to 15, so that Σ of two products is at most 2 · 15 · 127 = 3,810, and eight such sums fit the 16
 * bits in which AVX2 adds the products of bytes: those of four lines. */
enum { LINES_AT_ONCE = 4, HALF_LINE = 32 };

typedef struct halves16 {
    __m256i first, second; /* rows 0 to 7 and 8 to 15: two sums of 16 bits for each */
} halves16;

RHEO_AVX2 RHEO_INLINE __m256i add_products(__m256i sum, const uint8_t *w, __m256i x, __m256i next_x) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i bytes = _mm256_loadu_si256((const __m256i *)w);
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_and_si256(bytes, low), x));
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), low), next_x));
}

RHEO_AVX2 RHEO_INLINE halves16 add_lines(const uint8_t *w, const int8_t *x, int32_t lines) {
    halves16 sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int32_t line = 0; line < lines; line++, w += RHEO_LINE, x += RHEO_COLUMNS) {
        __m256i quad = _mm256_set1_epi32(quad_of(x)), next = _mm256_set1_epi32(quad_of(x + RHEO_QUAD));
        sums.first = add_products(sums.first, w, quad, next);
        sums.second = add_products(sums.second, w + HALF_LINE, quad, next);
    }
    return sums;
}

RHEO_AVX2 RHEO_INLINE __m256i add_upper(__m256i total, __m256i sums) {
    return _mm256_add_epi32(total, _mm256_madd_epi16(sums, _mm256_set1_epi16(16)));
}

RHEO_AVX2 RHEO_INLINE __m256i add_lower(__m256i total, __m256i sums) {
    return _mm256_add_epi32(total, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
}

RHEO_AVX2 RHEO_INLINE void multiply_block_avx2(const uint8_t *upper, const uint8_t *lower, int32_t lines,
                                               const int8_t *x, uint32_t offset, int32_t *out) {
    __m256i first = _mm256_set1_epi32((int32_t)offset), second = first;
    for (int32_t line = 0; line < lines; line += LINES_AT_ONCE) {
        int32_t some = lines - line < LINES_AT_ONCE ? lines - line : LINES_AT_ONCE;
        halves16 sums = add_lines(upper + line * RHEO_LINE, x + line * RHEO_COLUMNS, some);
        first = add_upper(first, sums.first);
        second = add_upper(second, sums.second);
        if (!lower) continue;
        sums = add_lines(lower + line * RHEO_LINE, x + line * RHEO_COLUMNS, some);
        first = add_lower(first, sums.first);
        second = add_lower(second, sums.second);
    }
    _mm256_storeu_si256((__m256i *)out, first);
    _mm256_storeu_si256((__m256i *)(out + RHEO_ROWS / 2), second);
}

RHEO_AVX2 static void multiply8_avx2(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        size_t start = (size_t)block * w->stride;
        multiply_block_avx2(w->upper + start, w->lower + start, w->lines, x->values, offset_of(x, OFFSET8),
                            out + block * RHEO_ROWS);
    }
}

RHEO_AVX2 static void multiply4_avx2(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        multiply_block_avx2(w->upper + (size_t)block * w->stride, NULL, w->lines, x->values, offset_of(x, OFFSET4),
                            out + block * RHEO_ROWS);
    }
}

RHEO_AVX2 static void multiply32_avx2(const rheo_rows32 *w, const float *const *x, int32_t words, int adds,
                                      float *const *out) {
    multiply32_body(w, x, words, adds, 1, out);
}
RHEO_AVX2 static rheo_vector8 quantize_avx2(const float *x, int32_t count, int8_t *values) {
    return quantize_body(x, count, values);
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

/* With VNNI one instruction multiplies a whole line with four values of x and adds four products of each row to a
 * 32-bit sum. Some blocks are read side by side: x is loaded once for all of them, and no product waits for the one
 * before. */
#define RHEO_VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vnni")))

enum {
    SIDE_BY_SIDE8 = 2,
    SIDE_BY_SIDE4 = 4,
    TAKE_HIGH_HALVES = 0xe4 /* bit by bit: the mask's ones from the first, its zeros from the second */
};

RHEO_VNNI RHEO_INLINE __m512i quad_vnni(const int8_t *x) { return _mm512_set1_epi32(quad_of(x)); }

/* a: w + 128 of the first four columns of a line; b: of the other four. */
RHEO_VNNI RHEO_INLINE void add_line8(const uint8_t *upper, const uint8_t *lower, __m512i x, __m512i next_x, __m512i *a,
                                     __m512i *b) {
    const __m512i high = _mm512_set1_epi8((char)240);
    __m512i up = _mm512_loadu_si512(upper), low = _mm512_loadu_si512(lower);
    __m512i first = _mm512_ternarylogic_epi32(_mm512_slli_epi16(up, 4), low, high, TAKE_HIGH_HALVES);
    __m512i second = _mm512_ternarylogic_epi32(up, _mm512_srli_epi16(low, 4), high, TAKE_HIGH_HALVES);
    *a = _mm512_dpbusd_epi32(*a, first, x);
    *b = _mm512_dpbusd_epi32(*b, second, next_x);
}

/* fetches: where columns are left out, the next blocks do not follow in memory, so they are asked for in time. */
RHEO_VNNI RHEO_INLINE void multiply8_blocks(const rheo_planes *w, int32_t first, int32_t count, int fetches,
                                            const rheo_vector8 *x, int32_t *out) {
    size_t start = (size_t)first * w->stride, ahead = (size_t)count * w->stride;
    __m512i a[SIDE_BY_SIDE8], b[SIDE_BY_SIDE8];
    for (int32_t block = 0; block < count; block++) {
        a[block] = _mm512_set1_epi32((int32_t)offset_of(x, OFFSET8));
        b[block] = _mm512_setzero_si512();
    }
    for (int32_t line = 0; line < w->lines; line++) {
        const int8_t *with = x->values + line * RHEO_COLUMNS;
        __m512i quad = quad_vnni(with), next = quad_vnni(with + RHEO_QUAD);
        for (int32_t block = 0; block < count; block++) {
            size_t at = start + (size_t)block * w->stride + (size_t)line * RHEO_LINE;
            if (fetches) {
                __builtin_prefetch(w->upper + at + ahead);
                __builtin_prefetch(w->lower + at + ahead);
            }
            add_line8(w->upper + at, w->lower + at, quad, next, a + block, b + block);
        }
    }
    for (int32_t block = 0; block < count; block++) {
        _mm512_storeu_si512(out + (first + block) * RHEO_ROWS, _mm512_add_epi32(a[block], b[block]));
    }
}

RHEO_VNNI static void multiply8_vnni(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    int32_t block = 0;
    int has_gaps = (size_t)(w->lines + 1) * RHEO_LINE < w->stride;
    for (; has_gaps && block + SIDE_BY_SIDE8 <= w->blocks; block += SIDE_BY_SIDE8) {
        multiply8_blocks(w, block, SIDE_BY_SIDE8, block + 2 * SIDE_BY_SIDE8 <= w->blocks, x, out);
    }
    for (; block < w->blocks; block++) multiply8_blocks(w, block, 1, 0, x, out);
}

/* a: the halves of bytes of the first four columns of a line; b: 16 times those of the other four, as they lie. */
RHEO_VNNI RHEO_INLINE void multiply4_blocks(const rheo_planes *w, int32_t first, int32_t count, const rheo_vector8 *x,
                                            int32_t *out) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i a[SIDE_BY_SIDE4], b[SIDE_BY_SIDE4];
    for (int32_t block = 0; block < count; block++) {
        a[block] = _mm512_setzero_si512();
        b[block] = _mm512_set1_epi32((int32_t)offset_of(x, OFFSET4));
    }
    for (int32_t line = 0; line < w->lines; line++) {
        const int8_t *with = x->values + line * RHEO_COLUMNS;
        __m512i quad = quad_vnni(with), next = quad_vnni(with + RHEO_QUAD);
        for (int32_t block = 0; block < count; block++) {
            __m512i up = _mm512_loadu_si512(w->upper + (size_t)(first + block) * w->stride + (size_t)line * RHEO_LINE);
            a[block] = _mm512_dpbusd_epi32(a[block], _mm512_and_si512(up, low), quad);
            b[block] = _mm512_dpbusd_epi32(b[block], _mm512_andnot_si512(low, up), next);
        }
    }
    for (int32_t block = 0; block < count; block++) {
        __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(a[block], 4), b[block]);
        _mm512_storeu_si512(out + (first + block) * RHEO_ROWS, sum);
    }
}

RHEO_VNNI static void multiply4_vnni(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    int32_t block = 0;
    for (; block + SIDE_BY_SIDE4 <= w->blocks; block += SIDE_BY_SIDE4) multiply4_blocks(w, block, SIDE_BY_SIDE4, x, out);
    for (; block < w->blocks; block++) multiply4_blocks(w, block, 1, x, out);
}

/* Asks the processor itself (Intel's manual, volume 2, CPUID): __builtin_cpu_supports needs a GCC library that zig
 * lacks. The system must save the registers too, which XGETBV reports. */
enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xe6 };

static int has(unsigned features_b, unsigned features_c, unsigned registers) {
    unsigned a, b, c, d, saved, unused;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
    if ((saved & registers) != registers || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return (b & features_b) == features_b && (c & features_c) == features_c;
}

static int has_avx2(void) { return has(bit_AVX2, 0, SAVES_YMM); }

static int has_vnni(void) {
    return has(bit_AVX2 | bit_AVX512F | bit_AVX512BW, bit_AVX512VNNI, SAVES_ZMM);
}

static const rheo_kernels AVX2 = {"avx2",          has_avx2,      multiply8_avx2, multiply4_avx2,
                                  multiply32_avx2, quantize_avx2, rescale_avx2,   add_avx2,
                                  pool_avx2,       largest_avx2,  sum_exp_avx2};

static const rheo_kernels VNNI = {"avx512-vnni",   has_vnni,      multiply8_vnni, multiply4_vnni,
                                  multiply32_avx2, quantize_avx2, rescale_avx2,   add_avx2,
                                  pool_avx2,       largest_avx2,  sum_exp_avx2};
#endif

/* --- AArch64: NEON, and NEON with the dot product ----------------------------------------------------------------- */

#if defined(RHEO_NEON)
enum { PARTS = 4, PART = 16 }; /* a line is four registers, of four rows each */

/* w of the four rows of a part: of its first four columns, and of the other four. */
RHEO_INLINE int8x16x2_t weights8_neon(const uint8_t *upper, const uint8_t *lower) {
    uint8x16_t up = veorq_u8(vld1q_u8(upper), vdupq_n_u8(0x88)), low = vld1q_u8(lower); /* - 128: the sign */
    int8x16x2_t w = {{vreinterpretq_s8_u8(vsliq_n_u8(low, up, 4)), vreinterpretq_s8_u8(vsriq_n_u8(up, low, 4))}};
    return w;
}

/* The upper halves as they are, 0 to 15. */
RHEO_INLINE int8x16x2_t weights4_neon(const uint8_t *upper) {
    uint8x16_t up = vld1q_u8(upper);
    int8x16x2_t w = {{vreinterpretq_s8_u8(vandq_u8(up, vdupq_n_u8(15))), vreinterpretq_s8_u8(vshrq_n_u8(up, 4))}};
    return w;
}

RHEO_INLINE int8x16_t quad_neon(const int8_t *x) { return vreinterpretq_s8_s32(vdupq_n_s32(quad_of(x))); }

/* Two sums for each row: of two rows in `a`, of the other two in `b`. 2 · 128 · 127 fits 16 bits. */
RHEO_INLINE void add_products_neon(int8x16x2_t w, int8x16_t x, int8x16_t next_x, int32x4_t *a, int32x4_t *b) {
    int16x8_t first = vmull_s8(vget_low_s8(w.val[0]), vget_low_s8(x));
    int16x8_t second = vmull_s8(vget_high_s8(w.val[0]), vget_low_s8(x));
    first = vmlal_s8(first, vget_low_s8(w.val[1]), vget_low_s8(next_x));
    second = vmlal_s8(second, vget_high_s8(w.val[1]), vget_low_s8(next_x));
    *a = vpadalq_s16(*a, first);
    *b = vpadalq_s16(*b, second);
}

/* Stores the sums unchanged if there is a lower plane; otherwise 16 times as large. */
RHEO_INLINE void store_neon(int32_t *out, const int32x4_t *sums, int is_upper_only, uint32_t offset) {
    for (int part = 0; part < PARTS; part++) {
        int32x4_t sum = is_upper_only ? vshlq_n_s32(sums[part], 4) : sums[part];
        vst1q_s32(out + part * PARTS, vaddq_s32(sum, vdupq_n_s32((int32_t)offset)));
    }
}

RHEO_INLINE void multiply_block_neon(const uint8_t *upper, const uint8_t *lower, int32_t lines, const int8_t *x,
                                     uint32_t offset, int32_t *out) {
    int32x4_t a[PARTS], b[PARTS];
    for (int part = 0; part < PARTS; part++) a[part] = b[part] = vdupq_n_s32(0);
    for (int32_t line = 0; line < lines; line++, x += RHEO_COLUMNS) {
        int8x16_t quad = quad_neon(x), next = quad_neon(x + RHEO_QUAD);
        for (int32_t part = 0; part < PARTS; part++) {
            int32_t at = line * RHEO_LINE + part * PART;
            int8x16x2_t w = lower ? weights8_neon(upper + at, lower + at) : weights4_neon(upper + at);
            add_products_neon(w, quad, next, a + part, b + part);
        }
    }
    for (int part = 0; part < PARTS; part++) a[part] = vpaddq_s32(a[part], b[part]);
    store_neon(out, a, !lower, offset);
}

static void multiply8_neon(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        size_t start = (size_t)block * w->stride;
        multiply_block_neon(w->upper + start, w->lower + start, w->lines, x->values, 0, out + block * RHEO_ROWS);
    }
}

/* The halves stand for 16 · upper - 120. */
static void multiply4_neon(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        multiply_block_neon(w->upper + (size_t)block * w->stride, NULL, w->lines, x->values, offset_of(x, OFFSET4),
                            out + block * RHEO_ROWS);
    }
}

static const rheo_kernels NEON = {"neon",           is_always,      multiply8_neon, multiply4_neon,
                                  multiply32_plain, quantize_plain, rescale_plain,  add_plain,
                                  pool_plain,       largest_plain,  sum_exp_plain};

#if defined(__linux__) || defined(__APPLE__)
#define RHEO_NEON_DOT 1
#if defined(__linux__)
#include <sys/auxv.h>
static int has_dot(void) { return (getauxval(AT_HWCAP) >> 20) & 1; } /* HWCAP_ASIMDDP */
#elif defined(__ARM_FEATURE_DOTPROD)
static int has_dot(void) { return 1; } /* the compiler was told so: by default for Macs; for phones by -mcpu=apple-a13 */
#else
static int has_dot(void) { return 0; }
#endif

#if defined(__clang__)
#define RHEO_DOT __attribute__((target("dotprod")))
#else
#define RHEO_DOT __attribute__((target("+dotprod")))
#endif

RHEO_DOT RHEO_INLINE void multiply_block_dot(const uint8_t *upper, const uint8_t *lower, int32_t lines, const int8_t *x,
                                             uint32_t offset, int32_t *out) {
    int32x4_t a[PARTS], b[PARTS];
    for (int part = 0; part < PARTS; part++) a[part] = b[part] = vdupq_n_s32(0);
    for (int32_t line = 0; line < lines; line++, x += RHEO_COLUMNS) {
        int8x16_t quad = quad_neon(x), next = quad_neon(x + RHEO_QUAD);
        for (int32_t part = 0; part < PARTS; part++) {
            int32_t at = line * RHEO_LINE + part * PART;
            int8x16x2_t w = lower ? weights8_neon(upper + at, lower + at) : weights4_neon(upper + at);
            a[part] = vdotq_s32(a[part], w.val[0], quad);
            b[part] = vdotq_s32(b[part], w.val[1], next);
        }
    }
    for (int part = 0; part < PARTS; part++) a[part] = vaddq_s32(a[part], b[part]);
    store_neon(out, a, !lower, offset);
}

RHEO_DOT static void multiply8_dot(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        size_t start = (size_t)block * w->stride;
        multiply_block_dot(w->upper + start, w->lower + start, w->lines, x->values, 0, out + block * RHEO_ROWS);
    }
}

RHEO_DOT static void multiply4_dot(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        multiply_block_dot(w->upper + (size_t)block * w->stride, NULL, w->lines, x->values, offset_of(x, OFFSET4),
                           out + block * RHEO_ROWS);
    }
}

static const rheo_kernels NEON_DOT = {"neon-dot",       has_dot,        multiply8_dot, multiply4_dot,
                                      multiply32_plain, quantize_plain, rescale_plain, add_plain,
                                      pool_plain,       largest_plain,  sum_exp_plain};
#endif
#endif

/* --- WebAssembly with 128-bit vectors ----------------------------------------------------------------------------- */

#if defined(RHEO_WASM)
enum { PARTS = 4, PART = 16 }; /* a line is four registers, of four rows each */

RHEO_INLINE v128_t load_wasm(const uint8_t *from) { return wasm_v128_load(from); }

/* w of the four rows of a part: of its first four columns in `a`, of the other four in `b`. */
RHEO_INLINE void weights8_wasm(const uint8_t *upper, const uint8_t *lower, v128_t *a, v128_t *b) {
    v128_t up = wasm_v128_xor(load_wasm(upper), wasm_u8x16_splat(0x88)), low = load_wasm(lower); /* - 128: the sign */
    v128_t half = wasm_u8x16_splat(15);
    *a = wasm_v128_bitselect(low, wasm_i8x16_shl(up, 4), half);
    *b = wasm_v128_bitselect(wasm_u8x16_shr(low, 4), up, half);
}

/* The upper halves as they are, 0 to 15. */
RHEO_INLINE void weights4_wasm(const uint8_t *upper, v128_t *a, v128_t *b) {
    v128_t up = load_wasm(upper);
    *a = wasm_v128_and(up, wasm_u8x16_splat(15));
    *b = wasm_u8x16_shr(up, 4);
}

/* Two sums for each row: of two rows in `low`, of the other two in `high`. 2 · 128 · 127 fits 16 bits. */
RHEO_INLINE void add_products_wasm(v128_t a, v128_t b, v128_t x, v128_t next_x, v128_t *low, v128_t *high) {
    v128_t first = wasm_i16x8_add(wasm_i16x8_extmul_low_i8x16(a, x), wasm_i16x8_extmul_low_i8x16(b, next_x));
    v128_t second = wasm_i16x8_add(wasm_i16x8_extmul_high_i8x16(a, x), wasm_i16x8_extmul_high_i8x16(b, next_x));
    *low = wasm_i32x4_add(*low, wasm_i32x4_extadd_pairwise_i16x8(first));
    *high = wasm_i32x4_add(*high, wasm_i32x4_extadd_pairwise_i16x8(second));
}

RHEO_INLINE void multiply_block_wasm(const uint8_t *upper, const uint8_t *lower, int32_t lines, const int8_t *x,
                                     uint32_t offset, int32_t *out) {
    v128_t low[PARTS], high[PARTS];
    for (int part = 0; part < PARTS; part++) low[part] = high[part] = wasm_i32x4_splat(0);
    for (int32_t line = 0; line < lines; line++, x += RHEO_COLUMNS) {
        v128_t quad = wasm_v128_load32_splat(x), next = wasm_v128_load32_splat(x + RHEO_QUAD);
        for (int32_t part = 0; part < PARTS; part++) {
            int32_t at = line * RHEO_LINE + part * PART;
            v128_t a, b;
            if (lower) weights8_wasm(upper + at, lower + at, &a, &b);
            else weights4_wasm(upper + at, &a, &b);
            add_products_wasm(a, b, quad, next, low + part, high + part);
        }
    }
    for (int part = 0; part < PARTS; part++) {
        v128_t even = wasm_i32x4_shuffle(low[part], high[part], 0, 2, 4, 6);
        v128_t sum = wasm_i32x4_add(even, wasm_i32x4_shuffle(low[part], high[part], 1, 3, 5, 7));
        if (!lower) sum = wasm_i32x4_shl(sum, 4);
        wasm_v128_store(out + part * PARTS, wasm_i32x4_add(sum, wasm_i32x4_splat((int32_t)offset)));
    }
}

static void multiply8_wasm(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        size_t start = (size_t)block * w->stride;
        multiply_block_wasm(w->upper + start, w->lower + start, w->lines, x->values, 0, out + block * RHEO_ROWS);
    }
}

/* The halves stand for 16 · upper - 120. */
static void multiply4_wasm(const rheo_planes *w, const rheo_vector8 *x, int32_t *out) {
    for (int32_t block = 0; block < w->blocks; block++) {
        multiply_block_wasm(w->upper + (size_t)block * w->stride, NULL, w->lines, x->values, offset_of(x, OFFSET4),
                            out + block * RHEO_ROWS);
    }
}

static const rheo_kernels WASM = {"wasm-simd",      is_always,      multiply8_wasm, multiply4_wasm,
                                  multiply32_plain, quantize_plain, rescale_plain,  add_plain,
                                  pool_plain,       largest_plain,  sum_exp_plain};
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
