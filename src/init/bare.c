#include "init/bare.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <stddef.h>
#include <time.h>

long bare_clone(struct clone_args *args, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
	long ret = SYS_clone3;

	__asm__ volatile(
		"syscall\n\t"
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
		: "D"(args),
		  "S"(sizeof(*args)), [fn] "r"(fn), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
		: "rcx", "r11", "cc", "memory");
	return ret;
#else
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = sizeof(*args);
	register long x8 __asm__("x8") = SYS_clone3;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x0, %[arg]\n\t"
			 "blr %[fn]\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc #0\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x1),
			   "r"(x8), [fn] "r"(fn), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
			 : "cc", "memory");
	return x0;
#endif
}

void bare_wait(const int *word, int is, int ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

	BARE_4(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, ms < 0 ? NULL : &time);
}

void bare_wake(const int *word)
{
	BARE_3(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX);
}
