/* A library to preload: it counts the calls that change files in one folder, and lets one of them fail.
 *
 * faults_arm(folder, number, kind) starts the count. The call with that number (from 1; 0: none) fails with ENOSPC or EIO,
 * or the process ends: before the call, after it, or (a write) after half of it. Only calls that could change something
 * count: opening for writing, writing, truncating, flushing, renaming, deleting, making folders, changing modes.
 *
 * faults_arm_memory(number) starts another count: requests for memory from the system's allocator. The one with that
 * number gets none. Python's small objects come from blocks of its own, so these are the requests that can fail on a
 * machine that is short of memory. Only where the C library is glibc, whose allocator has a second name.
 *
 * faults_in_copies(every, first, tells, waits) refuses many of them in one run. For each request that is due, the process is
 * copied (forked) and the copy finds no memory. Once the copy has ended, the request and how the copy ended are written
 * to `tells`, and the process goes on when it can read a byte from `waits`. Before the first copy after a change of
 * files, CHANGED is written there instead: whoever listens has to put back what the copies do to files. While a file or
 * a folder in there is open, nothing is copied, since the process would then use one that was put back. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CRASHED = 86 };
enum kind { NO_SPACE = 1, INPUT_OUTPUT, BEFORE, AFTER, HALF };

static char watched[PATH_MAX];
static long calls, failing;
static int how;
static char names[1 << 16];
static size_t used;

void faults_arm(const char *folder, long number, int kind) {
    snprintf(watched, sizeof watched, "%s", folder);
    calls = 0, failing = number, how = kind, used = 0;
}

static int counts_memory;
static long requests, refused;

/* number: 0 = none fails; below 0 = not counted. */
void faults_arm_memory(long number) { requests = 0, refused = number, counts_memory = number >= 0; }

long faults_memory(void) { return requests; }

#ifdef __GLIBC__
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

enum { CHANGED = -1, MOST_FILES = 256 };
static long every, first, seen;
static int tells, waits;

void faults_in_copies(long each, long begin, int to, int from) {
    every = each, first = begin, seen = 0, tells = to, waits = from;
}

static void tell(long status) {
    char go;
    long record[2] = {requests, status};
    if (syscall(SYS_write, tells, record, sizeof record) != sizeof record || read(waits, &go, 1) != 1) abort();
}

/* Copies the process. Whether this is the copy. A copy reads on in open files, such as fonts, and with it this process:
 * they share their places, so these are put back. */
static int is_copy(void) {
    int status, before = errno;
    off_t places[MOST_FILES];
    counts_memory = 0;
    if (seen != calls) tell(CHANGED);
    seen = calls;
    for (int descriptor = 0; descriptor < MOST_FILES; descriptor++) places[descriptor] = lseek(descriptor, 0, SEEK_CUR);
    pid_t copy = fork();
    if (copy == 0) {
        every = 0, counts_memory = 1;
        return 1;
    }
    if (copy < 0 || waitpid(copy, &status, 0) < 0) abort();
    for (int descriptor = 0; descriptor < MOST_FILES; descriptor++)
        if (places[descriptor] >= 0) lseek(descriptor, places[descriptor], SEEK_SET);
    tell(status);
    counts_memory = 1;
    errno = before;
    return 0;
}

static int is_inside_fd(int descriptor);

static int has_open_file(void) {
    int before = errno, found = 0;
    for (int descriptor = 0; descriptor < MOST_FILES && !found; descriptor++)
        found = fcntl(descriptor, F_GETFL) >= 0 && is_inside_fd(descriptor);
    errno = before;
    return found;
}

/* Only the first thread is copied: a copy of another would wait for the first. */
static int is_due(void) {
    if (!every || requests < first || (requests - first) % every) return 0;
    return syscall(SYS_gettid) == getpid() && !has_open_file();
}

/* Whether there is memory. */
static int has_memory(void) {
    if (!counts_memory) return 1;
    requests++;
    if (is_due() ? !is_copy() : requests != refused) return 1;
    errno = ENOMEM;
    return 0;
}

void *malloc(size_t size) { return has_memory() ? __libc_malloc(size) : NULL; }
void *calloc(size_t count, size_t size) { return has_memory() ? __libc_calloc(count, size) : NULL; }
void *realloc(void *block, size_t size) { return has_memory() ? __libc_realloc(block, size) : NULL; }
#endif

