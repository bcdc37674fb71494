/* The opener under libFuzzer, which looks for files that reach new lines of it: clang -fsanitize=fuzzer,address,undefined.
 * The files that it has found are in tests/data/fuzz/core; `mutate 0 FILE…` opens them, compiled by any compiler. */

#include "hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    open_and_use(bytes, size);
    return 0;
}

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned int draws);

/* Half of the changes are ours, which keep the header well formed; the fuzzer's own rarely do. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t most, unsigned int draws) {
    seed = draws * 2654435761ull + 1u;
    size_t header = size < 8 ? 0 : (size_t)bytes[0] + ((size_t)bytes[1] << 8) + 8;
    if (!header || header > size || draw(2)) return LLVMFuzzerMutate(bytes, size, most);
    size_t length = mutate((char *)bytes, size, header);
    return length ? length : 1;
}
