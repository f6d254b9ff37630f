/* loads NAME SECONDS: runs one load until the time is over, in as many processes as it has: one that
   keeps a CPU busy, more that wait. The natural loads of the monitors. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256 };
static char data[64 * 1024];

/* A file of PAGES pages on the disk of the current folder; it has no name. */
static int file(void) {
  char name[] = "load-XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  for (int i = 0; i < PAGES; i++)
    if (write(fd, data, PAGE) != PAGE) exit(1);
  fsync(fd);
  return fd;
}

static struct sockaddr_in address(int socket) {
  struct sockaddr_in to = { .sin_family = AF_INET };
  socklen_t length = sizeof to;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(socket, (void *)&to, sizeof to) || getsockname(socket, (void *)&to, &length)) exit(1);
  return to;
}

static void files(void) {                      /* reads and writes of cached pages */
  static int fd = -1;
  if (fd < 0) fd = file();
  for (int i = 0; i < PAGES; i++)
    if (pread(fd, data, PAGE, i * PAGE) + pwrite(fd, data, PAGE, i * PAGE) != 2 * PAGE) exit(1);
}

static void mapped(void) {                     /* faults of cached pages, and anonymous ones */
  static int fd = -1;
  if (fd < 0) fd = file();
  char *cached = mmap(0, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
  char *own = mmap(0, PAGES * PAGE, PROT_WRITE | PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(own, PAGES * PAGE, MADV_NOHUGEPAGE);
  for (int i = 0; i < PAGES; i++) own[i * PAGE] = cached[i * PAGE];
  munmap(cached, PAGES * PAGE);
  munmap(own, PAGES * PAGE);
}

static void dirty(void) {                      /* pages that become dirty, and are truncated */
  static int fd = -1;
  if (fd < 0) fd = file();
  for (int i = 0; i < PAGES; i++)
    if (pwrite(fd, data, PAGE, i * PAGE) != PAGE) exit(1);
  if (ftruncate(fd, 0)) exit(1);
}

static void direct(void) {                     /* requests to the disk */
  static int fd = -1;
  if (fd < 0) fcntl(fd = file(), F_SETFL, O_DIRECT);
  char *aligned = (char *)(((unsigned long)data + PAGE - 1) / PAGE * PAGE);
  for (int i = 0; i < PAGES; i++)
    if (pread(fd, aligned, PAGE, i * PAGE) != PAGE) exit(1);
}

static void synced(void) {                     /* writes that go to the disk at once */
  static int fd = -1;
  if (fd < 0) fd = file();
  if (pwrite(fd, data, 100, 0) != 100 || fdatasync(fd)) exit(1);
}

static void executed(void) {                   /* programs that end at once */
  pid_t child = vfork();
  if (child == 0) _exit(execl("/bin/true", "true", NULL));
  waitpid(child, NULL, 0);
}

static void opens(void) {
  for (int i = 0; i < 1000; i++) close(open("/dev/null", O_RDONLY));
}

static void packets(void) {                    /* datagrams over the loopback device */
  static int from, to;
  static struct sockaddr_in at;
  if (!to) {
    from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    at = address(to);
  }
  for (int i = 0; i < 1000; i++) {
    sendto(from, data, 100, 0, (void *)&at, sizeof at);
    recv(to, data, 100, 0);
  }
}

static void dropped(void) {                    /* datagrams to a port without a socket */
  static int from;
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(9) };
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!from) from = socket(AF_INET, SOCK_DGRAM, 0);
  for (int i = 0; i < 1000; i++) sendto(from, data, 100, 0, (void *)&at, sizeof at);
}

static void connections(void) {                /* connections that carry 100 bytes */
  static int listener;
  static struct sockaddr_in at;
  if (!listener) {
    listener = socket(AF_INET, SOCK_STREAM, 0);
    at = address(listener);
    listen(listener, 10);
  }
  int client = socket(AF_INET, SOCK_STREAM, 0);
  struct linger reset = { .l_onoff = 1 };      /* else all ports are in TIME_WAIT soon */
  setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  if (connect(client, (void *)&at, sizeof at)) exit(1);
  int server = accept(listener, 0, 0);
  if (send(client, data, 100, 0) + recv(server, data, 100, 0) != 200) exit(1);
  close(client);
  close(server);
}

