/* Opening a model: the header of the file, read strictly; the tensors that it must hold; the index of its words.
 *
 * A model file is a safetensors file: eight bytes with the length of the header, the header (JSON), the tensors one
 * after another. Everything that comes from the file is checked here, once, before anything uses it. */

#include "core.h"

#include <string.h>

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 1 << 22,
    MAX_DEPTH = 68,      /* of nested values in a description: the 64 of an origin within those of a ranking */
    MAX_DIMENSIONS = 8,
    MAX_NAME_BYTES = 64, /* of the tensors that we look for; others may have longer names */
    MAX_SIZE = 1 << 27,  /* of a vocabulary or a layer: far above any model, and no product of two overflows 64 bits */
    MAX_COUNTS_TABLE = 64, /* costs in the table of weights of counts */
    MAX_COUNTED_WORDS = 1 << 16, /* of a vocabulary with counts, whose ids have 16 bits */
    MAX_COLUMNS = 1 << 17 /* of an input: the sums of 8-bit products fit 32 bits */
};

static const char DIGITS[] = "0123456789";

#define RHEO_ONCE static __attribute__((cold)) /* runs once per model and reads few bytes, so that it is kept small */

/* --- errors ------------------------------------------------------------------------------------------------------- */

static size_t append(char *text, size_t used, size_t room, const char *more) {
    while (*more && used + 1 < room) text[used++] = *more++;
    text[used] = 0;
    return used;
}

rheo_status rheo_fail(rheo_error *error, rheo_status status, const char *text, const char *detail) {
    if (error) {
        size_t used = append(error->text, 0, sizeof error->text, text);
        append(error->text, used, sizeof error->text, detail ? detail : "");
    }
    return status;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

/* A place in a text. `bad` is set at the first thing that is not JSON, and nothing is read after it. */
typedef struct reader {
    const char *at;
    const char *end;
    int bad;
} reader;

typedef struct text {
    const char *bytes;
    size_t length;
} text;

/* Neither surrogates, nor more bytes than a character needs, nor characters that Unicode does not have. */
static int is_utf8(text checked) {
    const unsigned char *at = (const unsigned char *)checked.bytes, *end = at + checked.length;
    while (at < end) {
        uint32_t code = *at++;
        if (code < 0x80) continue;
        int more = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : 1;
        if (code < 0xc2 || code > 0xf4 || end - at < more) return 0;
        code &= 0x3fu >> more;
        for (int place = 0; place < more; place++, at++) {
            if (*at >> 6 != 2) return 0;
            code = code << 6 | (*at & 0x3fu);
        }
        if (more > 1 && code < (more > 2 ? 0x10000u : 0x800u)) return 0;
        if (code >> 11 == 0xd800 >> 11 || code > 0x10ffff) return 0;
    }
    return 1;
}

RHEO_ONCE size_t write_character(uint32_t code, char *out) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    for (int place = more; place > 0; place--, code >>= 6) out[place] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(more ? (0xff00u >> (more + 1) & 0xff) | code : code);
    return (size_t)more + 1;
}

static int is_next(const reader *json, char sign) { return json->at < json->end && *json->at == sign; }

static int is_digit_next(const reader *json) { return json->at < json->end && *json->at >= '0' && *json->at <= '9'; }

static void skip_space(reader *json) {
    while (is_next(json, ' ') || is_next(json, '\n') || is_next(json, '\t') || is_next(json, '\r')) json->at++;
}

/* Whether this sign comes next; if so, it is taken. */
RHEO_ONCE int take(reader *json, char sign) {
    skip_space(json);
    if (json->bad || !is_next(json, sign)) return 0;
    json->at++;
    return 1;
}

RHEO_ONCE void expect(reader *json, char sign) {
    if (!take(json, sign)) json->bad = 1;
}

/* \uXXXX, from the backslash on. */
static uint32_t read_code(reader *json) {
    static const char HEXADECIMAL[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t code = 0;
    if (json->end - json->at < 6 || json->at[0] != '\\' || json->at[1] != 'u') {
        json->bad = 1;
        return 0;
    }
    for (int place = 2; place < 6; place++) {
        const char *digit = memchr(HEXADECIMAL, json->at[place], sizeof HEXADECIMAL - 1);
        if (!digit) json->bad = 1;
        else code = code << 4 | (uint32_t)((digit - HEXADECIMAL) & 15);
    }
    json->at += 6;
    return code;
}

/* The character of an escape, from the backslash on. Half of a pair of surrogates is none. */
static uint32_t read_escape(reader *json) {
    static const char LETTERS[] = "\"\\/bfnrt", MEANINGS[] = "\"\\/\b\f\n\r\t";
    const char *letter = json->end - json->at > 1 ? memchr(LETTERS, json->at[1], sizeof LETTERS - 1) : NULL;
    if (letter) {
        json->at += 2;
        return (uint32_t)MEANINGS[letter - LETTERS];
    }
    uint32_t code = read_code(json);
    if (code >> 11 != 0xd800 >> 11) return code;
    uint32_t second = read_code(json);
    if (code >> 10 != 0xd800 >> 10 || second >> 10 != 0xdc00 >> 10) json->bad = 1;
    return 0x10000 + ((code & 0x3ff) << 10 | (second & 0x3ff));
}

/* A string with its escapes as they are. */
static text read_string(reader *json) {
    expect(json, '"');
    text found = {json->at, 0};
    while (!json->bad) {
        if (json->at >= json->end || (unsigned char)*json->at < 0x20) {
            json->bad = 1;
        } else if (*json->at == '"') {
            found.length = (size_t)(json->at - found.bytes);
            json->at++;
            return found;
        } else if (*json->at == '\\') {
            read_escape(json);
        } else {
            json->at++;
        }
    }
    return found;
}

RHEO_ONCE int is(text found, const char *wanted) {
    size_t length = strlen(wanted);
    return found.length == length && memcmp(found.bytes, wanted, length) == 0;
}

/* A whole number from 0 to 2⁵³. */
RHEO_ONCE uint64_t read_number(reader *json) {
    const uint64_t largest = (uint64_t)1 << 53;
    uint64_t value = 0;
    skip_space(json);
    const char *first = json->at;
    for (; is_digit_next(json); json->at++) {
        if (value <= largest) value = value * 10 + (uint64_t)(*json->at - '0');
    }
    if (json->at == first || (*first == '0' && json->at - first > 1) || value > largest) json->bad = 1;
    return json->bad ? 0 : value;
}

RHEO_ONCE void skip_digits(reader *json) {
    if (!is_digit_next(json)) json->bad = 1;
    while (is_digit_next(json)) json->at++;
}

/* Whether this word comes next, without quotes; if so, it is taken. */
RHEO_ONCE int take_word(reader *json, const char *word) {
    size_t length = strlen(word);
    skip_space(json);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length)) return 0;
    json->at += length;
    return 1;
}

