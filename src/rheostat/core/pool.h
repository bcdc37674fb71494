/* An optional pool of threads for models that do not fit a processor's cache: rheo_pool_start, then rheo_use_workers
 * (rheostat.h). An app that does without it compiles neither this file nor pool.c.
 *
 * The threads sleep between queries: they wait on a condition variable, after spinning for some tens of microseconds.
 * The thread that asks works too, and does everything that the others have not begun, so a pool whose threads are slow
 * to wake up is hardly slower than none. Several threads may ask at once: one of them gets the pool, and the others run
 * alone. Answers are the same bit for bit, whatever the number of threads.
 *
 * Only threads and their locks come from the system; nothing is allocated. After fork(), the child has the pool's memory
 * but none of its threads: it takes the pool from its models and starts another one in other memory. */
#ifndef RHEOSTAT_POOL_H
#define RHEOSTAT_POOL_H

#include "rheostat.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RHEO_MAX_THREADS 1024 /* of a pool */

typedef struct rheo_pool rheo_pool; /* lives in the caller's memory, which must stay where it is */

/* How much memory a pool needs. threads: including the one that asks, so 2 starts one thread. */
RHEO_API size_t rheo_pool_bytes(int32_t threads);

/* Start threads - 1 threads. If the system cannot start them all, none is left running. */
RHEO_API rheo_status rheo_pool_start(rheo_pool **pool, int32_t threads, void *memory, size_t bytes, rheo_error *error);

/* What rheo_use_workers takes. Any number of models may use one pool. */
RHEO_API const rheo_workers *rheo_pool_workers(const rheo_pool *pool);

/* End the threads and wait for them. No call may be using the pool, and none may afterwards. */
RHEO_API void rheo_pool_stop(rheo_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
