/* Rheostat: next-word prediction with a power knob.
 *
 * One model file serves every operating point from 100 % of its cost downwards. The filters of each layer are sorted by
 * importance, so a position of the knob is one width per layer: a loop bound. The bits of the weights are bounds too:
 * the more important filters may be read in 8 bits and the others in 4, from the same file. Turning the knob builds
 * nothing, copies nothing and allocates nothing.
 *
 *     rheo_open        a model from the bytes of its file
 *     rheo_position_*  a position of the knob
 *     rheo_start, rheo_step, rheo_steps
 *                      read words: state in, state out
 *     rheo_predict     how probable every next word is
 *     rheo_best        the k most probable ones: all, those a mask allows, those with a prefix, those of a list
 *     rheo_typed_best  the words that best explain what was typed, slips included
 *     rheo_use_workers products on several threads, for large models
 *
 * The caller owns all memory. The rheo_…_bytes functions say how much is needed; it begins at a multiple of
 * RHEO_ALIGNMENT. Nothing here allocates, opens files, keeps globals or calls the C library beyond the mem… and str…
 * functions that every compiler supplies (on AArch64 Linux also getauxval, which tells what the processor can do). A
 * model never changes after rheo_open, so any number of threads may use it, each with a state, an answer and a scratch
 * of its own. An answer is changed by looking into it: its clusters are opened when they are needed.
 *
 * The same model gives the same bits on every processor: products are exact in integers, tanh, sigmoid, exp and log are
 * polynomials of our own, float additions have a fixed order and are never contracted. Compile all files with
 * -ffp-contract=off and without -ffast-math and its parts; rheo_open refuses a build whose kernels.c contracts, puts
 * additions in another order or divides by multiplying.
 *
 * Every function that can fail returns a rheo_status, and writes one line of text into the rheo_error, if one is given
 * (NULL is fine).
 */
#ifndef RHEOSTAT_H
#define RHEOSTAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RHEO_API
#define RHEO_API
#endif

#define RHEO_MAX_LAYERS 16
#define RHEO_MAX_CLUSTERS 64   /* the head and the tails of an adaptive softmax */
#define RHEO_MAX_WINDOW 16
#define RHEO_MAX_CACHE 1024    /* words of a cache */
#define RHEO_MAX_ORDER 4       /* words of the longest n-grams in a file */
#define RHEO_MAX_BEST 1024     /* words that rheo_best gives at once */
#define RHEO_ALIGNMENT 16      /* of workspace, state, answer and scratch: what malloc gives */

typedef enum rheo_status {
    RHEO_OK = 0,
    RHEO_BAD_FILE,     /* the bytes are not a model file that this library can run */
    RHEO_BAD_ARGUMENT, /* a word, a position, a size or a name that the model does not have */
    RHEO_NO_ROOM,      /* the memory that was given is too small or not aligned */
    RHEO_BAD_BUILD,    /* compiled with float options that change the bits: see above */
    RHEO_NO_THREADS    /* the system starts no more threads (pool.h) */
} rheo_status;

typedef struct rheo_error {
    char text[256]; /* one line, ends with 0 */
} rheo_error;

/* The sizes of a model. A plain softmax has one cluster; cluster_start has one entry more than there are clusters. */
typedef struct rheo_config {
    int32_t vocabulary_size;
    int32_t embedding_size;
    int32_t layers;
    int32_t hidden_sizes[RHEO_MAX_LAYERS];
    int32_t windows[RHEO_MAX_LAYERS];
    int32_t clusters;
    int32_t cluster_start[RHEO_MAX_CLUSTERS + 1];
    int32_t positions; /* of the file's path; 0 where it has none */
    int32_t is_int8;   /* 1: weights in 8 bits, or 4; 0: float32 */
    int32_t bits;      /* of a weight: 8, 4 (a file without lower planes) or 32 */
    int32_t counts;    /* words of the longest n-grams of the file; 0 where it has none */
} rheo_config;

/* A position of the knob: how many filters of each layer are used, and in how many bits. Of layer l, the weights of the
 * filters before bounds[l] are read in 8 bits and those of the others in 4; bounds[layers] is such a bound for the words
 * of the output layer, and a word's input row is read in the bits of its output row. A bound is a multiple of 16, or at
 * least as large as the layer (the vocabulary): then all are read in 8 bits. A file of 4 bits is always read in 4, one
 * of float32 never; bounds must be of this form all the same. */
