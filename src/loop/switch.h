// A switch between stacks in user space: swapcontext() would make two system calls each time.
//
// The switch is an asm statement that clobbers every register, so the compiler itself saves those
// that live across it, and unwind tables are right. Only what cannot be a clobber is saved by hand:
// the frame pointer, the resume address, and on x86_64 the control words of SSE and x87. The
// landing is a valid target of an indirect jump under BTI (bti j) and IBT (endbr64). User shadow
// stacks (SHSTK) are not switched: build with -fcf-protection=branch where the C library enables
// them.
#pragma once

#include <stdint.h>

#if defined(__clang__)
#define switch_alone __attribute__((noinline))
#else
#define switch_alone __attribute__((noinline, noipa))
#endif

#if defined(__aarch64__)

static switch_alone void switch_to(void **save, void *load)
{
	register void **save_ __asm__("x0") = save;
	register void *load_ __asm__("x1") = load;

	// x17: a jump through it may also land on the "bti c" at the start of a function.
	__asm__ volatile("adr x17, 1f\n\t"
			 "stp x29, x17, [sp, #-16]!\n\t"
			 "mov x17, sp\n\t"
			 "str x17, [x0]\n\t"
			 "mov sp, x1\n\t"
			 "ldp x29, x17, [sp], #16\n\t"
			 "br x17\n"
			 "1:\n\t"
			 "hint #36\n\t" // bti j
			 : "+r"(save_), "+r"(load_)
			 :
			 : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
			   "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22",
			   "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3",
			   "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
			   "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
			   "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
}

// A stack that ends at `top` (16-byte aligned) and begins with entry() when switched to.
static inline void *switch_prepare(void *top, void (*entry)(void))
{
	uintptr_t *sp = top;

	*--sp = (uintptr_t)entry;
	*--sp = 0; // end of the frame chain
	return sp;
}

#elif defined(__x86_64__)

static switch_alone void switch_to(void **save, void *load)
{
	register void **save_ __asm__("rdi") = save;
	register void *load_ __asm__("rsi") = load;

	// 128: the red zone below the stack pointer belongs to the compiler.
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushq %%rbp\n\t"
			 "leaq 1f(%%rip), %%rax\n\t"
			 "pushq %%rax\n\t"
			 "subq $8, %%rsp\n\t"
			 "stmxcsr (%%rsp)\n\t"
			 "fnstcw 4(%%rsp)\n\t"
			 "movq %%rsp, (%%rdi)\n\t"
			 "movq %%rsi, %%rsp\n\t"
			 "ldmxcsr (%%rsp)\n\t"
			 "fldcw 4(%%rsp)\n\t"
			 "addq $8, %%rsp\n\t"
			 "popq %%rax\n\t"
			 "popq %%rbp\n\t"
			 "leaq 128(%%rsp), %%rsp\n\t"
			 "jmpq *%%rax\n"
			 "1:\n\t"
			 "endbr64\n\t"
			 : "+r"(save_), "+r"(load_)
			 :
			 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",
			   "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
			   "xmm15", "cc", "memory");
}

static inline void *switch_prepare(void *top, void (*entry)(void))
{
	uintptr_t *sp = top;
	uint32_t words[2] = {0, 0};

	__asm__("stmxcsr %0" : "=m"(words[0]));
	__asm__("fnstcw %0" : "=m"(words[1]));
	*--sp = 0; // in place of a return address
	sp -= 128 / sizeof(*sp);
	*--sp = 0; // end of the frame chain
	*--sp = (uintptr_t)entry;
	*--sp = (uintptr_t)words[0] | (uintptr_t)words[1] << 32;
	return sp;
}

#else
#error "a switch of stacks must be written for this architecture"
#endif
