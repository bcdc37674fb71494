/* Typing with slips: the words that best explain what was typed, by p(word | context) · p(typed | word).
 *
 * The words that may be suggested form a sorted tree of letters. A walk follows what was typed, one letter after
 * another. Each level holds the nodes that the letters so far may have led to, with the cost of the slips on the way:
 *
 *     from (node, i), cost c      to               cost
 *     the letter, or another key  (child, i + 1)   c + price of typed[i] for the child's letter
 *     a missed letter             (child, i)       c + missed, less for a doubled letter or an apostrophe
 *     an extra letter             (node, i + 1)    c + extra, less where it doubles the letter before
 *     two letters swapped         (grandchild, i + 2), where typed[i] and typed[i + 1] are the other way round
 *
 * A level keeps its most promising nodes: those whose best word, less the cost so far, scores highest. Level i depends
 * on the first i letters alone, so one more letter costs one more level, and a deleted one costs nothing.
 *
 * Scores and costs are whole numbers, in parts of a nat. So every processor finds the same words. */

#include "core.h"

#include <string.h>

enum {
    UNIT = 16384,          /* of scores and costs, per nat */
    LEAST = -(1 << 28),    /* below any score */
    NEVER = 1 << 26,       /* a cost above that of any slip */
    BEAM = 96,             /* nodes that a level keeps */
    CANDIDATES = 2048,     /* for the places on a level; what comes later than that is dropped */
    SLOTS = 4096,          /* of the table that finds a candidate; a power of two above CANDIDATES */
    BUCKETS = 1024,        /* by score, to find the best of a level */
    BUCKET = UNIT / 32,    /* how far scores of one bucket are apart */
    WINDOW = 16 * UNIT,    /* a node that is this much worse than the best one of its level is dropped */
    CHUNK = 32,            /* words whose best score is looked at together */
    NO_KEY = 255,
    FIRST_LATIN = 0x9f     /* second byte of ß; letters from there to ÿ become one byte, so each is one letter */
};

/* --- the tree ----------------------------------------------------------------------------------------------------- */

/* The words are sorted by their letters, so each node is a range of them. Only nodes of two words or more are stored; a
 * target below zero is ~place of a single word. */
typedef struct node {
    int32_t first, last; /* places of its words */
    int32_t edge;        /* its first edge */
    int16_t edges;
    int16_t depth;
} node;

struct rheo_typing {
    int32_t words;       /* in the tree */
    int32_t vocabulary;  /* ids are below this */
    int32_t nodes;
    int32_t *ids;        /* [words] by place */
    uint32_t *start;     /* [words + 1] of a word's letters */
    uint8_t *letters;
    node *tree;
    uint8_t *edge_letter;
    int32_t *edge_target;
};

typedef struct sizes {
    size_t words, letters, nodes, edges, bytes;
} sizes;

static sizes sizes_of(int32_t count, size_t forms_bytes) {
    sizes found;
    found.words = (size_t)count;
    found.letters = forms_bytes;
    found.nodes = forms_bytes / 2 + 1; /* each is a prefix that two words share */
    found.edges = found.nodes + found.words;
    found.bytes = rheo_lines(sizeof(rheo_typing)) + rheo_lines(found.words * sizeof(int32_t)) +
                  rheo_lines((found.words + 1) * sizeof(uint32_t)) + rheo_lines(found.letters) +
                  rheo_lines(found.nodes * sizeof(node)) + rheo_lines(found.edges) +
                  rheo_lines(found.edges * sizeof(int32_t));
    return found;
}

static void *cut_off(char **at, size_t bytes) {
    void *part = *at;
    *at += rheo_lines(bytes);
    return part;
}

/* Letters as the tree holds them: small, and one byte each up to ÿ. Returns how many bytes were written, at most `count`. */
static size_t recode(const char *text, size_t count, uint8_t *letters) {
    size_t used = 0;
    for (size_t place = 0; place < count; place++) {
        uint8_t letter = (uint8_t)text[place];
        if (letter >= 'A' && letter <= 'Z') letter = (uint8_t)(letter + ('a' - 'A'));
        if (letter == 0xc3 && place + 1 < count && (uint8_t)text[place + 1] >= FIRST_LATIN) {
            letter = (uint8_t)((uint8_t)text[++place] - FIRST_LATIN + 0x80);
        }
        letters[used++] = letter;
    }
    return used;
}

/* The letter of a key in the same code; 0 for one that has none. */
static uint8_t code_of(uint32_t letter) {
    if (letter < 0x80) return (uint8_t)(letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter);
    return letter >= 0xdf && letter <= 0xff ? (uint8_t)(letter - 0xdf + 0x80) : 0;
}

