// A table from system-call numbers to verdicts, compiled to a seccomp program: runs of one verdict
// become a binary tree, so that a filter of 300 calls has some 150 instructions.
#pragma once

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#define BPF_CALLS 512 // numbers at or above this get the table's `otherwise`
#define BPF_CODE_MAX 2048

// Loads the low half of argument `n`: the kernel reads an int from it, whatever the high half is.
#define BPF_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * (n))
#define BPF_ARG_HIGH(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 20 + 8 * (n))
#define BPF_IF(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define BPF_IF_ANY(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, yes, no)
#define BPF_IF_OVER(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, k, yes, no)
#define BPF_MASK(k) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, k)
#define BPF_SAY(action) BPF_STMT(BPF_RET | BPF_K, action)

struct bpf_table {
	uint32_t arch;	    // AUDIT_ARCH_ word
	uint32_t bad_arch;  // the verdict for every other, x32 included
	uint32_t otherwise; // for numbers that were not set
	struct {
		uint32_t action;
		const struct sock_filter *block; // instead of the action; ends with BPF_SAY
		uint16_t block_len;
	} calls[BPF_CALLS];
};

void bpf_begin(struct bpf_table *table, uint32_t arch, uint32_t bad_arch, uint32_t otherwise);
// A number that the architecture lacks (negative) is left out: it gets `otherwise`.
void bpf_set(struct bpf_table *table, int number, uint32_t action);
void bpf_set_block(struct bpf_table *table, int number, const struct sock_filter *block,
		   size_t len);
// Writes the program to `room`; returns its length, 0 if it does not fit.
size_t bpf_compile(const struct bpf_table *table, struct sock_filter *room, size_t size);
