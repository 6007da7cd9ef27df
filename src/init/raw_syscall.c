// Raw clone, clone3 and futex calls in assembly for x86-64 and aarch64. The C library's wrappers
// set errno and, for clone, keep state per thread; a child that shares memory with its parent must
// not.
#include "init/raw_syscall.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <stddef.h>
#include <time.h>

// The child has the caller's registers and another stack: it calls fn(arg) and exits.
static long raw_spawn(long number, const long in[5], int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
	long ret = number;
	register long r10 __asm__("r10") = in[3];
	register long r8 __asm__("r8") = in[4];

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "mov %[arg], %%rdi\n\t"
			 "call *%[fn]\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "+a"(ret)
			 : "D"(in[0]), "S"(in[1]), "d"(in[2]), "r"(r10),
			   "r"(r8), [fn] "r"(fn), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
			 : "rcx", "r11", "cc", "memory");
	return ret;
#else
	register long x0 __asm__("x0") = in[0];
	register long x1 __asm__("x1") = in[1];
	register long x2 __asm__("x2") = in[2];
	register long x3 __asm__("x3") = in[3];
	register long x4 __asm__("x4") = in[4];
	register long x8 __asm__("x8") = number;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x0, %[arg]\n\t"
			 "blr %[fn]\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc #0\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x1), "r"(x2), "r"(x3), "r"(x4),
			   "r"(x8), [fn] "r"(fn), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
			 : "cc", "memory");
	return x0;
#endif
}

long raw_clone3(struct clone_args *args, int (*fn)(void *), void *arg)
{
	return raw_spawn(SYS_clone3, (long[5]){(long)args, sizeof(*args)}, fn, arg);
}

long raw_clone(unsigned long flags, void *stack_end, int *tid, int *alive, int (*fn)(void *),
	       void *arg)
{
#if defined(__x86_64__)
	long in[5] = {(long)flags, (long)stack_end, (long)tid, (long)alive, 0};
#else
	long in[5] = {(long)flags, (long)stack_end, (long)tid, 0, (long)alive};
#endif

	return raw_spawn(SYS_clone, in, fn, arg);
}

void raw_wait(const int *word, int is, int ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

	RAW_4(SYS_futex, word, FUTEX_WAIT, is, ms < 0 ? NULL : &time);
}

void raw_wake(const int *word)
{
	RAW_3(SYS_futex, word, FUTEX_WAKE, INT32_MAX);
}