/* Skips a number, true, false or null. */
RHEO_ONCE void skip_plain(reader *json) {
    if (take_word(json, "true") || take_word(json, "false") || take_word(json, "null")) return;
    if (is_next(json, '-')) json->at++;
    if (is_next(json, '0')) json->at++;
    else skip_digits(json);
    if (is_next(json, '.')) {
        json->at++;
        skip_digits(json);
    }
    if (is_next(json, 'e') || is_next(json, 'E')) {
        json->at++;
        if (is_next(json, '+') || is_next(json, '-')) json->at++;
        skip_digits(json);
    }
}

/* Skips any value. */
RHEO_ONCE void skip_value(reader *json, int depth) {
    skip_space(json);
    if (json->bad || depth > MAX_DEPTH) {
        json->bad = 1;
    } else if (is_next(json, '"')) {
        read_string(json);
    } else if (take(json, '{')) {
        if (take(json, '}')) return;
        do {
            read_string(json);
            expect(json, ':');
            skip_value(json, depth + 1);
        } while (take(json, ','));
        expect(json, '}');
    } else if (take(json, '[')) {
        if (take(json, ']')) return;
        do {
            skip_value(json, depth + 1);
        } while (take(json, ','));
        expect(json, ']');
    } else {
        skip_plain(json);
    }
}

/* Reads the next key of an object, so that its value comes next; 0 at the end of the object, which is taken. *first: 1
 * before the first key. Keys have no escapes here, so that two are the same only if their bytes are. */
RHEO_ONCE int next_key(reader *json, text *key, int *first) {
    if (*first && take(json, '}')) return 0;
    if (!*first && !take(json, ',')) {
        expect(json, '}');
        return 0;
    }
    *first = 0;
    *key = read_string(json);
    expect(json, ':');
    if (!json->bad && memchr(key->bytes, '\\', key->length)) json->bad = 1;
    return !json->bad;
}

/* A key that was read; a second time is an error. *seen: a bit for each. */
RHEO_ONCE void see(reader *json, uint32_t key, uint32_t *seen) {
    if (*seen & key) json->bad = 1;
    *seen |= key;
}

/* A list of at most `most` whole numbers; how many there are. */
RHEO_ONCE int32_t read_numbers(reader *json, uint64_t *numbers, int32_t most) {
    int32_t count = 0;
    expect(json, '[');
    if (take(json, ']')) return 0;
    do {
        if (count >= most) json->bad = 1;
        else numbers[count++] = read_number(json);
    } while (!json->bad && take(json, ','));
    expect(json, ']');
    return count;
}

/* Nothing but spaces follows. */
RHEO_ONCE int is_over(reader *json) {
    while (is_next(json, ' ')) json->at++;
    return !json->bad && json->at == json->end;
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static int compare(text left, text right) {
    size_t shorter = left.length < right.length ? left.length : right.length;
    int difference = shorter ? memcmp(left.bytes, right.bytes, shorter) : 0; /* no bytes may be NULL */
    if (difference) return difference;
    return (left.length > right.length) - (left.length < right.length);
}

/* Compares two things that have these numbers. */
typedef int comparison(const void *of, int32_t left, int32_t right);

/* Runs in order are merged in pairs until there is one: no input makes it slow. `other` has room for all. */
static void merge_runs(comparison *by, const void *of, const int32_t *from, int32_t middle, int32_t end, int32_t *to) {
    int32_t left = 0, right = middle;
    for (int32_t place = 0; place < end; place++) {
        int takes_left = left < middle && (right >= end || by(of, from[left], from[right]) <= 0);
        to[place] = takes_left ? from[left++] : from[right++];
    }
}

static void sort(comparison *by, const void *of, int32_t *order, int32_t count, int32_t *other) {
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t start = 0; start < count; start += 2 * run) {
            int64_t left = count - start, middle = left < run ? left : run, end = left < 2 * run ? left : 2 * run;
            merge_runs(by, of, order + start, (int32_t)middle, (int32_t)end, other + start);
        }
        memcpy(order, other, (size_t)count * sizeof(int32_t));
    }
}

/* The place of the first that equals the one before it, where equal ones are neighbours; 0 if all differ. */
static int32_t find_twice(comparison *by, const void *of, const int32_t *order, int32_t count) {
    for (int32_t place = 1; place < count; place++) {
        if (!by(of, order[place - 1], order[place])) return place;
    }
    return 0;
}

/* --- the header --------------------------------------------------------------------------------------------------- */

typedef struct tensor {
    char dtype[4];
    int32_t dimensions;
    uint64_t shape[MAX_DIMENSIONS];
    uint64_t begin, end; /* in the data */
} tensor;

typedef struct header {
    text json;
    text metadata; /* in the JSON: the value of `__metadata__`; of length 0 if there is none */
    const unsigned char *data;
    uint64_t data_bytes;
} header;

/* Says what is wrong with a tensor of the header, whose name may be cut short, but not within a character. */
RHEO_ONCE rheo_status fail_at(rheo_error *error, const char *what, text key) {
    char name[MAX_NAME_BYTES];
    size_t length = key.length < sizeof name ? key.length : sizeof name - 1;
    while (length < key.length && length && (key.bytes[length] & 0xc0) == 0x80) length--;
    memcpy(name, key.bytes, length);
    name[length] = 0;
    return rheo_fail(error, RHEO_BAD_FILE, what, name);
}

/* 0 for a type that no model file has. */
RHEO_ONCE uint64_t item_bytes(const char *dtype) {
    if (!strcmp(dtype, "I8") || !strcmp(dtype, "U8")) return 1;
    if (!strcmp(dtype, "U16") || !strcmp(dtype, "F16")) return 2;
    if (!strcmp(dtype, "F32") || !strcmp(dtype, "I32")) return 4;
    return 0;
}