static int32_t length_of(const rheo_typing *typing, int32_t place) {
    return (int32_t)(typing->start[place + 1] - typing->start[place]);
}

/* Words while they are sorted: where their letters begin and end. */
typedef struct entry {
    uint32_t first, last;
    int32_t id;
} entry;

static int compare_entries(const uint8_t *letters, entry left, entry right) {
    size_t one = left.last - left.first, other = right.last - right.first, shorter = one < other ? one : other;
    int difference = memcmp(letters + left.first, letters + right.first, shorter);
    if (difference) return difference;
    if (one != other) return one < other ? -1 : 1;
    return left.id < right.id ? -1 : 1;
}

/* Heap sort: entries are sorted where they are, and no input makes it slow. */
static void sift(const uint8_t *letters, entry *entries, size_t place, size_t count) {
    entry moved = entries[place];
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= count) break;
        if (child + 1 < count && compare_entries(letters, entries[child], entries[child + 1]) < 0) child++;
        if (compare_entries(letters, moved, entries[child]) >= 0) break;
        entries[place] = entries[child];
        place = child;
    }
    entries[place] = moved;
}

static void sort_entries(const uint8_t *letters, entry *entries, size_t count) {
    size_t ordered = 1;
    while (ordered < count && compare_entries(letters, entries[ordered - 1], entries[ordered]) < 0) ordered++;
    if (ordered >= count) return;
    for (size_t place = count / 2; place-- > 0;) sift(letters, entries, place, count);
    for (size_t last = count - 1; last > 0; last--) {
        entry largest = entries[0];
        entries[0] = entries[last];
        entries[last] = largest;
        sift(letters, entries, 0, last);
    }
}

static int32_t add_node(rheo_typing *typing, int32_t first, int32_t last, int32_t depth) {
    node *added = typing->tree + typing->nodes;
    added->first = first;
    added->last = last;
    added->depth = (int16_t)depth;
    added->edges = 0;
    return typing->nodes++;
}

/* Nodes level by level: the children of one node are edges in a row. */
static void grow(rheo_typing *typing) {
    int32_t edges = 0;
    typing->nodes = 0;
    add_node(typing, 0, typing->words, 0);
    for (int32_t number = 0; number < typing->nodes; number++) {
        node *parent = typing->tree + number;
        int32_t place = parent->first, depth = parent->depth, last = parent->last;
        parent->edge = edges;
        while (place < last && length_of(typing, place) == depth) place++; /* these words end here */
        while (place < last) {
            uint8_t letter = typing->letters[typing->start[place] + (uint32_t)depth];
            int32_t first = place;
            do place++;
            while (place < last && typing->letters[typing->start[place] + (uint32_t)depth] == letter);
            typing->edge_letter[edges] = letter;
            typing->edge_target[edges++] = place - first == 1 ? ~first : add_node(typing, first, place, depth + 1);
        }
        typing->tree[number].edges = (int16_t)(edges - typing->tree[number].edge);
    }
}

size_t rheo_typing_bytes(int32_t count, size_t forms_bytes) {
    sizes needed = sizes_of(count < 0 ? 0 : count, forms_bytes);
    return needed.bytes + rheo_lines(needed.words * sizeof(entry)) + rheo_lines(needed.letters);
}

