/* A guest that writes N times to a port and then halts: N + 1 exits of its virtual CPU. */
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  int n = atoi(argv[1]);
  int kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0);
  unsigned char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  /* mov cx, n; again: out 0x10, al; loop again; hlt */
  unsigned char code[] = { 0xb9, n & 0xff, n >> 8, 0xe6, 0x10, 0xe2, 0xfc, 0xf4 };
  memcpy(memory, code, sizeof code);
  struct kvm_userspace_memory_region region = { 0, 0, 0x1000, 4096, (unsigned long)memory };
  if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0) { perror("memory"); return 1; }
  int cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
  struct kvm_run *run = mmap(0, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
                             MAP_SHARED, cpu, 0);
  struct kvm_sregs special;
  ioctl(cpu, KVM_GET_SREGS, &special);
  special.cs.base = special.cs.selector = 0;
  ioctl(cpu, KVM_SET_SREGS, &special);
  struct kvm_regs registers = { .rip = 0x1000, .rflags = 2 };
  ioctl(cpu, KVM_SET_REGS, &registers);
  int ports = 0;
  for (;;) {
    if (ioctl(cpu, KVM_RUN, 0) < 0) { perror("run"); return 1; }
    if (run->exit_reason == KVM_EXIT_IO) ports++;
    else {
      printf("ports %d last %d\n", ports, run->exit_reason);
      return run->exit_reason != KVM_EXIT_HLT;
    }
  }
}