RHEO_ONCE void read_entry(reader *json, tensor *found) {
    text key;
    int first = 1;
    uint32_t seen = 0;
    memset(found, 0, sizeof *found);
    expect(json, '{');
    while (next_key(json, &key, &first)) {
        if (is(key, "dtype")) {
            text dtype = read_string(json);
            see(json, 1, &seen);
            if (dtype.length < sizeof found->dtype) memcpy(found->dtype, dtype.bytes, dtype.length);
        } else if (is(key, "shape")) {
            see(json, 2, &seen);
            found->dimensions = read_numbers(json, found->shape, MAX_DIMENSIONS);
        } else if (is(key, "data_offsets")) {
            uint64_t offsets[2] = {0, 0};
            see(json, 4, &seen);
            if (read_numbers(json, offsets, 2) != 2) json->bad = 1;
            found->begin = offsets[0];
            found->end = offsets[1];
        } else {
            json->bad = 1;
        }
    }
    if (seen != 7) json->bad = 1;
}

/* Whether a tensor has the bytes that its type and shape need. */
RHEO_ONCE int has_its_bytes(const tensor *checked) {
    uint64_t size = item_bytes(checked->dtype);
    for (int32_t place = 0; place < checked->dimensions; place++) {
        if (checked->shape[place] && size > UINT64_MAX / checked->shape[place]) return 0;
        size *= checked->shape[place];
    }
    return checked->begin <= checked->end && checked->end - checked->begin == size;
}

/* Reads all of the JSON, so that later readers need not look for mistakes in it. */
RHEO_ONCE rheo_status check_json(header *found, rheo_error *error) {
    reader json = {found->json.bytes, found->json.bytes + found->json.length, 0};
    text key;
    int first = 1;
    tensor entry;
    if (!is_utf8(found->json)) return rheo_fail(error, RHEO_BAD_FILE, "the header is not UTF-8", NULL);
    if (!is_next(&json, '{')) json.bad = 1; /* after a space, too */
    expect(&json, '{');
    while (next_key(&json, &key, &first)) {
        if (is(key, "__metadata__")) {
            if (found->metadata.length) return fail_at(error, "occurs twice in the header: ", key);
            int inner = 1;
            text name;
            skip_space(&json);
            found->metadata.bytes = json.at;
            expect(&json, '{');
            while (next_key(&json, &name, &inner)) read_string(&json);
            found->metadata.length = (size_t)(json.at - found->metadata.bytes);
            continue;
        }
        read_entry(&json, &entry);
        if (json.bad) return fail_at(error, "not a proper entry of the header: ", key);
        if (!item_bytes(entry.dtype)) return fail_at(error, "unknown type of tensor ", key);
        if (!has_its_bytes(&entry)) return fail_at(error, "the offsets do not fit the type and shape of tensor ", key);
        if (entry.end > found->data_bytes) return fail_at(error, "offsets outside the file for tensor ", key);
    }
    return is_over(&json) ? RHEO_OK : rheo_fail(error, RHEO_BAD_FILE, "the header is not proper JSON", NULL);
}

RHEO_ONCE rheo_status read_header(header *found, const void *file, size_t file_bytes, rheo_error *error) {
    const unsigned char *bytes = file;
    uint64_t length = 0;
    if (!file || file_bytes < LENGTH_BYTES) return rheo_fail(error, RHEO_BAD_FILE, "the file is too short", NULL);
    for (int place = LENGTH_BYTES - 1; place >= 0; place--) length = length << 8 | bytes[place];
    if (length < 2 || length > MAX_HEADER_BYTES || length > file_bytes - LENGTH_BYTES) {
        return rheo_fail(error, RHEO_BAD_FILE, "the length of the header does not fit the file", NULL);
    }
    memset(found, 0, sizeof *found);
    found->json.bytes = (const char *)bytes + LENGTH_BYTES;
    found->json.length = (size_t)length;
    found->data = bytes + LENGTH_BYTES + length;
    found->data_bytes = file_bytes - LENGTH_BYTES - length;
    return check_json(found, error);
}

/* The next tensor of the header: its name, so that its entry comes next. */
RHEO_ONCE int next_tensor(const header *of, reader *json, text *key, int *first) {
    int found = next_key(json, key, first);
    if (found && is(*key, "__metadata__")) { /* long, so it is not read again */
        json->at = of->metadata.bytes + of->metadata.length;
        found = next_key(json, key, first);
    }
    return found;
}

/* Reads the key at a place of the JSON, which is that of its first letter, so that its value comes next. */
RHEO_ONCE text key_at(const header *of, int32_t place, reader *json) {
    reader at = {of->json.bytes + place - 1, of->json.bytes + of->json.length, 0};
    text key = read_string(&at);
    expect(&at, ':');
    *json = at;
    return key;
}

RHEO_ONCE int compare_names(const void *header_of, int32_t left, int32_t right) {
    reader json;
    return compare(key_at(header_of, left, &json), key_at(header_of, right, &json));
}

RHEO_ONCE tensor tensor_at(const header *of, int32_t place) {
    reader json;
    tensor found;
    key_at(of, place, &json);
    read_entry(&json, &found);
    return found;
}

RHEO_ONCE int compare_offsets(const void *header_of, int32_t left, int32_t right) {
    tensor one = tensor_at(header_of, left), other = tensor_at(header_of, right);
    if (one.begin != other.begin) return one.begin < other.begin ? -1 : 1;
    return (one.end > other.end) - (one.end < other.end);
}

/* Tensors follow one another to the end of the file, and no name occurs twice: other readers may use the other one.
 * `room` has the header's size. */
RHEO_ONCE rheo_status check_tensors(const header *of, int32_t *room, rheo_error *error) {
    reader json = {of->json.bytes + 1, of->json.bytes + of->json.length, 0};
    text key;
    int first = 1;
    int32_t count = 0, twice;
    int32_t *other = room + of->json.length / (2 * sizeof(int32_t)); /* an entry takes more than eight bytes */
    while (next_tensor(of, &json, &key, &first)) {
        room[count++] = (int32_t)(key.bytes - of->json.bytes);
        skip_value(&json, 0);
    }
    sort(compare_names, of, room, count, other);
    twice = find_twice(compare_names, of, room, count);
    if (twice) return fail_at(error, "occurs twice in the header: ", key_at(of, room[twice], &json));
    sort(compare_offsets, of, room, count, other);
    uint64_t position = 0;
    for (int32_t place = 0; place < count; place++) {
        tensor next = tensor_at(of, room[place]);
        if (next.begin != position) {
            return fail_at(error, next.begin < position ? "overlaps the one before: tensor " : "follows a gap: tensor ",
                           key_at(of, room[place], &json));
        }
        position = next.end;
    }
    if (position == of->data_bytes) return RHEO_OK;
    return rheo_fail(error, RHEO_BAD_FILE, "bytes follow the last tensor", NULL);
}