rheo_status rheo_typing_open(rheo_typing **opened, const char *forms, size_t forms_bytes, const int32_t *ids,
                             int32_t count, int32_t vocabulary, void *memory, size_t memory_bytes, rheo_error *error) {
    sizes needed = sizes_of(count < 0 ? 0 : count, forms_bytes);
    if (count < 1 || !forms || vocabulary < 1 || forms_bytes > 0x7fffffff) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "a tree of words needs at least one word", NULL);
    }
    if (!memory || (uintptr_t)memory % RHEO_ALIGNMENT || memory_bytes < rheo_typing_bytes(count, forms_bytes)) {
        return rheo_fail(error, RHEO_NO_ROOM, "the memory is too small or not aligned to 16 bytes", NULL);
    }
    char *at = memory;
    rheo_typing *typing = cut_off(&at, sizeof *typing);
    typing->ids = cut_off(&at, needed.words * sizeof(int32_t));
    typing->start = cut_off(&at, (needed.words + 1) * sizeof(uint32_t));
    typing->letters = cut_off(&at, needed.letters);
    typing->tree = cut_off(&at, needed.nodes * sizeof(node));
    typing->edge_letter = cut_off(&at, needed.edges);
    typing->edge_target = cut_off(&at, needed.edges * sizeof(int32_t));
    entry *entries = cut_off(&at, needed.words * sizeof(entry));
    uint8_t *letters = cut_off(&at, needed.letters);
    size_t used = 0, begin = 0;
    int32_t found = 0;
    for (size_t place = 0; place <= forms_bytes; place++) {
        if (place < forms_bytes && forms[place] != '\n') continue;
        if (place == forms_bytes && place == begin && found == count) break; /* a newline may follow the last word */
        int32_t id = found < count ? (ids ? ids[found] : found) : -1;
        size_t length = place - begin;
        if (id < 0 || id >= vocabulary || !length || length > INT16_MAX) {
            return rheo_fail(error, RHEO_BAD_ARGUMENT, "the forms are not one word per line with an id each", NULL);
        }
        entries[found].first = (uint32_t)used;
        used += recode(forms + begin, length, letters + used);
        entries[found].last = (uint32_t)used;
        entries[found++].id = id;
        begin = place + 1;
    }
    if (found != count) return rheo_fail(error, RHEO_BAD_ARGUMENT, "there are fewer forms than words", NULL);
    sort_entries(letters, entries, needed.words);
    typing->words = count;
    typing->vocabulary = vocabulary;
    typing->start[0] = 0;
    for (int32_t place = 0; place < count; place++) {
        entry word = entries[place];
        memcpy(typing->letters + typing->start[place], letters + word.first, word.last - word.first);
        typing->start[place + 1] = typing->start[place] + (word.last - word.first);
        typing->ids[place] = word.id;
    }
    grow(typing);
    *opened = typing;
    return RHEO_OK;
}

/* --- keys and prices ---------------------------------------------------------------------------------------------- */

static int32_t whole_price(float nats) {
    if (!(nats > 0.0f)) return 0;
    return nats < 4000.0f ? (int32_t)(nats * (float)UNIT + 0.5f) : NEVER;
}

static float squared_distance(const rheo_key *key, float x, float y) {
    float across = key->x - x, down = key->y - y;
    float squared = across * across;
    return squared + down * down;
}

rheo_status rheo_typing_set_keys(rheo_channel *channel, const rheo_key *keys, int32_t count, const rheo_prices *prices,
                                 rheo_error *error) {
    if (!keys || count < 1 || count > RHEO_MAX_KEYS || !prices || !(prices->spread > 0.0f)) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "expected 1 to 64 keys, and prices with a spread above 0", NULL);
    }
    memset(channel, 0, sizeof *channel);
    memset(channel->key_of, NO_KEY, sizeof channel->key_of);
    for (int32_t key = 0; key < count; key++) {
        uint8_t letter = code_of(keys[key].letter);
        if (!letter || channel->key_of[letter] != NO_KEY) {
            return rheo_fail(error, RHEO_BAD_ARGUMENT, "a key has no letter that it could have, or another has the same", NULL);
        }
        channel->key_of[letter] = (uint8_t)key;
        channel->keys[key] = keys[key];
    }
    channel->count = count;
    channel->precision = 1.0f / (2.0f * (prices->spread * prices->spread));
    channel->far = whole_price(prices->far);
    channel->missed = whole_price(prices->missed);
    channel->missed_double = whole_price(prices->missed_double);
    channel->missed_apostrophe = whole_price(prices->missed_apostrophe);
    channel->extra = whole_price(prices->extra);
    channel->doubled = whole_price(prices->doubled);
    channel->swapped = whole_price(prices->swapped);
    for (int32_t hit = 0; hit < count; hit++) {
        for (int32_t meant = 0; meant < count; meant++) {
            /* A key next to the right one is at a distance of 1 to 1.3 keys; the price grows with the distance. */
            float squared = squared_distance(keys + meant, keys[hit].x, keys[hit].y);
            float nats = prices->neighbour + prices->distance * (squared - 1.0f);
            int32_t price = whole_price(nats < prices->far ? nats : prices->far);
            channel->price[hit][meant] = hit == meant ? 0 : price;
        }
    }
    return RHEO_OK;
}

/* --- what was typed ----------------------------------------------------------------------------------------------- */

/* A node that the letters so far may have led to. */
typedef struct reached {
    int32_t target; /* a node; or ~place of a single word */
    int32_t depth;  /* letters of the word so far */
    int32_t cost;
    int32_t bound;  /* best score of its words, less the cost */
} reached;

typedef struct level {
    int32_t count;      /* -1: not computed */
    int32_t with_missed; /* how many there are once letters may have been missed; -1: not computed */
    reached at[BEAM];
    reached missed[BEAM]; /* the same with missed letters; what the next level starts from */
} level;

typedef struct tap {
    uint8_t letter;
    uint8_t is_position;
    float x, y;
} tap;

