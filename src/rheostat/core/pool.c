/* Threads that share the rows of a product. See pool.h.
 *
 * A job is a number of shares. The asking thread, and the pool's threads that are awake, claim the next share from a
 * counter until there are no more. All atomics are sequentially consistent, and two pairs rely on it, each thread
 * writing one variable and then reading the other's:
 *
 *     a thread enters:    active + 1, then is the job still open?     the asker: closes the job, then is active 0?
 *     a thread sleeps:    sleepers + 1, then is there a new job?      the asker: opens a job, then are there sleepers?
 *
 * So no thread touches a job that was closed, and none sleeps through one. */

#include "pool.h"

#include "core.h"

#include <stdatomic.h>
#include <string.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef CRITICAL_SECTION lock;
typedef CONDITION_VARIABLE condition;
typedef HANDLE thread;
#else
#include <pthread.h>
typedef pthread_mutex_t lock;
typedef pthread_cond_t condition;
typedef pthread_t thread;
#endif

/* How often a variable is checked before sleeping: tens of microseconds, longer than the work between two products. */
enum { LOOKS = 2000 };

struct rheo_pool {
    rheo_workers workers;
    lock guard; /* of both conditions */
    condition opened, emptied;
    void (*work)(void *job, int32_t share); /* these three are written while no job is open */
    void *job;
    int32_t shares;
    char apart_1[RHEO_LINE]; /* what many threads write has its own cache lines */
    atomic_flag is_taken;    /* by a thread that asks */
    atomic_uint open;        /* the number of the job, odd; even: there is none */
    atomic_int sleepers;
    atomic_int is_waiting;   /* the asker sleeps until nobody is active */
    atomic_int is_ending;
    char apart_2[RHEO_LINE];
    atomic_int next;         /* share to be claimed */
    char apart_3[RHEO_LINE];
    atomic_int active;       /* threads that may be working on the job */
    char apart_4[RHEO_LINE];
    int32_t count;           /* threads that were started */
    thread threads[1];       /* rheo_pool_bytes tells how many there are */
};

/* --- what systems call differently -------------------------------------------------------------------------------- */

static void work_for(rheo_pool *pool);

#ifdef _WIN32
static int make_guard(rheo_pool *pool) {
    InitializeCriticalSection(&pool->guard);
    InitializeConditionVariable(&pool->opened);
    InitializeConditionVariable(&pool->emptied);
    return 1;
}
static void drop_guard(rheo_pool *pool) { DeleteCriticalSection(&pool->guard); }
static void enter(rheo_pool *pool) { EnterCriticalSection(&pool->guard); }
static void leave(rheo_pool *pool) { LeaveCriticalSection(&pool->guard); }
static void await(rheo_pool *pool, condition *when) { SleepConditionVariableCS(when, &pool->guard, INFINITE); }
static void wake_all(condition *when) { WakeAllConditionVariable(when); }
static DWORD WINAPI begin(void *pool) {
    work_for(pool);
    return 0;
}
static int start_thread(rheo_pool *pool, thread *started) {
    *started = CreateThread(NULL, 0, begin, pool, 0, NULL);
    return *started != NULL;
}
static void join_thread(thread started) {
    WaitForSingleObject(started, INFINITE);
    CloseHandle(started);
}
#else
static int make_guard(rheo_pool *pool) {
    if (pthread_mutex_init(&pool->guard, NULL)) return 0;
    if (!pthread_cond_init(&pool->opened, NULL)) {
        if (!pthread_cond_init(&pool->emptied, NULL)) return 1;
        pthread_cond_destroy(&pool->opened);
    }
    pthread_mutex_destroy(&pool->guard);
    return 0;
}
static void drop_guard(rheo_pool *pool) {
    pthread_cond_destroy(&pool->emptied);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->guard);
}
static void enter(rheo_pool *pool) { pthread_mutex_lock(&pool->guard); }
static void leave(rheo_pool *pool) { pthread_mutex_unlock(&pool->guard); }
static void await(rheo_pool *pool, condition *when) { pthread_cond_wait(when, &pool->guard); }
static void wake_all(condition *when) { pthread_cond_broadcast(when); }
static void *begin(void *pool) {
    work_for(pool);
    return NULL;
}
static int start_thread(rheo_pool *pool, thread *started) { return !pthread_create(started, NULL, begin, pool); }
static void join_thread(thread started) { pthread_join(started, NULL); }
#endif