typedef struct rheo_position {
    int32_t widths[RHEO_MAX_LAYERS];
    int32_t bounds[RHEO_MAX_LAYERS + 1];
    float cost; /* share of the whole model's cost; filled in by the rheo_position_… functions */
    int32_t without_counts; /* 1: the network alone */
} rheo_position;

typedef struct rheo_model rheo_model;     /* lives in the workspace */
typedef struct rheo_state rheo_state;     /* what was read so far: a plain value, copied with memcpy */
typedef struct rheo_answer rheo_answer;   /* how probable every next word is: a plain value too */
typedef struct rheo_cache rheo_cache;     /* the last words written, and what they followed: a plain value */
typedef struct rheo_scratch rheo_scratch; /* room for one call; nothing in it outlives the call */

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* How much workspace a model needs. Reads the header of the file and its vocabulary's length. */
RHEO_API rheo_status rheo_workspace_bytes(const void *file, size_t file_bytes, size_t *needed, rheo_error *error);

/* Open a model from the bytes of an ordered model file (int8 or float32), which begin at a multiple of RHEO_ALIGNMENT
 * and must stay where they are and unchanged as long as the model is used. Checks the whole structure, and that every float is finite.
 * kernel: NULL for the fastest one of this processor, or the name of one (rheo_kernel_name). */
RHEO_API rheo_status rheo_open(rheo_model **model, const void *file, size_t file_bytes, void *workspace,
                               size_t workspace_bytes, const char *kernel, rheo_error *error);

RHEO_API const rheo_config *rheo_config_of(const rheo_model *model);
RHEO_API const char *rheo_kernel_of(const rheo_model *model);

/* The kernels of this build that this processor can run, fastest first; NULL after the last. */
RHEO_API const char *rheo_kernel_name(int32_t number);

/* Threads that compute large products together: rheo_pool of pool.h, or an app's own threads. `run` calls work(job,
 * share) once for each share from 0 to shares - 1, in any order and on any threads, and returns when all are done.
 * Several threads may call `run` at once. */
typedef struct rheo_workers {
    int32_t threads; /* the most that take part, including the one that calls `run` */
    void *pool;
    void (*run)(void *pool, void (*work)(void *job, int32_t share), void *job, int32_t shares);
} rheo_workers;

/* Split the model's products among workers, in blocks of 16 rows; NULL: each call runs on the thread that makes it, as
 * after rheo_open. The bits are the same. No call may be using the model meanwhile. */
RHEO_API void rheo_use_workers(rheo_model *model, const rheo_workers *workers);

/* --- words -------------------------------------------------------------------------------------------------------- */

/* The UTF-8 bytes of a word, not ended with 0. NULL for an id that the model does not have. */
RHEO_API const char *rheo_word(const rheo_model *model, int32_t id, int32_t *length);

/* The id of a word; -1 if the model does not have it. */
RHEO_API int32_t rheo_find_word(const rheo_model *model, const char *word, size_t length);

/* Special words; every model has both. */
RHEO_API int32_t rheo_unknown_id(const rheo_model *model);
RHEO_API int32_t rheo_end_id(const rheo_model *model);

/* --- the knob ----------------------------------------------------------------------------------------------------- */

/* The full model. */
RHEO_API void rheo_position_full(const rheo_model *model, rheo_position *position);

/* Position number `number` of the file's path; 0 is the most expensive one. */
RHEO_API rheo_status rheo_position_at(const rheo_model *model, int32_t number, rheo_position *position,
                                      rheo_error *error);

/* The largest position of the path that costs no more than `share` (above 0, at most 1) of the full model. */
RHEO_API rheo_status rheo_position_near(const rheo_model *model, float share, rheo_position *position,
                                        rheo_error *error);

/* --- reading words ------------------------------------------------------------------------------------------------ */

RHEO_API size_t rheo_state_bytes(const rheo_model *model);
RHEO_API size_t rheo_answer_bytes(const rheo_model *model);
RHEO_API size_t rheo_scratch_bytes(const rheo_model *model);
RHEO_API size_t rheo_evaluation_bytes(const rheo_model *model); /* of the scratch of rheo_evaluate */

/* The state before the text starts. */
RHEO_API void rheo_start(const rheo_model *model, rheo_state *state);

/* Read one word. */
RHEO_API rheo_status rheo_step(const rheo_model *model, const rheo_position *position, rheo_state *state, int32_t word,
                               rheo_scratch *scratch, rheo_error *error);