/* Scores of all words after a text, and the levels of the word that is being typed there. */
struct rheo_typed {
    const rheo_typing *typing;
    const rheo_channel *channel;
    float *log_probabilities;  /* [vocabulary] */
    int32_t *scores;           /* [words] by place */
    int32_t *best;             /* [nodes] of its words; LEAST - 1: not computed */
    level *levels;             /* [RHEO_MAX_TYPED + 1] */
    reached *candidates;       /* [CANDIDATES] */
    int16_t *slots;            /* [SLOTS] candidate + 1; 0: free */
    int32_t known;             /* levels that are computed */
    int32_t count;             /* letters of the last word that was typed */
    tap typed[RHEO_MAX_TYPED];
    int32_t row[RHEO_MAX_TYPED][RHEO_MAX_KEYS]; /* prices of the keys for each of them */
    int32_t nearest[RHEO_MAX_TYPED];            /* the lowest price of another letter for each of them */
};

size_t rheo_typed_bytes(const rheo_typing *typing) {
    return rheo_lines(sizeof(rheo_typed)) + rheo_lines((size_t)typing->vocabulary * sizeof(float)) +
           rheo_lines((size_t)typing->words * sizeof(int32_t)) + rheo_lines((size_t)typing->nodes * sizeof(int32_t)) +
           rheo_lines((RHEO_MAX_TYPED + 1) * sizeof(level)) + rheo_lines(CANDIDATES * sizeof(reached)) +
           rheo_lines(SLOTS * sizeof(int16_t));
}

static int32_t as_score(float log_probability) {
    if (!(log_probability > -4000.0f)) return LEAST / 2;
    return log_probability < 4000.0f ? (int32_t)(log_probability * (float)UNIT) : 4000 * UNIT; /* more than any score */
}

static void take_scores(rheo_typed *typed) {
    const rheo_typing *typing = typed->typing;
    for (int32_t place = 0; place < typing->words; place++) {
        typed->scores[place] = as_score(typed->log_probabilities[typing->ids[place]]);
    }
    for (int32_t number = 0; number < typing->nodes; number++) typed->best[number] = LEAST - 1;
    typed->known = 0;
}

static rheo_typed *begin_typed(const rheo_typing *typing, void *memory, size_t memory_bytes) {
    if (!memory || (uintptr_t)memory % RHEO_ALIGNMENT || memory_bytes < rheo_typed_bytes(typing)) return NULL;
    char *at = memory;
    rheo_typed *typed = cut_off(&at, sizeof *typed);
    typed->typing = typing;
    typed->channel = NULL;
    typed->count = 0;
    typed->log_probabilities = cut_off(&at, (size_t)typing->vocabulary * sizeof(float));
    typed->scores = cut_off(&at, (size_t)typing->words * sizeof(int32_t));
    typed->best = cut_off(&at, (size_t)typing->nodes * sizeof(int32_t));
    typed->levels = cut_off(&at, (RHEO_MAX_TYPED + 1) * sizeof(level));
    typed->candidates = cut_off(&at, CANDIDATES * sizeof(reached));
    typed->slots = cut_off(&at, SLOTS * sizeof(int16_t));
    return typed;
}

rheo_status rheo_typed_open(rheo_typed **opened, const rheo_typing *typing, const float *log_probabilities, void *memory,
                            size_t memory_bytes, rheo_error *error) {
    rheo_typed *typed = begin_typed(typing, memory, memory_bytes);
    if (!typed) return rheo_fail(error, RHEO_NO_ROOM, "the memory is too small or not aligned to 16 bytes", NULL);
    memcpy(typed->log_probabilities, log_probabilities, (size_t)typing->vocabulary * sizeof(float));
    take_scores(typed);
    *opened = typed;
    return RHEO_OK;
}

rheo_status rheo_typed_open_answer(rheo_typed **opened, const rheo_typing *typing, const rheo_model *model,
                                   rheo_answer *answer, void *memory, size_t memory_bytes, rheo_error *error) {
    if (typing->vocabulary != model->config.vocabulary_size) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "the tree of words belongs to another vocabulary", NULL);
    }
    rheo_typed *typed = begin_typed(typing, memory, memory_bytes);
    if (!typed) return rheo_fail(error, RHEO_NO_ROOM, "the memory is too small or not aligned to 16 bytes", NULL);
    for (int32_t cluster = 0; cluster < model->config.clusters; cluster++) {
        rheo_bound_cluster(model, answer, cluster, typed->log_probabilities);
    }
    take_scores(typed);
    *opened = typed;
    return RHEO_OK;
}

float rheo_typed_log_probability(const rheo_typed *typed, int32_t word) {
    return word < 0 || word >= typed->typing->vocabulary ? -1e30f : typed->log_probabilities[word];
}