long faults_count(void) { return calls; }

/* Ends the process without any of its exit handlers. */
void faults_end(int code) { _exit(code); }

/* The names of the calls so far, each followed by a space. */
const char *faults_names(void) {
    names[used < sizeof names ? used : sizeof names - 1] = 0;
    return names;
}

static int is_inside(const char *path) {
    size_t length = strlen(watched);
    if (!length) return 0;
    if (path[0] == '/') return !strncmp(path, watched, length);
    char here[PATH_MAX];
    return getcwd(here, sizeof here) && !strncmp(here, watched, length);
}

static int is_inside_fd(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!watched[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_inside(path);
}

/* Counts a call. Whether this is the one that fails; if it fails with an error, errno is set. */
static int meets(const char *name) {
    calls++;
    size_t length = strlen(name);
    if (used + length + 2 < sizeof names) memcpy(names + used, name, length), used += length, names[used++] = ' ';
    if (calls != failing) return 0;
    if (how == BEFORE) _exit(CRASHED);
    if (how == NO_SPACE) errno = ENOSPC;
    if (how == INPUT_OUTPUT) errno = EIO;
    return how;
}

static int is_error(int met) { return met == NO_SPACE || met == INPUT_OUTPUT; }

static long ended(int met, long result) {
    if (met) _exit(CRASHED);
    return result;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#ifdef __GLIBC__
/* Python's blocks of small objects. Files are mapped too, and do not count. */
void *mmap(void *place, size_t size, int protection, int flags, int descriptor, off_t offset) {
    if (flags & MAP_ANONYMOUS && !has_memory()) return MAP_FAILED;
    return REAL(mmap)(place, size, protection, flags, descriptor, offset);
}
#endif

static int changes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC); }

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        int met = changes(flags) && is_inside(path) ? meets("open") : 0;                                               \
        return is_error(met) ? -1 : (int)ended(met, REAL(name)(path, flags, mode));                                    \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    int name(int at, const char *path, int flags, ...) {                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        int met = changes(flags) && (at == AT_FDCWD ? is_inside(path) : is_inside_fd(at)) ? meets("open") : 0;         \
        return is_error(met) ? -1 : (int)ended(met, REAL(name)(at, path, flags, mode));                                \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int descriptor, const void *bytes, size_t count) {
    int met = is_inside_fd(descriptor) ? meets("write") : 0;
    if (is_error(met)) return -1;
    return ended(met, REAL(write)(descriptor, bytes, met == HALF ? count / 2 : count));
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    int met = is_inside_fd(descriptor) ? meets("write") : 0;
    return is_error(met) ? -1 : ended(met, REAL(writev)(descriptor, parts, count));
}

#define ON_DESCRIPTOR(name, what, parameters, arguments)                                                               \
    int name parameters {                                                                                              \
        int met = is_inside_fd(descriptor) ? meets(what) : 0;                                                          \
        return is_error(met) ? -1 : (int)ended(met, REAL(name) arguments);                                             \
    }
ON_DESCRIPTOR(fsync, "fsync", (int descriptor), (descriptor))
ON_DESCRIPTOR(fdatasync, "fsync", (int descriptor), (descriptor))
ON_DESCRIPTOR(ftruncate, "truncate", (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(ftruncate64, "truncate", (int descriptor, off64_t size), (descriptor, size))
ON_DESCRIPTOR(fchmod, "chmod", (int descriptor, mode_t mode), (descriptor, mode))
ON_DESCRIPTOR(unlinkat, "unlink", (int descriptor, const char *path, int flags), (descriptor, path, flags))

#define ON_PATH(name, what, parameters, arguments)                                                                     \
    int name parameters {                                                                                              \
        int met = is_inside(path) ? meets(what) : 0;                                                                   \
        return is_error(met) ? -1 : (int)ended(met, REAL(name) arguments);                                             \
    }
ON_PATH(rename, "rename", (const char *path, const char *other), (path, other))
ON_PATH(renameat2, "rename", (int at, const char *path, int to, const char *other, unsigned flags), (at, path, to, other, flags))
ON_PATH(unlink, "unlink", (const char *path), (path))
ON_PATH(rmdir, "unlink", (const char *path), (path))
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode))
ON_PATH(chmod, "chmod", (const char *path, mode_t mode), (path, mode))
