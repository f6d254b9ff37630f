// Workloads that measure themselves: LOADS MODE FILE writes `name value` lines to FILE.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static FILE *out;

static double ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void spin(double time) {
    double since = ms(CLOCK_THREAD_CPUTIME_ID);
    while (ms(CLOCK_THREAD_CPUTIME_ID) - since < time) {}
}

// Spins on two CPUs in turn, with sleeps: CPU time on each, and the switches away from it.
static void spins(void) {
    double used[2] = {0, 0};
    // The stay in which a command is executed has no known start: it ends here.
    usleep(1000);
    for (int round = 0; round < 4; round++) {
        int cpu = round % 2;
        pin(cpu);
        double since = ms(CLOCK_THREAD_CPUTIME_ID);
        spin(cpu ? 60 : 30);
        used[cpu] += ms(CLOCK_THREAD_CPUTIME_ID) - since;
        usleep(20000);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(out, "cpu0 %f\ncpu1 %f\nswitches %ld\n", used[0], used[1],
            usage.ru_nvcsw + usage.ru_nivcsw);
}

// Four tasks that spin on CPU 0 at the same time: the time that they waited for it.
static void queue(void) {
    int fds[2];
    if (pipe(fds)) exit(1);
    pin(0);
    double since = ms(CLOCK_MONOTONIC);
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            double end = since + 500;
            while (ms(CLOCK_MONOTONIC) < end) {}
            unsigned long long ran, waited;
            FILE *file = fopen("/proc/self/schedstat", "r");
            if (fscanf(file, "%llu %llu", &ran, &waited) != 2) _exit(1);
            _exit(write(fds[1], &waited, sizeof waited) != sizeof waited);
        }
    }
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        unsigned long long waited;
        if (read(fds[0], &waited, sizeof waited) != sizeof waited) exit(1);
        sum += waited / 1e6;
    }
    while (wait(NULL) > 0) {}
    fprintf(out, "waited %f\nelapsed %f\n", sum, ms(CLOCK_MONOTONIC) - since);
}

