/* A keyboard in a few lines: open a model, turn the knob, split a text, complete its last word.
 *
 *     rheostat export chat --engine core -o chat
 *     cc -std=c11 -O3 -ffp-contract=off -Wno-psabi example.c model.c network.c mixing.c kernels.c typing.c -o example
 *     ./example chat 0.5 "Hey, see you at the ga"
 *
 * docs/export.md says how a text is split. C has no tables of Unicode: here, bytes beyond ASCII are lower-case letters. */
#include "rheostat.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *text) { return fprintf(stderr, "example: %s\n", text), 1; }

static void *read_file(const char *folder, const char *name, size_t *size) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return NULL;
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) || (*size = (size_t)ftell(file)) == 0 || fseek(file, 0, SEEK_SET)) return NULL;
    void *bytes = malloc(*size); /* aligned as the library asks for */
    return bytes && fread(bytes, 1, *size, file) == *size && !fclose(file) ? bytes : NULL;
}

static void show(const rheo_model *model, int32_t id) {
    int32_t length;
    const char *bytes = rheo_word(model, id, &length);
    printf("%.*s ", (int)length, bytes);
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_letter(char c) { return is_digit(c) || isalpha((unsigned char)c) || (unsigned char)c > 127; }

/* Plain apostrophes, full stops for an ellipsis, and lower case. */
static void fold(char *text) {
    for (char *at; (at = strstr(text, u8"\u2019")) != NULL; *at = '\'') memmove(at + 1, at + 3, strlen(at + 3) + 1);
    for (char *at; (at = strstr(text, u8"\u2026")) != NULL;) memcpy(at, "...", 3);
    for (; *text; text++) *text = (char)tolower((unsigned char)*text);
}

/* The length of the piece that begins here: a number, a word, full stops, or one sign or space. */
static size_t piece_length(const char *text) {
    const char *const endings[] = {"st", "nd", "rd", "th", "'s", "s"}, *joints = is_digit(*text) ? ".,:" : "'";
    int (*belongs)(char) = is_digit(*text) ? is_digit : is_letter;
    size_t length = *text == '.' ? strspn(text, ".") : 1;
    if (!is_letter(*text)) return length;
    while (belongs(text[length]) || (text[length] && strchr(joints, text[length]) && belongs(text[length + 1]))) length++;
    for (size_t place = 0, more; is_digit(*text) && place < 6; place++)
        if (!strncmp(text + length, endings[place], more = strlen(endings[place])) && !is_letter(text[length + more]))
            return length + more;
    return length;
}

int main(int count, char **arguments) {
    if (count != 4) return fail("expected FOLDER KNOB TEXT");
    size_t file_bytes, mask_bytes, workspace_bytes, size;
    rheo_error error;
    rheo_model *model;
    rheo_position position;
    void *file = read_file(arguments[1], "model.safetensors", &file_bytes);
    uint8_t *mask = read_file(arguments[1], "suggestible.bin", &mask_bytes);
    if (!file || !mask) return fail("the folder cannot be read; expected one of rheostat export --engine core");
    if (rheo_workspace_bytes(file, file_bytes, &workspace_bytes, &error)) return fail(error.text);
    void *workspace = malloc(workspace_bytes);
    if (rheo_open(&model, file, file_bytes, workspace, workspace_bytes, NULL, &error)) return fail(error.text);
    if (mask_bytes != (size_t)rheo_config_of(model)->vocabulary_size) return fail("the mask is of another model");
    for (size_t id = 0; id < mask_bytes; id++) mask[id] = mask[id] == 1; /* hidden words, signs and parts of words are 0 */
    if (rheo_position_near(model, strtof(arguments[2], NULL), &position, &error)) return fail(error.text);
    printf("%.0f %% of the cost, kernel %s\n", 100 * position.cost, rheo_kernel_of(model));

    fold(arguments[3]);
    char *prefix = arguments[3] + strlen(arguments[3]); /* the word being typed: letters and apostrophes, a letter first */
    for (char *at = prefix; at > arguments[3] && (is_letter(at[-1]) || at[-1] == '\''); at--)
        if (is_letter(at[-1])) prefix = at - 1;
    rheo_state *state = malloc(rheo_state_bytes(model));
    rheo_answer *answer = malloc(rheo_answer_bytes(model));
    rheo_scratch *scratch = malloc(rheo_scratch_bytes(model));
    int32_t words[3], found, id, last = rheo_end_id(model);
    rheo_start(model, state);
    rheo_step(model, &position, state, last, scratch, NULL); /* a text begins after an end of line */
    for (const char *piece = arguments[3]; piece + (size = piece_length(piece)) <= prefix; piece += size) {
        if (*piece != '\n' && (*piece == ' ' || iscntrl((unsigned char)*piece))) continue;
        const char *word = *piece == '\n' ? "<eos>" : is_digit(*piece) ? "<num>" : *piece == '.' && size > 1 ? "..." : NULL;
        id = rheo_find_word(model, word ? word : piece, word ? strlen(word) : size);
        if (*piece == '\n' && id == last) continue; /* blank lines count once */
        show(model, last = id < 0 ? rheo_unknown_id(model) : id);
        rheo_step(model, &position, state, last, scratch, NULL);
    }
    rheo_choice choice = {.mask = mask, .prefix = prefix, .prefix_length = strlen(prefix)};
    float log_probabilities[3];
    rheo_predict(model, &position, state, answer, NULL);
    rheo_best(model, answer, &choice, 3, words, log_probabilities, &found, NULL);
    printf("| %s\n", prefix);
    for (int32_t place = 0; place < found; place++) show(model, words[place]);
    printf("\n");
    free(file), free(mask), free(workspace), free(state), free(answer), free(scratch);
    return 0;
}
