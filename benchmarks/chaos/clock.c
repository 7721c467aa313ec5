/* Makes the wall clock of a process wrong by as many seconds as the file $CHAOS_CLOCK says, at every
   moment anew. Clocks that only go forward stay right: what waits for a time waits by them.
   (libfaketime 0.9.10 makes clock_nanosleep fail when it leaves the monotonic clock alone.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long step(void) {
    const char *file = getenv("CHAOS_CLOCK");
    char text[32];
    int target = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (target < 0) return 0;
    ssize_t size = read(target, text, sizeof text - 1);
    close(target);
    text[size > 0 ? size : 0] = 0;
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    (void)zone;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