/* The prices of all keys for one letter that was typed, or one tap. */
static void set_row(rheo_typed *typed, int32_t place) {
    const rheo_channel *channel = typed->channel;
    const tap *here = typed->typed + place;
    int32_t *row = typed->row[place];
    uint8_t hit = channel->key_of[here->letter];
    if (!here->is_position || hit == NO_KEY) {
        for (int32_t key = 0; key < channel->count; key++) {
            row[key] = hit == NO_KEY ? channel->far : channel->price[hit][key];
        }
    } else {
        /* -log of a Gaussian around each key's centre, less that of the key that was hit. */
        float own = squared_distance(channel->keys + hit, here->x, here->y);
        for (int32_t key = 0; key < channel->count; key++) {
            float nats = (squared_distance(channel->keys + key, here->x, here->y) - own) * channel->precision;
            int32_t price = whole_price(nats);
            row[key] = price < channel->far ? price : channel->far;
        }
    }
    int32_t nearest = channel->far;
    for (int32_t key = 0; key < channel->count; key++) nearest = key != hit && row[key] < nearest ? row[key] : nearest;
    typed->nearest[place] = nearest;
}

static int32_t price_of(const rheo_typed *typed, int32_t place, uint8_t letter) {
    if (letter == typed->typed[place].letter) return 0;
    uint8_t key = typed->channel->key_of[letter];
    return key == NO_KEY ? typed->channel->far : typed->row[place][key];
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

static int32_t best_of_range(const int32_t *scores, int32_t first, int32_t last) {
    int32_t best = LEAST;
    for (int32_t place = first; place < last; place++) best = scores[place] > best ? scores[place] : best;
    return best;
}

static int32_t best_of(rheo_typed *typed, int32_t target) {
    if (target < 0) return typed->scores[~target];
    if (typed->best[target] < LEAST) {
        const node *of = typed->typing->tree + target;
        typed->best[target] = best_of_range(typed->scores, of->first, of->last);
    }
    return typed->best[target];
}

/* Candidates for a level. `least` is the bound below which none can get a place: too far from the best one, or there are
 * BEAM better ones already, those in the buckets before `cut`. Most nodes are turned away by it before they are looked at,
 * since no child is better than its parent. */
typedef struct pool {
    int32_t count, highest, least;
    int32_t top;           /* the best bound of the nodes before; an extra letter costs less than all buckets hold */
    int32_t cut, inside;   /* the first bucket that cannot get a place; candidates in the buckets before it */
    int16_t sizes[BUCKETS];
} pool;

static void begin_pool(rheo_typed *typed, pool *of, const reached *from, int32_t count) {
    memset(typed->slots, 0, SLOTS * sizeof(int16_t));
    memset(of->sizes, 0, sizeof of->sizes);
    of->count = of->inside = 0;
    of->highest = of->least = of->top = LEAST;
    for (int32_t number = 0; number < count; number++) of->top = from[number].bound > of->top ? from[number].bound : of->top;
    of->cut = BUCKETS;
}

static int32_t bucket_of(const pool *of, int32_t bound) {
    if (bound >= of->top) return 0; /* two letters the wrong way round may be better than what came after the first */
    int32_t bucket = (of->top - bound) / BUCKET;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* Count a candidate with this bound; with BEAM better ones, nothing in the last bucket or below is needed. */
static void count_bound(pool *of, int32_t bound) {
    int32_t bucket = bucket_of(of, bound);
    of->sizes[bucket]++;
    if (bucket >= of->cut) return;
    of->inside++;
    while (of->inside - of->sizes[of->cut - 1] >= BEAM) {
        of->inside -= of->sizes[--of->cut];
        int32_t least = of->top - of->cut * BUCKET + 1;
        if (least > of->least) of->least = least;
    }
}

static void discount_bound(pool *of, int32_t bound) {
    int32_t bucket = bucket_of(of, bound);
    of->sizes[bucket]--;
    if (bucket < of->cut) of->inside--;
}

static void put(rheo_typed *typed, pool *into, int32_t target, int32_t depth, int32_t cost) {
    if (cost >= NEVER) return;
    int32_t bound = best_of(typed, target) - cost;
    if (bound < into->least) return;
    uint32_t slot = ((uint32_t)target * 2654435761u ^ (uint32_t)depth * 40503u) >> 7 & (SLOTS - 1);
    for (; typed->slots[slot]; slot = (slot + 1) & (SLOTS - 1)) {
        const reached *same = typed->candidates + typed->slots[slot] - 1;
        if (same->target == target && same->depth == depth) break;
    }
    int32_t place = typed->slots[slot] ? typed->slots[slot] - 1 : into->count;
    if (place == CANDIDATES || (place < into->count && typed->candidates[place].bound >= bound)) return;
    if (place == into->count) typed->slots[slot] = (int16_t)++into->count;
    else discount_bound(into, typed->candidates[place].bound);
    reached *taken = typed->candidates + place;
    taken->target = target;
    taken->depth = depth;
    taken->cost = cost;
    taken->bound = bound;
    if (bound > into->highest) into->highest = bound;
    if (bound - WINDOW > into->least) into->least = bound - WINDOW;
    count_bound(into, bound);
}

/* The BEAM best candidates, in the order in which they came. */
static int32_t keep_best(const rheo_typed *typed, const pool *from, reached *kept) {
    int32_t cutoff = 0, room = BEAM, count = 0;
    while (cutoff < BUCKETS - 1 && from->sizes[cutoff] <= room) room -= from->sizes[cutoff++];
    for (int32_t place = 0; place < from->count && count < BEAM; place++) {
        const reached *one = typed->candidates + place;
        int32_t bucket = bucket_of(from, one->bound);
        if (one->bound < from->least || bucket > cutoff) continue;
        if (bucket == cutoff && room-- <= 0) continue;
        kept[count++] = *one;
    }
    return count;
}

/* The edges of a node, or the one letter that follows in a single word. */
typedef struct edges {
    const uint8_t *letters;
    const int32_t *targets;
    int32_t count;
    int32_t single;
} edges;

static edges edges_of(const rheo_typing *typing, int32_t target, int32_t depth) {
    edges found = {NULL, NULL, 0, target};
    if (target >= 0) {
        const node *of = typing->tree + target;
        found.letters = typing->edge_letter + of->edge;
        found.targets = typing->edge_target + of->edge;
        found.count = of->edges;
    } else if (length_of(typing, ~target) > depth) {
        found.letters = typing->letters + typing->start[~target] + (uint32_t)depth;
        found.targets = NULL;
        found.count = 1;
    }
    return found;
}

static int32_t target_of(const edges *of, int32_t number) { return of->targets ? of->targets[number] : of->single; }

/* The letter that led to a node; 0 for the root. */
static uint8_t letter_before(const rheo_typing *typing, int32_t target, int32_t depth) {
    if (!depth) return 0;
    int32_t place = target < 0 ? ~target : typing->tree[target].first;
    return typing->letters[typing->start[place] + (uint32_t)depth - 1];
}

/* The nodes of a level, and those after one letter that was not typed. */
static void add_missed(rheo_typed *typed, level *at) {
    const rheo_channel *channel = typed->channel;
    pool into;
    begin_pool(typed, &into, at->at, at->count);
    for (int32_t number = 0; number < at->count; number++) {
        const reached *from = at->at + number;
        put(typed, &into, from->target, from->depth, from->cost);
    }
    int32_t cheapest = channel->missed < channel->missed_double ? channel->missed : channel->missed_double;
    for (int32_t number = 0; number < at->count; number++) {
        const reached *from = at->at + number;
        int32_t allowed = from->bound - into.least; /* what a slip may cost here */
        if (channel->missed_apostrophe > allowed && cheapest > allowed) continue;
        edges next = edges_of(typed->typing, from->target, from->depth);
        uint8_t before = letter_before(typed->typing, from->target, from->depth);
        for (int32_t edge = 0; edge < next.count; edge++) {
            uint8_t letter = next.letters[edge];
            if (letter > '\'' && cheapest > allowed) break; /* only an apostrophe, and letters ascend */
            int32_t price = letter == '\'' ? channel->missed_apostrophe
                            : letter == before ? channel->missed_double : channel->missed;
            if (from->bound - price < into.least) continue;
            put(typed, &into, target_of(&next, edge), from->depth + 1, from->cost + price);
        }
    }
    at->with_missed = keep_best(typed, &into, at->missed);
}

/* From the level before the last two letters: both of them, the other way round. */
static void add_swapped(rheo_typed *typed, const level *at, int32_t place, pool *into) {
    uint8_t first = typed->typed[place + 1].letter, second = typed->typed[place].letter;
    if (first == second) return;
    for (int32_t number = 0; number < at->with_missed; number++) {
        const reached *from = at->missed + number;
        if (from->bound - typed->channel->swapped < into->least) continue;
        edges next = edges_of(typed->typing, from->target, from->depth);
        for (int32_t edge = 0; edge < next.count; edge++) {
            if (next.letters[edge] != first) continue;
            int32_t child = target_of(&next, edge);
            edges following = edges_of(typed->typing, child, from->depth + 1);
            for (int32_t last = 0; last < following.count; last++) {
                if (following.letters[last] != second) continue;
                put(typed, into, target_of(&following, last), from->depth + 2, from->cost + typed->channel->swapped);
            }
        }
    }
}

static void add_level(rheo_typed *typed, int32_t place) {
    const rheo_channel *channel = typed->channel;
    level *before = typed->levels + place, *next = before + 1;
    pool into;
    if (before->with_missed < 0) add_missed(typed, before);
    begin_pool(typed, &into, before->missed, before->with_missed);
    /* The letter that was typed first: then it is known what a slip may cost, and most need not be looked at. */
    uint8_t letter = typed->typed[place].letter;
    for (int32_t number = 0; number < before->with_missed; number++) {
        const reached *from = before->missed + number;
        edges next_letters = edges_of(typed->typing, from->target, from->depth);
        int32_t child = 0;
        while (child < next_letters.count && next_letters.letters[child] < letter) child++;
        if (child == next_letters.count || next_letters.letters[child] != letter) continue;
        put(typed, &into, target_of(&next_letters, child), from->depth + 1, from->cost);
    }
    int32_t extra = place && letter == typed->typed[place - 1].letter ? channel->doubled : channel->extra;
    for (int32_t number = 0; number < before->with_missed; number++) {
        const reached *from = before->missed + number;
        if (from->bound - extra >= into.least) put(typed, &into, from->target, from->depth, from->cost + extra);
        if (from->bound - typed->nearest[place] < into.least) continue;
        edges next_letters = edges_of(typed->typing, from->target, from->depth);
        for (int32_t child = 0; child < next_letters.count; child++) {
            if (next_letters.letters[child] == letter) continue;
            int32_t price = price_of(typed, place, next_letters.letters[child]);
            if (from->bound - price < into.least) continue;
            put(typed, &into, target_of(&next_letters, child), from->depth + 1, from->cost + price);
        }
    }
    if (place) add_swapped(typed, before - 1, place - 1, &into);
    next->count = keep_best(typed, &into, next->at);
    next->with_missed = -1;
}

static void start_levels(rheo_typed *typed) {
    level *root = typed->levels;
    root->count = 1;
    root->with_missed = -1;
    root->at[0].target = root->at[0].depth = root->at[0].cost = 0;
    root->at[0].bound = best_of(typed, 0);
    typed->known = 1;
}

/* Take the current letters; the levels of unchanged letters are kept. */
static rheo_status take_letters(rheo_typed *typed, const char *text, size_t length, const float *taps, size_t tap_count,
                                const rheo_channel *channel, rheo_error *error) {
    uint8_t letters[4 * RHEO_MAX_TYPED];
    if (!text || !length || length > sizeof letters || !channel || !channel->count) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "expected 1 to 64 letters, and keys", NULL);
    }
    size_t count = recode(text, length, letters);
    if (count > RHEO_MAX_TYPED || (taps && tap_count != count)) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "expected 1 to 64 letters, and one tap per letter or none", NULL);
    }
    if (typed->channel != channel) typed->known = 0;
    typed->channel = channel;
    if (!typed->known) start_levels(typed);
    int32_t same = 0, least = typed->count < (int32_t)count ? typed->count : (int32_t)count;
    for (int32_t place = 0; place < (int32_t)count; place++) {
        float x = taps ? taps[2 * place] : 0.0f, y = taps ? taps[2 * place + 1] : 0.0f;
        int is_position = taps && x - x == 0.0f && y - y == 0.0f; /* a letter without a tap has NaN */
        tap now = {letters[place], (uint8_t)is_position, is_position ? x : 0.0f, is_position ? y : 0.0f};
        const tap *old = typed->typed + place;
        int is_same = place < least && same == place && place + 1 < typed->known && old->letter == now.letter &&
                      old->is_position == now.is_position && old->x == now.x && old->y == now.y;
        if (is_same) {
            same++;
        } else {
            typed->typed[place] = now;
            set_row(typed, place);
        }
    }
    typed->count = (int32_t)count;
    typed->known = same + 1;
    for (; typed->known <= typed->count; typed->known++) add_level(typed, typed->known - 1);
    return RHEO_OK;
}

