// chain PAGES UNUSED: a guest in 64-bit mode writes to each of PAGES pages once, in user mode, then
// to a port. Exits with 10 where there is no KVM.
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { SIZE = 16 << 20, CODE = 0x10000, DATA = 4 << 20, TABLES = 0x1000, USER = 7, PAGE = 4096 };

// Identity mapping of all memory: four levels, with 4 KiB pages.
static void map(uint64_t *memory) {
    memory[TABLES / 8] = (TABLES + PAGE) | USER;
    memory[(TABLES + PAGE) / 8] = (TABLES + 2 * PAGE) | USER;
    for (int i = 0; i < SIZE / PAGE; i++) memory[(TABLES + 3 * PAGE) / 8 + i] = i * PAGE | USER;
    for (int i = 0; i < SIZE / PAGE / 512; i++)
        memory[(TABLES + 2 * PAGE) / 8 + i] = (TABLES + (3 + i) * PAGE) | USER;
}

int main(int argc, char **argv) {
    int pages = atoi(argv[1]), kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0);
    if (kvm < 0 || vm < 0) return 10;
    uint8_t *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct kvm_userspace_memory_region all = {0, 0, 0, SIZE, (uintptr_t)memory};
    madvise(memory, SIZE, MADV_NOHUGEPAGE);
    if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &all)) return 11;
    map((uint64_t *)memory);
    // mov edi, DATA; mov ecx, pages; 1: mov byte [rdi], 1; add rdi, 4096; dec ecx; jnz 1b
    // out dx, al
    uint8_t code[] = {0xbf, 0, 0, 0x40, 0, 0xb9, 0, 0, 0, 0, 0xc6, 7, 1,
                      0x48, 0x81, 0xc7, 0, 0x10, 0, 0, 0xff, 0xc9, 0x75, 0xf2, 0xee};
    memcpy(code + 6, &pages, 4);
    memcpy(memory + CODE, code, sizeof code);
    int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0), size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    struct kvm_run *run = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
    struct kvm_regs regs = {.rip = CODE, .rflags = 0x3002, .rsp = 0x20000};    // IOPL 3
    struct kvm_sregs s;
    if (ioctl(vcpu, KVM_GET_SREGS, &s)) return 12;
    s.cr0 = 0x80000001, s.cr3 = TABLES, s.cr4 = 0x20, s.efer = 0x500;
    s.cs = (struct kvm_segment){.limit = -1, .selector = 11, .type = 11, .present = 1, .dpl = 3,
                                .s = 1, .l = 1, .g = 1};
    s.ds = (struct kvm_segment){.limit = -1, .selector = 19, .type = 3, .present = 1, .dpl = 3,
                                .db = 1, .s = 1, .g = 1};
    s.es = s.fs = s.gs = s.ss = s.ds;
    if (ioctl(vcpu, KVM_SET_SREGS, &s) || ioctl(vcpu, KVM_SET_REGS, &regs)) return 13;
    if (ioctl(vcpu, KVM_RUN, 0) || run->exit_reason != KVM_EXIT_IO) return 14;
    for (int i = 0; i < pages; i++)
        if (memory[DATA + i * PAGE] != 1) return 15;
    return 0;
}
