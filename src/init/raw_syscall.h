// System calls without a C library. Children that share their parent's memory share its errno too,
// and must not touch it while the parent runs. Returns the value, or -errno.
#pragma once

#include <stdint.h>
#include <sys/syscall.h>

struct clone_args;

static inline long raw_call(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
	long ret = number;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;

	__asm__ volatile("syscall"
			 : "+a"(ret)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "cc", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x8 __asm__("x8") = number;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x8)
			 : "cc", "memory");
	return x0;
#else
#error "pid 1 knows x86_64 and aarch64"
#endif
}

#define RAW_0(number) raw_call(number, 0, 0, 0, 0, 0)
#define RAW_1(number, a) raw_call(number, (long)(a), 0, 0, 0, 0)
#define RAW_2(number, a, b) raw_call(number, (long)(a), (long)(b), 0, 0, 0)
#define RAW_3(number, a, b, c) raw_call(number, (long)(a), (long)(b), (long)(c), 0, 0)
#define RAW_4(number, a, b, c, d) raw_call(number, (long)(a), (long)(b), (long)(c), (long)(d), 0)

// The child calls fn(arg) on another stack, and exits with the result.
long raw_clone3(struct clone_args *args, int (*fn)(void *), void *arg); // the stack is in `args`
// `tid` is for CLONE_PARENT_SETTID, `alive` for CLONE_CHILD_CLEARTID.
long raw_clone(unsigned long flags, void *stack_end, int *tid, int *alive, int (*fn)(void *),
	       void *arg);
// Waits until *word is not `is`, or `ms` have passed (-1: for ever). May return early. The word may
// be in memory that several processes share.
void raw_wait(const int *word, int is, int ms);
void raw_wake(const int *word);
