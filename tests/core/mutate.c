/* Opens model files with some of their bytes changed, over and over: mutate COUNT MODEL… takes the files in turn. What is
 * refused is counted; what is opened is used at every position of its knob, so that a size that slipped through would be
 * found by the sanitizers. The changes are the same in every run: a crash happens again. With a COUNT of 0, every file is taken
 * once, as it is. */

#include "hostile.h"

static int try_once(const char *original, size_t size) {
    size_t header = (size_t)(unsigned char)original[0] + ((size_t)(unsigned char)original[1] << 8) + 8;
    char *bytes = memory(size);
    memcpy(bytes, original, size);
    int opened = open_and_use(bytes, mutate(bytes, size, header));
    free(bytes);
    return opened;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    long rounds = strtol(arguments[1], NULL, 10), opened = 0;
    int files = count - 2;
    for (int number = 0; number < files; number++) {
        size_t size;
        char *original = read_file(arguments[2 + number], &size);
        if (!original) return 2;
        for (long round = number; round < rounds; round += files) opened += try_once(original, size);
        if (!rounds) opened += open_and_use(original, size);
        free(original);
    }
    long taken = rounds ? rounds : files;
    printf("%ld files: %ld refused, %ld opened and used\n", taken, taken - opened, opened);
    return 0;
}