/* --- the best words ----------------------------------------------------------------------------------------------- */

typedef struct ranking {
    int32_t *words;
    int32_t *scores;
    int32_t *costs;
    int32_t count, room;
} ranking;

static int32_t least_of(const ranking *best) { return best->count < best->room ? LEAST : best->scores[best->room - 1]; }

static void offer_word(ranking *best, int32_t word, int32_t score, int32_t cost) {
    int32_t place = 0;
    for (; place < best->count && best->words[place] != word; place++) {}
    if (place == best->count) {
        if (best->count < best->room) best->count++;
        else if (score < best->scores[--place] || (score == best->scores[place] && word > best->words[place])) return;
    } else if (best->scores[place] >= score) {
        return;
    }
    for (; place > 0; place--) {
        int32_t above = best->scores[place - 1];
        if (above > score || (above == score && best->words[place - 1] < word)) break;
        best->words[place] = best->words[place - 1];
        best->scores[place] = above;
        best->costs[place] = best->costs[place - 1];
    }
    best->words[place] = word;
    best->scores[place] = score;
    best->costs[place] = cost;
}

static void offer_range(const rheo_typed *typed, int32_t first, int32_t last, int32_t cost, ranking *best) {
    for (int32_t begin = first; begin < last; begin += CHUNK) {
        int32_t end = last - begin < CHUNK ? last : begin + CHUNK;
        if (best_of_range(typed->scores, begin, end) - cost < least_of(best)) continue;
        for (int32_t place = begin; place < end; place++) {
            int32_t score = typed->scores[place] - cost;
            if (score >= least_of(best)) offer_word(best, typed->typing->ids[place], score, cost);
        }
    }
}

