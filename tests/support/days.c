/* A worse disk and a worse clock for the program under test, through LD_PRELOAD.
 *
 * DAYS_EIO:  while this file exists, fsync and fdatasync fail with EIO.
 * DAYS_WALL: the wall clock is ahead by as many seconds as this file says; no other clock is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int disk_is_bad(void)
{
    const char *flag = getenv("DAYS_EIO");
    return flag && access(flag, F_OK) == 0;
}

int fdatasync(int fd)
{
    if (disk_is_bad()) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    if (disk_is_bad()) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_fsync, fd);
}

static long ahead(void)
{
    const char *path = getenv("DAYS_WALL");
    char text[32] = {0};
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    return len > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int saved = errno;
    int result = syscall(SYS_clock_gettime, clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec += ahead();
        errno = saved;
    }
    return result;
}

time_t time(time_t *out)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (out)
        *out = at.tv_sec;
    return at.tv_sec;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
