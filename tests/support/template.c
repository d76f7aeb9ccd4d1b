/* A template, as docs/worker-protocol.md has it. Its arguments say how each fork goes; the last one goes for all later.
 * A job child reads one line from its channel and becomes `sh -c` with it; BORN says in which cgroup it was born. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHANNEL = 3, FORKS = 4, ENDS = 3 };

static pid_t keeper;
static const char *how;

static int is(const char *name)
{
    return strcmp(how, name) == 0;
}

static void say(uint64_t number)
{
    if (send(FORKS, &number, sizeof number, MSG_NOSIGNAL) != sizeof number)
        _exit(99);
}

static void grandchild_says(uint64_t number)
{
    pid_t pid = fork();
    if (pid == 0) {
        say(number);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    for (;;)
        pause();
}

static void note_birthplace(void)
{
    char line[4096];
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = 0;
            setenv("BORN", line + 3, 1);
        }
    if (file)
        fclose(file);
}

static void job(uint64_t number, int fds[ENDS])
{
    note_birthplace();
    while (is("late") && access(getenv("TV_GATE"), F_OK) != 0)
        usleep(1000);
    if (is("mute"))
        for (;;)
            pause();
    if (is("dies unheard"))
        _exit(5);
    if (is("lets a grandchild speak"))
        grandchild_says(number);
    say(is("lies") ? number + 1000 : number);
    if (is("speaks and dies"))
        _exit(6);
    if (is("repeats itself")) {
        say(number);
        for (;;)
            pause();
    }
    close(FORKS);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(fds[1], 1);
    dup2(fds[2], 2);
    dup2(fds[0], CHANNEL);
    close_range(4, ~0U, 0);
    char line[4096];
    size_t len = 0;
    while (len + 1 < sizeof line && read(CHANNEL, line + len, 1) == 1 && line[len] != '\n')
        len++;
    if (len == 0)
        _exit(0);
    line[len] = 0;
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(127);
}

/* A fork into the cgroup, if there is one and it may be done. With CLONE_PARENT the signal must be 0: it is our own. */
static long born(int cgroup, uint64_t flags)
{
    struct clone_args args = { .flags = flags | CLONE_INTO_CGROUP, .cgroup = cgroup };
    args.exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD;
    long pid = cgroup < 0 ? -1 : syscall(SYS_clone3, &args, sizeof args);
    return pid < 0 ? syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0) : pid;
}

static void sibling(uint64_t number, int fds[ENDS], int cgroup)
{
    if (born(cgroup, CLONE_PARENT) == 0)
        job(number, fds);
}

static void adopted(uint64_t number, int fds[ENDS], int cgroup)
{
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    pid_t middle = fork();
    if (middle == 0) {
        if (born(cgroup, 0) == 0) {
            while (getppid() != keeper)
                sched_yield();
            job(number, fds);
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
}

static void fail(uint64_t number)
{
    int32_t why = EAGAIN;
    char word[12];
    memcpy(word, &number, 8);
    memcpy(word + 8, &why, 4);
    send(FORKS, word, sizeof word, MSG_NOSIGNAL);
}

/* The fourth descriptor comes only where lives have cgroups. */
static int receive(uint64_t *number, int fds[ENDS], int *cgroup)
{
    char control[CMSG_SPACE((ENDS + 1) * sizeof(int))];
    struct iovec part = { number, sizeof *number };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ssize_t len = recvmsg(FORKS, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (len != sizeof *number || !head)
        return 0;
    memcpy(fds, CMSG_DATA(head), ENDS * sizeof(int));
    *cgroup = -1;
    if (head->cmsg_len == CMSG_LEN((ENDS + 1) * sizeof(int)))
        memcpy(cgroup, CMSG_DATA(head) + ENDS * sizeof(int), sizeof(int));
    return 1;
}

int main(int argc, char **argv)
{
    uint64_t number;
    int fds[ENDS], cgroup, turn = 0;
    keeper = getppid();
    send(CHANNEL, "up\n", 3, MSG_NOSIGNAL);
    while (receive(&number, fds, &cgroup)) {
        how = argv[turn + 1 < argc ? ++turn : argc - 1];
        if (is("leaves"))
            return 7;
        if (is("fails")) {
            fail(number);
        } else if (is("fails and leaves another there")) {
            if (born(cgroup, 0) == 0)
                for (;;)
                    pause();
            fail(number);
        } else if (is("has threads")) {
            adopted(number, fds, cgroup);
        } else if (is("has threads and knows no cgroup")) {
            adopted(number, fds, -1);
        } else {
            if (is("has no rights any more"))
                setresuid(4711, 4711, 4711);
            sibling(number, fds, is("knows no cgroup") ? -1 : cgroup);
        }
        for (int i = 0; i < ENDS; i++)
            close(fds[i]);
        close(cgroup);
    }
    return 0;
}