/* Whether the file has this tensor; if not, `found` has no dimensions. */
RHEO_ONCE int find_tensor(const header *of, const char *name, tensor *found) {
    reader json = {of->json.bytes + 1, of->json.bytes + of->json.length, 0};
    text key;
    int first = 1;
    while (next_tensor(of, &json, &key, &first)) {
        read_entry(&json, found);
        if (is(key, name)) return 1;
    }
    memset(found, 0, sizeof *found);
    return 0;
}

/* The bytes of a tensor that must be there, of this type and shape; a size of 0 means any, and is filled in. */
RHEO_ONCE rheo_status get_tensor(const header *of, const char *name, const char *dtype, int32_t dimensions,
                                 uint64_t *shape, const void **bytes, rheo_error *error) {
    tensor found;
    if (!find_tensor(of, name, &found)) return rheo_fail(error, RHEO_BAD_FILE, "the file has no tensor ", name);
    if (strcmp(found.dtype, dtype)) return rheo_fail(error, RHEO_BAD_FILE, "unexpected type of tensor ", name);
    if (found.dimensions != dimensions) return rheo_fail(error, RHEO_BAD_FILE, "unexpected shape of tensor ", name);
    for (int32_t place = 0; place < dimensions; place++) {
        uint64_t items = found.shape[place];
        if (items < 1 || items > MAX_SIZE || (shape[place] && shape[place] != items)) {
            return rheo_fail(error, RHEO_BAD_FILE, "unexpected shape of tensor ", name);
        }
        shape[place] = items;
    }
    const unsigned char *start = of->data + found.begin;
    if ((uintptr_t)start % item_bytes(dtype)) {
        return rheo_fail(error, RHEO_BAD_FILE, "not aligned in memory: tensor ", name);
    }
    *bytes = start;
    return RHEO_OK;
}

/* --- the description ---------------------------------------------------------------------------------------------- */

typedef struct description {
    int is_qrnn, is_ordered;
    uint64_t version;
    uint64_t embedding_size;
    int32_t splits;
    uint64_t first_word[RHEO_MAX_CLUSTERS];
} description;

/* The bytes of a JSON string, with its escapes resolved. out: room for as many bytes as it has. */
RHEO_ONCE size_t unescape(text source, char *out) {
    reader json = {source.bytes, source.bytes + source.length, 0};
    size_t used = 0;
    while (json.at < json.end) {
        if (*json.at == '\\') used += write_character(read_escape(&json), out + used);
        else out[used++] = *json.at++;
    }
    return used;
}

RHEO_ONCE void read_shape(reader *json, description *found) {
    text key;
    int first = 1;
    uint32_t seen = 0;
    expect(json, '{');
    while (next_key(json, &key, &first)) {
        if (is(key, "embedding_size")) {
            see(json, 1, &seen);
            found->embedding_size = read_number(json);
        } else if (is(key, "softmax_splits")) {
            see(json, 2, &seen);
            if (!take_word(json, "null")) found->splits = read_numbers(json, found->first_word, RHEO_MAX_CLUSTERS - 1);
        } else {
            skip_value(json, 0);
        }
    }
}

RHEO_ONCE void read_description(reader *json, description *found) {
    text key;
    int first = 1;
    uint32_t seen = 0;
    if (!is_next(json, '{')) json->bad = 1; /* after a space, too */
    expect(json, '{');
    while (next_key(json, &key, &first)) {
        if (is(key, "format_version")) {
            see(json, 1, &seen);
            found->version = read_number(json);
        } else if (is(key, "cell")) {
            see(json, 2, &seen);
            if (!take_word(json, "null")) found->is_qrnn = is(read_string(json), "qrnn");
        } else if (is(key, "ordered")) {
            see(json, 4, &seen);
            if (!take_word(json, "null")) found->is_ordered = read_string(json).length > 0;
        } else if (is(key, "shape")) {
            see(json, 8, &seen);
            read_shape(json, found);
        } else {
            skip_value(json, 0);
        }
    }
}

/* The description is a string in the header: `__metadata__` → `rheostat`. `room` has the header's size. */
RHEO_ONCE rheo_status find_description(const header *of, description *found, char *room, rheo_error *error) {
    reader json = {of->metadata.bytes, of->metadata.bytes + of->metadata.length, 0};
    text key;
    int first = 1, times = 0, bad = 0;
    memset(found, 0, sizeof *found);
    found->is_qrnn = 1; /* unless it says otherwise */
    expect(&json, '{');
    while (next_key(&json, &key, &first)) {
        text value = read_string(&json);
        if (!is(key, "rheostat")) continue;
        reader inside = {room, room + unescape(value, room), 0};
        read_description(&inside, found);
        bad |= !is_over(&inside);
        times++;
    }
    if (bad || times != 1) {
        return rheo_fail(error, RHEO_BAD_FILE, "the file has no proper description of a Rheostat model", NULL);
    }
    if (found->version != 2 || !found->is_qrnn || !found->is_ordered) {
        return rheo_fail(error, RHEO_BAD_FILE,
                         "expected an ordered QRNN in format version 2: make one with rheostat pack --order", NULL);
    }
    return RHEO_OK;
}

/* --- the weights -------------------------------------------------------------------------------------------------- */

/* "layers." + number + rest */
static const char *layer_name(char *name, int32_t layer, const char *rest) {
    size_t used = append(name, 0, MAX_NAME_BYTES, "layers.");
    if (layer >= 10) name[used++] = DIGITS[layer / 10];
    name[used++] = DIGITS[layer % 10];
    append(name, used, MAX_NAME_BYTES, rest);
    return name;
}

static int all_finite(const float *values, uint64_t count) {
    uint32_t found = 0;
    for (uint64_t place = 0; place < count; place++) {
        uint32_t bits;
        memcpy(&bits, values + place, sizeof bits);
        found |= (uint32_t)((bits & 0x7f800000u) == 0x7f800000u);
    }
    return !found;
}

RHEO_ONCE rheo_status get_floats(const header *of, const char *name, uint64_t count, const float **floats,
                                 rheo_error *error) {
    const void *bytes = NULL;
    rheo_status status = get_tensor(of, name, "F32", 1, &count, &bytes, error);
    if (status) return status;
    *floats = bytes;
    if (!all_finite(*floats, count)) return rheo_fail(error, RHEO_BAD_FILE, "a value is not finite in ", name);
    return RHEO_OK;
}

