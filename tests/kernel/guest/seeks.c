/* Calls lseek 500 times with 0, 1, 2 …, in this process and in a child. Without a libc, so that it
 * can also be built for 32 bits. */
#ifdef __x86_64__
enum { SEEK = 8, FORK = 57, EXIT = 60, WAIT = 61, MEMFD = 319 };
static long call(long n, long a, long b, long c) {
  register long d __asm__("r10") = 0;
  __asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(d) : "rcx", "r11", "memory");
  return n;
}
#else
enum { EXIT = 1, FORK = 2, SEEK = 19, WAIT = 114, MEMFD = 356 };
static long call(long n, long a, long b, long c) {
  __asm__ volatile("int $0x80" : "+a"(n) : "b"(a), "c"(b), "d"(c), "S"(0) : "memory");
  return n;
}
#endif
void _start(void) {
  long file = call(MEMFD, (long)"seeks", 0, 0), child = call(FORK, 0, 0, 0);
  for (long i = 0; i < 500; i++) call(SEEK, file, i, 0);
  if (child > 0) call(WAIT, child, 0, 0);
  for (;;) call(EXIT, file < 0 || child < 0, 0, 0);
}
