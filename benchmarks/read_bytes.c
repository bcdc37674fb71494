/* Reads bytes once and does nothing else: the lower bound for a query that reads them. Compiled by queries.py. */
#include <stddef.h>
#include <stdint.h>

uint64_t read_bytes(const uint64_t *words, size_t count) {
    uint64_t sums[32] = {0};
    for (size_t place = 0; place + 32 <= count; place += 32) {
        for (size_t lane = 0; lane < 32; lane++) sums[lane] += words[place + lane];
    }
    uint64_t total = 0;
    for (size_t lane = 0; lane < 32; lane++) total += sums[lane];
    return total;
}