/* name + rest */
static const char *longer_name(char *longer, const char *name, const char *rest) {
    append(longer, append(longer, 0, MAX_NAME_BYTES, name), MAX_NAME_BYTES, rest);
    return longer;
}

/* The sums of the output layer then stay finite, and log p is a number: a row has up to 2¹⁷ weights of 128 scales. */
RHEO_ONCE rheo_status check_scales(const rheo_matrix *matrix, const char *name, rheo_error *error) {
    int bad = 0;
    for (int32_t row = 0; row < matrix->parts * matrix->rows; row++) {
        bad |= !(matrix->scales[row] >= 0.0f && matrix->scales[row] <= 1e30f);
    }
    return bad ? rheo_fail(error, RHEO_BAD_FILE, "a scale below zero or above 1e30 in ", name) : RHEO_OK;
}

/* The planes of a matrix whose sizes are known, apart from the steps (0: any). Any byte is a proper weight. */
RHEO_ONCE rheo_status get_planes(const header *of, const char *name, rheo_matrix *matrix, rheo_error *error) {
    char longer[MAX_NAME_BYTES];
    tensor lower;
    const void *bytes = NULL;
    uint64_t lines = (uint64_t)rheo_column_lines(matrix->columns);
    uint64_t shape[3] = {(uint64_t)matrix->parts * (uint64_t)rheo_blocks(matrix->rows), lines * (uint64_t)matrix->steps,
                         RHEO_LINE};
    rheo_status status = get_tensor(of, longer_name(longer, name, ".upper"), "U8", 3, shape, &bytes, error);
    if (status) return status;
    matrix->upper = bytes;
    if (shape[1] % lines || shape[1] / lines > RHEO_MAX_WINDOW) {
        return rheo_fail(error, RHEO_BAD_FILE, "unexpected shape of tensor ", longer);
    }
    matrix->steps = (int32_t)(shape[1] / lines);
    status = get_floats(of, longer_name(longer, name, ".scale"), (uint64_t)matrix->parts * (uint64_t)matrix->rows,
                        &matrix->scales, error);
    if (!status) status = check_scales(matrix, longer, error);
    if (status || !find_tensor(of, longer_name(longer, name, ".lower"), &lower)) return status;
    status = get_tensor(of, longer, "U8", 3, shape, &bytes, error);
    matrix->lower = bytes;
    return status;
}

/* A matrix in the precision of the model. Its sizes are given; steps may be 0, which allows any number. */
RHEO_ONCE rheo_status get_matrix(const header *of, const char *name, int is_int8, rheo_matrix *matrix,
                                 rheo_error *error) {
    if (is_int8) return get_planes(of, name, matrix, error);
    uint64_t rows = (uint64_t)matrix->parts * (uint64_t)matrix->rows, inputs = (uint64_t)matrix->columns;
    uint64_t shape[2] = {rows, inputs * (uint64_t)matrix->steps};
    const void *bytes = NULL;
    rheo_status status = get_tensor(of, name, "F32", 2, shape, &bytes, error);
    if (status) return status;
    if (shape[1] % inputs || shape[1] / inputs > RHEO_MAX_WINDOW) {
        return rheo_fail(error, RHEO_BAD_FILE, "unexpected shape of tensor ", name);
    }
    matrix->steps = (int32_t)(shape[1] / inputs);
    matrix->floats = bytes;
    if (all_finite(matrix->floats, shape[0] * shape[1])) return RHEO_OK;
    return rheo_fail(error, RHEO_BAD_FILE, "a value is not finite in ", name);
}

RHEO_ONCE rheo_matrix sizes(int32_t parts, int32_t rows, int32_t steps, int32_t columns) {
    rheo_matrix matrix = {NULL, NULL, NULL, NULL, parts, rows, steps, columns};
    return matrix;
}

/* The bias says how many filters there are; the matrix then has to fit. */
RHEO_ONCE rheo_status get_layer(const header *of, rheo_config *config, int32_t layer, rheo_layer *found,
                                rheo_error *error) {
    char name[MAX_NAME_BYTES];
    tensor bias;
    int32_t inputs = layer ? config->hidden_sizes[layer - 1] : config->embedding_size;
    find_tensor(of, layer_name(name, layer, ".bias"), &bias);
    uint64_t rows = bias.dimensions == 1 ? bias.shape[0] : 0;
    rheo_status status = get_floats(of, name, rows, &found->bias, error);
    if (status) return status;
    if (bias.shape[0] % 3 || bias.shape[0] > 3 * MAX_COLUMNS) {
        return rheo_fail(error, RHEO_BAD_FILE, "unexpected shape of tensor ", name);
    }
    config->hidden_sizes[layer] = (int32_t)(rows / 3);
    found->weight = sizes(3, config->hidden_sizes[layer], 0, inputs);
    status = get_matrix(of, layer_name(name, layer, ".weight"), config->is_int8, &found->weight, error);
    config->windows[layer] = found->weight.steps;
    return status;
}

RHEO_ONCE rheo_status get_layers(const header *of, rheo_config *config, rheo_weights *weights, rheo_error *error) {
    char name[MAX_NAME_BYTES];
    tensor entry;
    for (int32_t layer = 0; find_tensor(of, layer_name(name, layer, ".bias"), &entry); layer++) {
        if (layer >= RHEO_MAX_LAYERS) return rheo_fail(error, RHEO_BAD_FILE, "too many layers", NULL);
        rheo_status status = get_layer(of, config, layer, &weights->layers[layer], error);
        if (status) return status;
        config->layers = layer + 1;
    }
    return config->layers ? RHEO_OK : rheo_fail(error, RHEO_BAD_FILE, "the file has no layers", NULL);
}