// Processes that wait for CPU 0 while they exit: the kernel frees their memory, and another task
// spins on the CPU.
static void exits(void) {
    const size_t size = 100 << 20;
    pin(0);
    pid_t other = fork();
    if (other == 0) for (;;) {}
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *memory = malloc(size);
            for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static int bytes[2];
static double asleep;
static long sleeps_of_reader;

static long own_sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void *naps(void *none) {
    prctl(PR_SET_NAME, "napper");
    for (int i = 0; i < 10; i++) usleep(20000);
    return none;
}

// `read` is made here, so that the caller is on the stack although the C library has no frame
// pointers: the function that calls into it would be missing.
__attribute__((noinline)) static int waits_for_byte(void) {
    char byte;
    register long result __asm__("rax") = 0;
    register long fd __asm__("rdi") = bytes[0];
    register char *at __asm__("rsi") = &byte;
    register long size __asm__("rdx") = 1;
    __asm__ volatile("syscall"
                     : "+r"(result) : "r"(fd), "r"(at), "r"(size) : "rcx", "r11", "memory");
    return result == 1;
}

static void *reads(void *none) {
    prctl(PR_SET_NAME, "reader");
    long before = own_sleeps();
    for (int i = 0; i < 20; i++) {
        double since = ms(CLOCK_MONOTONIC);
        if (!waits_for_byte()) exit(1);
        asleep += ms(CLOCK_MONOTONIC) - since;
    }
    sleeps_of_reader = own_sleeps() - before;
    return none;
}

__attribute__((noinline)) static int gives_byte(void) {
    register long result __asm__("rax") = 1;
    register long fd __asm__("rdi") = bytes[1];
    register const char *at __asm__("rsi") = "x";
    register long size __asm__("rdx") = 1;
    __asm__ volatile("syscall"
                     : "+r"(result) : "r"(fd), "r"(at), "r"(size) : "rcx", "r11", "memory");
    return result == 1;
}

static void *gives(void *none) {
    prctl(PR_SET_NAME, "giver");
    for (int i = 0; i < 20; i++) {
        usleep(15000);
        if (!gives_byte()) exit(1);
    }
    return none;
}

// A thread that naps, one that waits for bytes, and one that writes them.
static void sleeps(void) {
    pthread_t threads[3];
    if (pipe(bytes)) exit(1);
    pthread_create(&threads[0], NULL, reads, NULL);
    usleep(50000);
    pthread_create(&threads[1], NULL, naps, NULL);
    pthread_create(&threads[2], NULL, gives, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    fprintf(out, "asleep %f\nsleeps %ld\n", asleep, sleeps_of_reader);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *holds(void *none) {
    prctl(PR_SET_NAME, "holder");
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        pthread_barrier_wait(&barrier);
        usleep(20000);
        pthread_mutex_unlock(&mutex);
        pthread_barrier_wait(&barrier);
    }
    return none;
}

static void *waits(void *none) {
    prctl(PR_SET_NAME, "waiter");
    double waited = 0;
    int waits = 0;
    for (int i = 0; i < 10; i++) {
        pthread_barrier_wait(&barrier);
        double since = ms(CLOCK_MONOTONIC);
        if (pthread_mutex_trylock(&mutex) != 0) {
            waits++;
            pthread_mutex_lock(&mutex);
        }
        waited += ms(CLOCK_MONOTONIC) - since;
        pthread_mutex_unlock(&mutex);
        pthread_barrier_wait(&barrier);
    }
    fprintf(out, "waited %f\nwaits %d\n", waited, waits);
    return none;
}

// A thread that holds a mutex ten times, and one that waits for it each time.
static void locks(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, holds, NULL);
    pthread_create(&threads[1], NULL, waits, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

struct pair { long before; pthread_mutex_t mutex; };
static struct pair left = {0, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t right;

static void *takes_left(void *none) {
    prctl(PR_SET_NAME, "lefty");
    pthread_mutex_lock(&left.mutex);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&right);
    return none;
}

static void *takes_right(void *none) {
    prctl(PR_SET_NAME, "righty");
    pthread_mutex_lock(&right);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&left.mutex);
    return none;
}

// Two threads that each hold a mutex, the right one with priority inheritance, and wait for the
// other one. Ends its parent after a while.
static void deadlock(void) {
    pthread_t threads[2];
    pthread_mutexattr_t inherits;
    pthread_mutexattr_init(&inherits);
    pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&right, &inherits);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, takes_left, NULL);
    pthread_create(&threads[1], NULL, takes_right, NULL);
    usleep(500000);
    fprintf(out, "offset %zu\n", offsetof(struct pair, mutex));
    fflush(out);
    kill(getppid(), SIGINT);
    pause();
}

// Writes 16 times 4096 bytes, 8 times 100 and 4 times 3 to /dev/null.
static void writes(void) {
    static char data[4096];
    int sizes[3] = {4096, 100, 3};
    FILE *null = fopen("/dev/null", "w");
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < 16 >> kind; i++)
            if (write(fileno(null), data, sizes[kind]) != sizes[kind]) exit(1);
}

// Moves a child that spins from one CPU to the other, 20 times.
static void moves(void) {
    pid_t child = fork();
    if (child == 0) spin(60000);
    for (int i = 0; i <= 20; i++) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(i % 2, &set);
        if (sched_setaffinity(child, sizeof set, &set)) exit(1);
        usleep(2000);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    struct { const char *name; void (*run)(void); } modes[] = {
        {"spins", spins}, {"queue", queue}, {"exits", exits},
        {"sleeps", sleeps}, {"locks", locks}, {"deadlock", deadlock}, {"writes", writes},
        {"moves", moves},
    };
    if (argc != 3 || !(out = fopen(argv[2], "w"))) return 2;
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return fclose(out);
        }
    }
    return 2;
}