/* Read many words: the same bits as one by one, and the weights are read once per block of words. */
RHEO_API rheo_status rheo_steps(const rheo_model *model, const rheo_position *position, rheo_state *state,
                                const int32_t *words, size_t count, rheo_scratch *scratch, rheo_error *error);

/* Read words[0 … count-1]; for each, how probable the word after it was, words[1 … count]: its log-probability, and how
 * many words were more probable. This is what evaluation needs, without an array of the vocabulary's size. */
RHEO_API rheo_status rheo_evaluate(const rheo_model *model, const rheo_position *position, rheo_state *state,
                                   const int32_t *words, size_t count, float *log_probabilities, int32_t *ranks,
                                   rheo_scratch *scratch, rheo_error *error);

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* How probable every next word is. Of an adaptive softmax only the head is computed; rheo_best opens clusters when they
 * can matter, and each once. */
RHEO_API rheo_status rheo_predict(const rheo_model *model, const rheo_position *position, const rheo_state *state,
                                  rheo_answer *answer, rheo_error *error);

/* --- the cache: words written lately become more probable ---------------------------------------------------------- */

/* The bytes of a cache of `words` words (1 to RHEO_MAX_CACHE). It lives in memory only. */
RHEO_API size_t rheo_cache_bytes(const rheo_model *model, int32_t words);

/* An empty cache. Needs a plain softmax. */
RHEO_API rheo_status rheo_cache_start(const rheo_model *model, rheo_cache *cache, int32_t words, rheo_error *error);

/* Remember that `word` followed the text of `state`: call it before rheo_step reads that word. A cache that was written
 * at a position with another last width is emptied first. */
RHEO_API rheo_status rheo_cache_add(const rheo_model *model, const rheo_position *position, rheo_cache *cache,
                                    const rheo_state *state, int32_t word, rheo_error *error);

/* Mix the cache into the answer that rheo_predict gave for `state`: (1 - a) p + a p_cache, where a is the weight times the
 * share of the cache that is filled. sharpness: how much a similar h counts. A cache belongs to one position: after
 * turning the knob, read the text again. */
RHEO_API rheo_status rheo_cache_mix(const rheo_model *model, const rheo_position *position, rheo_cache *cache,
                                    const rheo_state *state, float weight, float sharpness, rheo_answer *answer,
                                    rheo_error *error);

/* Which words may be chosen. Leave everything 0 for all words. */
typedef struct rheo_choice {
    const uint8_t *mask;       /* [vocabulary_size] 0 = never; or NULL */
    const char *prefix;        /* only words that begin with these bytes; or NULL */
    size_t prefix_length;
    const int32_t *candidates; /* only these words, each once; or NULL. Not together with a prefix. */
    size_t candidate_count;
} rheo_choice;

/* The k most probable words, best first; of equally probable ones the smaller id first. *found may be less than k. */
RHEO_API rheo_status rheo_best(const rheo_model *model, rheo_answer *answer, const rheo_choice *choice, int32_t k,
                               int32_t *words, float *log_probabilities, int32_t *found, rheo_error *error);

/* The log-probability of every word [vocabulary_size]; opens every cluster. */
RHEO_API rheo_status rheo_log_probabilities(const rheo_model *model, rheo_answer *answer, float *log_probabilities,
                                            rheo_error *error);

/* One query in one call: read a word into the state `before`, giving `after` (which may be the same), predict, and find
 * the k best words; k = 0 finds none, and *found is 0. The same bits as rheo_step, rheo_predict and rheo_best. */
RHEO_API rheo_status rheo_query(const rheo_model *model, const rheo_position *position, const rheo_state *before,
                                int32_t word, rheo_state *after, rheo_answer *answer, const rheo_choice *choice,
                                int32_t k, int32_t *words, float *log_probabilities, int32_t *found,
                                rheo_scratch *scratch, rheo_error *error);

/* What the last query executed: multiplications of the layers, and of the output layer as far as it was opened. */
RHEO_API int64_t rheo_executed(const rheo_model *model, const rheo_answer *answer);

/* --- typing with slips -------------------------------------------------------------------------------------------- */

#define RHEO_MAX_TYPED 64     /* letters of a word that is being typed */
#define RHEO_MAX_KEYS 64      /* of a keyboard */
#define RHEO_MAX_EXPLAINED 64 /* words that rheo_typed_best gives at once */