RHEO_ONCE rheo_status get_output(const header *of, const description *described, rheo_config *config,
                                 rheo_weights *weights, rheo_error *error) {
    tensor entry;
    const char *name = config->is_int8 ? "output.weight.upper" : "output.weight";
    rheo_status status;
    uint64_t words = (uint64_t)config->vocabulary_size;
    int32_t width = config->hidden_sizes[config->layers - 1];
    weights->output = weights->embedding;
    if (find_tensor(of, name, &entry)) {
        weights->output = sizes(1, config->vocabulary_size, 1, width);
        status = get_matrix(of, "output.weight", config->is_int8, &weights->output, error);
        if (status) return status;
    } else if (width != config->embedding_size) {
        return rheo_fail(error, RHEO_BAD_FILE, "the file has no tensor ", "output.weight");
    }
    status = get_floats(of, "output.bias", words, &weights->output_bias, error);
    if (status) return status;

    config->clusters = described->splits + 1;
    for (int32_t split = 0; split < described->splits; split++) {
        uint64_t first = described->first_word[split];
        if (first <= (uint64_t)config->cluster_start[split] || first >= words) {
            return rheo_fail(error, RHEO_BAD_FILE, "softmax_splits are not ascending ids of words", NULL);
        }
        config->cluster_start[split + 1] = (int32_t)first;
    }
    config->cluster_start[config->clusters] = config->vocabulary_size;
    if (!described->splits) return RHEO_OK;
    uint64_t tails = (uint64_t)described->splits;
    weights->clusters = sizes(1, described->splits, 1, width);
    status = get_matrix(of, "clusters.weight", config->is_int8, &weights->clusters, error);
    return status ? status : get_floats(of, "clusters.bias", tails, &weights->cluster_bias, error);
}

/* Whether a bound is valid for this many rows: see rheo_position. */
RHEO_ONCE int is_bound(int32_t bound, int32_t rows) { return bound >= rows || (bound >= 0 && bound % RHEO_ROWS == 0); }
                       
                       int rheo_fits(const rheo_model *model, const int32_t *widths, const int32_t *bounds) {
    const rheo_config *config = &model->config;
    int fits = is_bound(bounds[config->layers], config->vocabulary_size);
    for (int32_t layer = 0; layer < config->layers; layer++) {
        fits &= widths[layer] >= 1 && widths[layer] <= config->hidden_sizes[layer];
        fits &= is_bound(bounds[layer], config->hidden_sizes[layer]);
    }
    return fits;
}

RHEO_ONCE rheo_status get_path_bounds(const header *of, rheo_model *model, uint64_t count, rheo_error *error) {
    tensor entry;
    uint64_t shape[2] = {count, (uint64_t)model->config.layers + 1};
    const void *bytes = NULL;
    if (!find_tensor(of, "path.bounds", &entry)) return RHEO_OK;
    rheo_status status = get_tensor(of, "path.bounds", "I32", 2, shape, &bytes, error);
    model->path_bounds = bytes;
    return status;
}

RHEO_ONCE rheo_status get_path(const header *of, rheo_model *model, rheo_error *error) {
    tensor entry;
    rheo_config *config = &model->config;
    if (!find_tensor(of, "path.cost", &entry)) return RHEO_OK;
    uint64_t count = entry.dimensions == 1 ? entry.shape[0] : 0;
    uint64_t shape[2] = {count, (uint64_t)config->layers};
    const void *bytes = NULL;
    rheo_status status = get_floats(of, "path.cost", count, &model->path_cost, error);
    if (!status) status = get_tensor(of, "path.widths", "I32", 2, shape, &bytes, error);
    if (!status) status = get_path_bounds(of, model, shape[0], error);
    if (status) return status;
    model->path_widths = bytes;
    config->positions = (int32_t)shape[0];
    for (int32_t place = 0; place < config->positions; place++) {
        rheo_position position;
        status = rheo_position_at(model, place, &position, error);
        if (!(position.cost > 0.0f && (place ? position.cost < model->path_cost[place - 1] : position.cost <= 1.0f))) {
            return rheo_fail(error, RHEO_BAD_FILE, "costs that do not descend, or beyond 0 to 1, in ", "path.cost");
        }
        if (status || !rheo_fits(model, position.widths, position.bounds)) {
            return rheo_fail(error, RHEO_BAD_FILE, "the path has a position that does not fit the model", NULL);
        }
    }
    return RHEO_OK;
}

/* The n-grams of one length, ascending, so that a context is found by binary search. */
static rheo_status get_ngrams(const header *of, rheo_model *model, int32_t order, rheo_error *error) {
    char rows[] = "counts.N", levels[] = "counts.N.level";
    rows[7] = levels[7] = DIGITS[order];
    rheo_ngrams *found = &model->counts.ngrams[order];
    tensor entry;
    const void *bytes = NULL, *level_bytes = NULL;
    if (!find_tensor(of, rows, &entry)) return RHEO_OK;
    uint64_t shape[2] = {0, (uint64_t)order};
    rheo_status status = get_tensor(of, rows, "U16", 2, shape, &bytes, error);
    if (!status) status = get_tensor(of, levels, "U8", 1, shape, &level_bytes, error);
    if (status) return status;
    found->rows = bytes;
    found->levels = level_bytes;
    found->count = (size_t)shape[0];
    model->counts.orders = order;
    for (size_t row = 0; row < found->count; row++) {
        const uint16_t *own = found->rows + row * (size_t)order;
        int32_t place = 0;
        int bad = 0;
        for (int32_t word = 0; word < order; word++) bad |= own[word] >= model->config.vocabulary_size;
        while (row && place < order && own[place] == (own - order)[place]) place++;
        bad |= row && (place == order || own[place] < (own - order)[place]);
        if (bad) return rheo_fail(error, RHEO_BAD_FILE, "not ascending words of the vocabulary in ", rows);
    }
    return RHEO_OK;
}

RHEO_ONCE rheo_status get_counts(const header *of, rheo_model *model, rheo_error *error) {
    rheo_counts *counts = &model->counts;
    tensor entry;
    rheo_status status = RHEO_OK;
    if (!find_tensor(of, "counts.cost", &entry)) return status;
    if (model->config.vocabulary_size > MAX_COUNTED_WORDS) {
        return rheo_fail(error, RHEO_BAD_FILE, "counts need a vocabulary of at most 65536 words", NULL);
    }
    for (int32_t order = 2; order <= RHEO_MAX_ORDER && !status; order++) status = get_ngrams(of, model, order, error);
    if (status) return status;
    uint64_t count = entry.dimensions == 1 ? entry.shape[0] : 0;
    if (!counts->orders || model->config.clusters > 1 || count < 1 || count > MAX_COUNTS_TABLE) {
        return rheo_fail(error, RHEO_BAD_FILE, "counts need n-grams, a plain softmax and a table of 1 to 64 costs", NULL);
    }
    uint64_t shape[2] = {count, (uint64_t)(counts->orders - 1)};
    const void *bytes = NULL;
    status = get_floats(of, "counts.cost", count, &counts->costs, error);
    if (!status) status = get_tensor(of, "counts.weight", "F32", 2, shape, &bytes, error);
    if (status) return status;
    counts->weights = bytes;
    counts->table = (int32_t)count;
    int bad = 0;
    for (int32_t place = 0; place < counts->table; place++) {
        bad |= !(counts->costs[place] > 0.0f && counts->costs[place] <= 1.0f);
        bad |= place && !(counts->costs[place] < counts->costs[place - 1]);
        for (int32_t order = 2; order <= counts->orders; order++) {
            float weight = counts->weights[place * (counts->orders - 1) + order - 2];
            bad |= !(weight >= 0.0f && weight <= 1.0f);
        }
    }
    model->config.counts = counts->orders;
    return bad ? rheo_fail(error, RHEO_BAD_FILE, "costs that do not descend, or weights beyond 0 to 1, in ", "counts.cost")
               : RHEO_OK;
}