/* Tells the processor that this is a spin loop. */
static void rest(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* --- the pool's threads ------------------------------------------------------------------------------------------- */

static void claim_shares(rheo_pool *pool) {
    for (int32_t share; (share = atomic_fetch_add(&pool->next, 1)) < pool->shares;) pool->work(pool->job, share);
}

/* Whether there is a job other than `last`, or the pool ends. */
static int is_called(rheo_pool *pool, unsigned last) {
    unsigned job = atomic_load(&pool->open);
    return (job % 2 && job != last) || atomic_load(&pool->is_ending);
}

static void await_call(rheo_pool *pool, unsigned last) {
    for (int32_t look = 0; look < LOOKS; look++) {
        if (is_called(pool, last)) return;
        rest();
    }
    enter(pool);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!is_called(pool, last)) await(pool, &pool->opened);
    atomic_fetch_sub(&pool->sleepers, 1);
    leave(pool);
}

static void work_for(rheo_pool *pool) {
    unsigned last = 0;
    for (;;) {
        await_call(pool, last);
        if (atomic_load(&pool->is_ending)) return;
        atomic_fetch_add(&pool->active, 1);
        unsigned job = atomic_load(&pool->open);
        if (job % 2) {
            claim_shares(pool);
            last = job;
        }
        if (atomic_fetch_sub(&pool->active, 1) == 1 && atomic_load(&pool->is_waiting)) {
            enter(pool);
            wake_all(&pool->emptied);
            leave(pool);
        }
    }
}

/* --- the thread that asks ----------------------------------------------------------------------------------------- */

static void await_others(rheo_pool *pool) {
    for (int32_t look = 0; look < LOOKS; look++) {
        if (!atomic_load(&pool->active)) return;
        rest();
    }
    enter(pool);
    atomic_store(&pool->is_waiting, 1);
    while (atomic_load(&pool->active)) await(pool, &pool->emptied);
    atomic_store(&pool->is_waiting, 0);
    leave(pool);
}

static void run(void *memory, void (*work)(void *job, int32_t share), void *job, int32_t shares) {
    rheo_pool *pool = memory;
    if (atomic_flag_test_and_set(&pool->is_taken)) { /* another thread asks at the same time */
        for (int32_t share = 0; share < shares; share++) work(job, share);
        return;
    }
    pool->work = work;
    pool->job = job;
    pool->shares = shares;
    atomic_store(&pool->next, 0);
    atomic_fetch_add(&pool->open, 1);
    if (atomic_load(&pool->sleepers)) {
        enter(pool);
        wake_all(&pool->opened);
        leave(pool);
    }
    claim_shares(pool);
    atomic_fetch_add(&pool->open, 1);
    await_others(pool);
    atomic_flag_clear(&pool->is_taken);
}

/* --- starting and stopping ---------------------------------------------------------------------------------------- */

size_t rheo_pool_bytes(int32_t threads) {
    size_t more = threads < 2 || threads > RHEO_MAX_THREADS ? 0 : (size_t)threads - 2;
    return rheo_lines(sizeof(rheo_pool) + more * sizeof(thread));
}

rheo_status rheo_pool_start(rheo_pool **pool, int32_t threads, void *memory, size_t bytes, rheo_error *error) {
    rheo_pool *made = memory;
    if (threads < 1 || threads > RHEO_MAX_THREADS) {
        return rheo_fail(error, RHEO_BAD_ARGUMENT, "a pool has 1 to 1024 threads", NULL);
    }
    if (!memory || (uintptr_t)memory % RHEO_ALIGNMENT || bytes < rheo_pool_bytes(threads)) {
        return rheo_fail(error, RHEO_NO_ROOM, "the pool's memory is too small or not aligned to 16 bytes", NULL);
    }
    memset(made, 0, rheo_pool_bytes(threads));
    atomic_flag_clear(&made->is_taken);
    made->workers.threads = threads;
    made->workers.pool = made;
    made->workers.run = run;
    if (!make_guard(made)) return rheo_fail(error, RHEO_NO_THREADS, "the system has no more locks", NULL);
    for (; made->count < threads - 1; made->count++) {
        if (start_thread(made, &made->threads[made->count])) continue;
        rheo_pool_stop(made);
        return rheo_fail(error, RHEO_NO_THREADS, "the system has no more threads", NULL);
    }
    *pool = made;
    return RHEO_OK;
}

const rheo_workers *rheo_pool_workers(const rheo_pool *pool) { return &pool->workers; }

void rheo_pool_stop(rheo_pool *pool) {
    enter(pool);
    atomic_store(&pool->is_ending, 1);
    wake_all(&pool->opened);
    leave(pool);
    for (int32_t number = 0; number < pool->count; number++) join_thread(pool->threads[number]);
    drop_guard(pool);
}