/* Words that continue after the letters of a node. */
static void offer_beginnings(rheo_typed *typed, ranking *best) {
    level *last = typed->levels + typed->count;
    uint8_t is_done[BEAM] = {0};
    for (int32_t turn = 0; turn < last->count; turn++) {
        int32_t next = -1; /* the most promising first: then most others need not be looked at */
        for (int32_t number = 0; number < last->count; number++) {
            if (!is_done[number] && (next < 0 || last->at[number].bound > last->at[next].bound)) next = number;
        }
        const reached *from = last->at + next;
        if (from->bound < least_of(best)) return;
        is_done[next] = 1;
        if (from->target < 0) {
            offer_range(typed, ~from->target, ~from->target + 1, from->cost, best);
        } else {
            const node *of = typed->typing->tree + from->target;
            offer_range(typed, of->first, of->last, from->cost, best);
        }
    }
}

/* Words that end with the letters of a node; the last letter may have been missed. */
static void offer_whole(rheo_typed *typed, ranking *best) {
    const rheo_typing *typing = typed->typing;
    level *last = typed->levels + typed->count;
    if (last->with_missed < 0) add_missed(typed, last);
    for (int32_t number = 0; number < last->with_missed; number++) {
        const reached *from = last->missed + number;
        int32_t place = from->target < 0 ? ~from->target : typing->tree[from->target].first;
        int32_t end = from->target < 0 ? place + 1 : typing->tree[from->target].last;
        for (; place < end && length_of(typing, place) == from->depth; place++) {
            offer_word(best, typing->ids[place], typed->scores[place] - from->cost, from->cost);
        }
    }
}