/* --- the words ---------------------------------------------------------------------------------------------------- */

static text word_of(const rheo_model *model, int32_t id) {
    uint32_t start = model->word_start[id], next = model->word_start[id + 1];
    text word = {model->words + start, (size_t)(next - start - 1)}; /* without the newline */
    return word;
}

static int compare_words(const void *model, int32_t left, int32_t right) {
    return compare(word_of(model, left), word_of(model, right));
}

static rheo_status index_words(rheo_model *model, const char *bytes, uint64_t length, int32_t *room, rheo_error *error) {
    int32_t count = model->config.vocabulary_size, id = 0;
    text all = {bytes, (size_t)length};
    if (!is_utf8(all)) return rheo_fail(error, RHEO_BAD_FILE, "the vocabulary is not UTF-8", NULL);
    model->words = bytes;
    model->word_start[0] = 0;
    for (uint64_t place = 0; place <= length; place++) {
        if (place < length && bytes[place] != '\n') continue;
        if (place == length && length && bytes[length - 1] == '\n') break; /* one newline may follow the last word */
        if (id >= count || place == model->word_start[id]) {
            return rheo_fail(error, RHEO_BAD_FILE, "the vocabulary has another number of words than the model", NULL);
        }
        model->word_start[++id] = (uint32_t)place + 1;
    }
    if (id != count) {
        return rheo_fail(error, RHEO_BAD_FILE, "the vocabulary has another number of words than the model", NULL);
    }
    for (id = 0; id < count; id++) model->order[id] = id;
    sort(compare_words, model, model->order, count, room);
    if (find_twice(compare_words, model, model->order, count)) {
        return rheo_fail(error, RHEO_BAD_FILE, "the vocabulary has a word twice", NULL);
    }
    model->unknown_id = rheo_find_word(model, "<unk>", 5);
    model->end_id = rheo_find_word(model, "<eos>", 5);
    if (model->unknown_id < 0 || model->end_id < 0) {
        return rheo_fail(error, RHEO_BAD_FILE, "the vocabulary lacks <unk> or <eos>", NULL);
    }
    return RHEO_OK;
}

const char *rheo_word(const rheo_model *model, int32_t id, int32_t *length) {
    if (id < 0 || id >= model->config.vocabulary_size) return NULL;
    text word = word_of(model, id);
    *length = (int32_t)word.length;
    return word.bytes;
}