static void stream(void) {                     /* a connection that carries many small messages */
  static int client, server;
  if (!client) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = address(listener);
    listen(listener, 1);
    client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, (void *)&at, sizeof at)) exit(1);
    server = accept(listener, 0, 0);
  }
  for (int i = 0; i < 1000; i++)
    if (send(client, data, 100, 0) + recv(server, data, 100, MSG_WAITALL) != 200) exit(1);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *contends(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    sched_yield();
    pthread_mutex_unlock(&lock);
  }
  return 0;
}
static void locks(void) {                      /* a mutex that four threads contend for */
  static pthread_t threads[4];
  if (!threads[0])
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, contends, 0);
  usleep(10000);
}

static void *volatile block;

static void heap(void) {
  for (int i = 0; i < 1000; i++) free(block = malloc(100 + i));
}

static void names(void) {                      /* look-ups that need no server */
  struct addrinfo *found, how = { .ai_flags = AI_NUMERICHOST };
  for (int i = 0; i < 1000; i++)
    if (getaddrinfo("127.0.0.1", 0, &how, &found) == 0) freeaddrinfo(found);
}

static void signals(void) {
  signal(SIGUSR1, SIG_IGN);
  for (int i = 0; i < 1000; i++) raise(SIGUSR1);
}

static void pin(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
}

static void switches(void) {                   /* a byte goes to another process and back */
  static int there[2], back[2];
  char byte = 0;
  if (!there[1]) {
    if (pipe(there) || pipe(back)) exit(1);
    pin(0);                                    /* both on one CPU: no waits for the other CPU */
    if (fork() == 0) {
      close(there[1]);
      close(back[0]);
      while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) { }
      exit(0);
    }
  }
  for (int i = 0; i < 1000; i++)
    if (write(there[1], &byte, 1) + read(back[0], &byte, 1) != 2) exit(1);
}

static void moves(void) {                      /* the task goes from CPU to CPU */
  for (int i = 0; i < 1000; i++) pin(i % 2);
}

static void containers(void) {                 /* some of everything */
  switches();
  mapped();
  packets();
}

static void sleeps(void) {                     /* timers of 1 us */
  struct timespec time = { .tv_nsec = 1000 };
  for (int i = 0; i < 100; i++) nanosleep(&time, 0);
}

static void spin(void) {
  for (volatile int i = 0; i < 1000000; i++) { }
}

static const struct { const char *name; void (*load)(void); int processes; } LOADS[] = {
  { "files", files, 1 }, { "mapped", mapped, 1 }, { "dirty", dirty, 1 }, { "direct", direct, 4 },
  { "synced", synced, 4 }, { "executed", executed, 1 }, { "opens", opens, 1 },
  { "packets", packets, 1 }, { "dropped", dropped, 1 }, { "connections", connections, 1 },
  { "stream", stream, 1 }, { "locks", locks, 1 }, { "heap", heap, 1 }, { "names", names, 1 },
  { "signals", signals, 1 }, { "switches", switches, 1 }, { "moves", moves, 1 },
  { "containers", containers, 1 }, { "sleeps", sleeps, 16 }, { "spin", spin, 1 },
};

int main(int argc, char **argv) {
  time_t end = time(0) + (argc > 2 ? atoi(argv[2]) : 0);
  signal(SIGPIPE, SIG_IGN);
  for (unsigned i = 0; i < sizeof LOADS / sizeof *LOADS; i++)
    if (argc > 2 && strcmp(LOADS[i].name, argv[1]) == 0) {
      for (int n = 1; n < LOADS[i].processes; n++)
        if (fork() == 0) break;
      while (time(0) < end) LOADS[i].load();
      return 0;
    }
  return 2;
}