/* A key: its letter (ASCII, or a small letter from U+00DF to U+00FF), and its centre in key widths, y downwards. */
typedef struct rheo_key {
    uint32_t letter;
    float x, y;
} rheo_key;

/* What each kind of slip costs: -log p, in nats. A letter typed right costs nothing. */
typedef struct rheo_prices {
    float neighbour;         /* the key at a distance of one */
    float distance;          /* more for each squared key width beyond that */
    float far;               /* any other key: no letter costs more than this */
    float missed;            /* a letter that was not typed */
    float missed_double;     /* the second one of a double letter */
    float missed_apostrophe;
    float extra;             /* a letter too many */
    float doubled;           /* the same letter typed again */
    float swapped;           /* two letters the wrong way round */
    float spread;            /* of taps around the centre of a key: a standard deviation in key widths */
} rheo_prices;

typedef struct rheo_typing rheo_typing; /* the words that may be suggested, in a sorted tree */
typedef struct rheo_typed rheo_typed;   /* what is being typed after one text */

/* Keys with their prices, filled in by rheo_typing_set_keys: a plain value; do not change its fields. A word that is
 * being typed keeps the keys it was begun with: other keys need a channel of their own. */
typedef struct rheo_channel {
    int32_t count;
    float precision;
    int32_t far, missed, missed_double, missed_apostrophe, extra, doubled, swapped;
    uint8_t key_of[256];
    rheo_key keys[RHEO_MAX_KEYS];
    int32_t price[RHEO_MAX_KEYS][RHEO_MAX_KEYS];
} rheo_channel;

RHEO_API rheo_status rheo_typing_set_keys(rheo_channel *channel, const rheo_key *keys, int32_t count,
                                          const rheo_prices *prices, rheo_error *error);

/* How much memory a tree of `count` words needs; forms_bytes: of all of them with a newline between two. */
RHEO_API size_t rheo_typing_bytes(int32_t count, size_t forms_bytes);

/* Make the tree. forms: the words as they are compared with what is typed (in lower case), one per line. ids: of these
 * words, below `vocabulary`; NULL if the lines are the whole vocabulary. Sorted forms are faster. Only `memory` has to
 * stay where it is. The tree never changes, so any number of threads may use it. */
RHEO_API rheo_status rheo_typing_open(rheo_typing **typing, const char *forms, size_t forms_bytes, const int32_t *ids,
                                      int32_t count, int32_t vocabulary, void *memory, size_t memory_bytes,
                                      rheo_error *error);

/* Begin to type a word after a text: once per text, before its first letter. Either with the log-probability of every
 * word, which is copied, or with an answer: then closed clusters stay closed until they matter. */
RHEO_API size_t rheo_typed_bytes(const rheo_typing *typing);
RHEO_API rheo_status rheo_typed_open(rheo_typed **typed, const rheo_typing *typing, const float *log_probabilities,
                                     void *memory, size_t memory_bytes, rheo_error *error);
RHEO_API rheo_status rheo_typed_open_answer(rheo_typed **typed, const rheo_typing *typing, const rheo_model *model,
                                            rheo_answer *answer, void *memory, size_t memory_bytes, rheo_error *error);

/* The letters of the word so far, in lower case. taps: where the finger came down for each, x and y in the unit of the
 * keys (NaN for a letter without one); or NULL. is_whole: the word ends here; otherwise its end may still be missing. */
typedef struct rheo_keystrokes {
    const char *text;
    size_t length; /* bytes */
    const float *taps;
    size_t tap_count;
    int32_t is_whole;
} rheo_keystrokes;

/* A word that explains what was typed: log p of the word after the text, and what the slips cost. */
typedef struct rheo_explained {
    int32_t word;
    float log_probability;
    float cost;
} rheo_explained;

/* log p of any word after the text; of a cluster that is closed, a bound. */
RHEO_API float rheo_typed_log_probability(const rheo_typed *typed, int32_t word);

/* The k words that explain the letters best: by log_probability - cost, best first. Each further letter takes work for
 * that letter alone. model and answer: those of rheo_typed_open_answer; NULL after rheo_typed_open. */
RHEO_API rheo_status rheo_typed_best(rheo_typed *typed, const rheo_channel *channel, const rheo_keystrokes *keystrokes,
                                     const rheo_model *model, rheo_answer *answer, int32_t k, rheo_explained *found,
                                     int32_t *count, rheo_error *error);

#ifdef __cplusplus
}
#endif
#endif