/* The place in `order` of the first word that is not before these bytes. */
static int32_t first_not_before(const rheo_model *model, text wanted) {
    int32_t low = 0, high = model->config.vocabulary_size;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (compare(word_of(model, model->order[middle]), wanted) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

int32_t rheo_find_word(const rheo_model *model, const char *word, size_t length) {
    text wanted = {word, length};
    int32_t place = first_not_before(model, wanted);
    if (place >= model->config.vocabulary_size) return -1;
    return compare(word_of(model, model->order[place]), wanted) ? -1 : model->order[place];
}

/* The words with a prefix are order[first … last-1]. */
void rheo_find_prefix(const rheo_model *model, const char *prefix, size_t length, int32_t *first, int32_t *last) {
    text wanted = {prefix, length};
    int32_t low = first_not_before(model, wanted), high = model->config.vocabulary_size;
    *first = low;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        text word = word_of(model, model->order[middle]);
        if (word.length >= length && (!length || !memcmp(word.bytes, prefix, length))) low = middle + 1;
        else high = middle;
    }
    *last = low;
}

int32_t rheo_unknown_id(const rheo_model *model) { return model->unknown_id; }
int32_t rheo_end_id(const rheo_model *model) { return model->end_id; }

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* The model, the starts of the words and their order; and, while opening, the unescaped description, then the words in
 * part of their order. */
static size_t workspace_bytes(const header *of, uint64_t words) {
    size_t starts = rheo_lines((size_t)(words + 1) * sizeof(uint32_t));
    size_t order = rheo_lines((size_t)words * sizeof(int32_t)), json = rheo_lines(of->json.length);
    return rheo_lines(sizeof(rheo_model)) + starts + order + (json > order ? json : order);
}

/* How many words there are, and whether their rows are stored in planes. */
static rheo_status measure(const void *file, size_t file_bytes, header *found, uint64_t *words, int *is_int8,
                           rheo_error *error) {
    tensor planes, bias;
    rheo_status status = read_header(found, file, file_bytes, error);
    if (status) return status;
    if (!find_tensor(found, "output.bias", &bias)) {
        return rheo_fail(error, RHEO_BAD_FILE, "the file has no tensor ", "output.bias");
    }
    if (bias.dimensions != 1 || bias.shape[0] < 1 || bias.shape[0] > MAX_SIZE) {
        return rheo_fail(error, RHEO_BAD_FILE, "unexpected shape of tensor ", "output.bias");
    }
    *words = bias.shape[0];
    *is_int8 = find_tensor(found, "embedding.weight.upper", &planes);
    return RHEO_OK;
}

rheo_status rheo_workspace_bytes(const void *file, size_t file_bytes, size_t *needed, rheo_error *error) {
    header of;
    uint64_t words = 0;
    int is_int8 = 0;
    rheo_status status = measure(file, file_bytes, &of, &words, &is_int8, error);
    if (!status) *needed = workspace_bytes(&of, words);
    return status;
}

static const rheo_kernels *choose_kernels(const char *name) {
    const rheo_kernels *kernels;
    for (int32_t number = 0; (kernels = rheo_kernels_at(number)) != NULL; number++) {
        if (!name || !strcmp(kernels->name, name)) return kernels;
    }
    return NULL;
}

/* The layers and the output layer have the bits of the embedding; the rows of the tails always have 8. */
static rheo_status check_planes(const rheo_model *model, rheo_error *error) {
    const rheo_weights *weights = &model->weights;
    int has_lower = weights->embedding.lower != NULL, same = !weights->output.lower == !has_lower;
    for (int32_t layer = 0; layer < model->config.layers; layer++) {
        same &= !weights->layers[layer].weight.lower == !has_lower;
    }
    same &= !weights->clusters.upper || weights->clusters.lower;
    return same ? RHEO_OK : rheo_fail(error, RHEO_BAD_FILE, "some matrices have a lower plane and others have none", NULL);
}

static rheo_status fill(rheo_model *model, const header *of, char *room, rheo_error *error) {
    description described;
    rheo_config *config = &model->config;
    uint64_t letters = 0;
    const void *words = NULL;
    rheo_matrix *embedding = &model->weights.embedding;
    tensor rows;
    rheo_status status = check_tensors(of, (int32_t *)(void *)room, error);
    if (!status) status = find_description(of, &described, room, error);
    if (status) return status;
    /* Rows of floats have their own length; planes are padded, so their length comes from the description. */
    if (!config->is_int8) {
        find_tensor(of, "embedding.weight", &rows);
        described.embedding_size = rows.dimensions == 2 ? rows.shape[1] : 0;
    }
    if (described.embedding_size < 1 || described.embedding_size > MAX_COLUMNS) {
        return rheo_fail(error, RHEO_BAD_FILE, "the rows of embedding.weight are not 1 to 131072 wide", NULL);
    }
    config->embedding_size = (int32_t)described.embedding_size;
    *embedding = sizes(1, config->vocabulary_size, 1, config->embedding_size);
    status = get_matrix(of, "embedding.weight", config->is_int8, embedding, error);
    config->bits = !config->is_int8 ? 32 : embedding->lower ? 8 : 4;
    if (!status) status = get_layers(of, config, &model->weights, error);
    if (!status) status = get_output(of, &described, config, &model->weights, error);
    if (!status) status = check_planes(model, error);
    if (!status) status = get_path(of, model, error);
    if (!status) status = get_counts(of, model, error);
    if (!status) status = get_tensor(of, "vocabulary", "U8", 1, &letters, &words, error);
    if (!status) status = index_words(model, words, letters, (int32_t *)(void *)room, error);
    size_t widest = (size_t)config->embedding_size;
    for (int32_t layer = 0; layer < config->layers; layer++) {
        if ((size_t)config->hidden_sizes[layer] > widest) widest = (size_t)config->hidden_sizes[layer];
    }
    model->widest = (int32_t)rheo_padded(widest);
    return status;
}

rheo_status rheo_open(rheo_model **opened, const void *file, size_t file_bytes, void *workspace,
                      size_t workspace_room, const char *kernel, rheo_error *error) {
    header of;
    uint64_t words = 0;
    int is_int8 = 0;
    rheo_status status = measure(file, file_bytes, &of, &words, &is_int8, error);
    if (status) return status;
    if (!workspace || (uintptr_t)workspace % RHEO_ALIGNMENT || workspace_room < workspace_bytes(&of, words)) {
        return rheo_fail(error, RHEO_NO_ROOM, "the workspace is too small or not aligned to 16 bytes", NULL);
    }
    if (!rheo_floats_are_exact()) {
        return rheo_fail(error, RHEO_BAD_BUILD, "compiled with options that change floats: use -ffp-contract=off and no "
                         "-ffast-math", NULL);
    }
    char *place = workspace;
    rheo_model *model = workspace;
    memset(model, 0, sizeof *model);
    model->kernels = choose_kernels(kernel);
    if (!model->kernels) return rheo_fail(error, RHEO_BAD_ARGUMENT, "this processor has no kernel ", kernel);
    model->config.is_int8 = is_int8;
    model->config.vocabulary_size = (int32_t)words;
    place += rheo_lines(sizeof *model);
    model->word_start = (uint32_t *)(void *)place;
    place += rheo_lines((size_t)(words + 1) * sizeof(uint32_t));
    model->order = (int32_t *)(void *)place;
    place += rheo_lines((size_t)words * sizeof(int32_t));
    status = fill(model, &of, place, error);
    if (!status) *opened = model;
    return status;
}

const rheo_config *rheo_config_of(const rheo_model *model) { return &model->config; }
const char *rheo_kernel_of(const rheo_model *model) { return model->kernels->name; }

const char *rheo_kernel_name(int32_t number) {
    const rheo_kernels *kernels = rheo_kernels_at(number);
    return kernels ? kernels->name : NULL;
}

/* --- the knob ----------------------------------------------------------------------------------------------------- */

void rheo_position_full(const rheo_model *model, rheo_position *position) {
    const rheo_config *config = &model->config;
    memset(position, 0, sizeof *position);
    memcpy(position->widths, config->hidden_sizes, sizeof position->widths);
    memcpy(position->bounds, config->hidden_sizes, sizeof position->widths);
    position->bounds[config->layers] = config->vocabulary_size;
    position->cost = 1.0f;
}

rheo_status rheo_position_at(const rheo_model *model, int32_t number, rheo_position *position, rheo_error *error) {
    const rheo_config *config = &model->config;
    if (number < 0 || number >= config->positions) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "the path has no such position", NULL);
    }
    size_t bounds = (size_t)config->layers + 1;
    rheo_position_full(model, position);
    if (model->path_bounds) {
        memcpy(position->bounds, model->path_bounds + (size_t)number * bounds, bounds * sizeof(int32_t));
    }
    memcpy(position->widths, model->path_widths + (size_t)number * (size_t)config->layers,
           (size_t)config->layers * sizeof(int32_t));
    position->cost = model->path_cost[number];
    return RHEO_OK;
}

rheo_status rheo_position_near(const rheo_model *model, float share, rheo_position *position, rheo_error *error) {
    if (!(share > 0.0f && share <= 1.0f)) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "the knob is a share of the cost above 0 and up to 1", NULL);
    }
    for (int32_t number = 0; number < model->config.positions; number++) {
        if (model->path_cost[number] <= share) return rheo_position_at(model, number, position, error);
    }
    return rheo_fail(error, RHEO_BAD_ARGUMENT, "the path has no position that costs so little", NULL);
}