static int32_t cluster_of(const rheo_model *model, int32_t word) {
    int32_t cluster = 0;
    while (word >= model->config.cluster_start[cluster + 1]) cluster++;
    return cluster;
}

/* Open the clusters of the words that were found; whether one was closed, so that these words are not certain. */
static int open_clusters(rheo_typed *typed, const rheo_model *model, rheo_answer *answer, const ranking *best) {
    for (int32_t place = 0; place < best->count; place++) {
        int32_t cluster = cluster_of(model, best->words[place]);
        if (rheo_open_cluster(model, answer, cluster)) {
            rheo_bound_cluster(model, answer, cluster, typed->log_probabilities);
            take_scores(typed);
            return 1;
        }
    }
    return 0;
}

rheo_status rheo_typed_best(rheo_typed *typed, const rheo_channel *channel, const rheo_keystrokes *asked,
                            const rheo_model *model, rheo_answer *answer, int32_t k, rheo_explained *found,
                            int32_t *count, rheo_error *error) {
    int32_t words[RHEO_MAX_EXPLAINED], scores[RHEO_MAX_EXPLAINED], costs[RHEO_MAX_EXPLAINED];
    if (k < 1 || k > RHEO_MAX_EXPLAINED) return rheo_fail(error, RHEO_BAD_ARGUMENT, "k must be 1 to 64", NULL);
    ranking best = {words, scores, costs, 0, k};
    do {
        best.count = 0;
        rheo_status status = take_letters(typed, asked->text, asked->length, asked->taps, asked->tap_count, channel, error);
        if (status) return status;
        if (asked->is_whole) offer_whole(typed, &best);
        else offer_beginnings(typed, &best);
    } while (model && answer && open_clusters(typed, model, answer, &best));
    for (int32_t place = 0; place < best.count; place++) {
        found[place].word = words[place];
        found[place].log_probability = typed->log_probabilities[words[place]];
        found[place].cost = (float)costs[place] / (float)UNIT;
    }
    *count = best.count;
    return RHEO_OK;
}
