// Compiles a table of system-call numbers to a seccomp program. Runs of equal verdicts become the
// leaves of a binary search tree. A program that does not fit the given room is refused as a whole.
#include "os/bpf.h"

#include <linux/audit.h>
#include <stdbool.h>
#include <string.h>

#define X32_BIT 0x40000000u
#define JUMP_MAX 255 // the longest conditional jump

struct run {
	uint32_t start; // up to the start of the next
	uint32_t action;
	const struct sock_filter *block;
	uint16_t block_len;
};

struct code {
	struct sock_filter *at;
	size_t len, room;
	bool failed;
};

void bpf_begin(struct bpf_table *table, uint32_t arch, uint32_t bad_arch, uint32_t otherwise)
{
	memset(table, 0, sizeof(*table));
	table->arch = arch;
	table->bad_arch = bad_arch;
	table->otherwise = otherwise;
	for (int i = 0; i < BPF_CALLS; i++)
		table->calls[i].action = otherwise;
}

void bpf_set(struct bpf_table *table, int number, uint32_t action)
{
	if (number >= 0 && number < BPF_CALLS)
		table->calls[number].action = action;
}

void bpf_set_block(struct bpf_table *table, int number, const struct sock_filter *block, size_t len)
{
	if (number < 0 || number >= BPF_CALLS)
		return;
	table->calls[number].block = block;
	table->calls[number].block_len = (uint16_t)len;
}

static void bpf_add(struct code *code, struct sock_filter one)
{
	if (code->len == code->room)
		code->failed = true;
	else
		code->at[code->len++] = one;
}

static size_t find_runs(const struct bpf_table *table, struct run *runs)
{
	size_t count = 0;

	for (uint32_t i = 0; i <= BPF_CALLS; i++) {
		struct run next = {.start = i, .action = table->otherwise};

		if (i < BPF_CALLS) {
			next.action = table->calls[i].action;
			next.block = table->calls[i].block;
			next.block_len = table->calls[i].block_len;
		}
		if (count && runs[count - 1].action == next.action && !next.block &&
		    !runs[count - 1].block)
			continue;
		runs[count++] = next;
	}
	return count;
}

static void bpf_leaf(struct code *code, const struct run *run)
{
	if (!run->block) {
		bpf_add(code, (struct sock_filter)BPF_SAY(run->action));
		return;
	}
	for (uint16_t i = 0; i < run->block_len; i++)
		bpf_add(code, run->block[i]);
}

// At or above the middle run: to the right; else on to the left, which comes first. A left half
// that is too long for a conditional jump is skipped by an unconditional one, which has 32 bits.
static void tree(struct code *code, const struct run *runs, size_t count)
{
	size_t middle = count / 2;
	size_t here = code->len, left;

	if (count == 1) {
		bpf_leaf(code, runs);
		return;
	}
	bpf_add(code,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, runs[middle].start, 0, 0));
	tree(code, runs, middle);
	if (code->failed)
		return;
	left = code->len - here - 1;
	if (left <= JUMP_MAX) {
		code->at[here].jt = (uint8_t)left;
	} else {
		bpf_add(code, (struct sock_filter){0});
		if (code->failed)
			return;
		memmove(&code->at[here + 2], &code->at[here + 1], left * sizeof(*code->at));
		code->at[here].jf = 1;
		code->at[here + 1] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)left);
	}
	tree(code, runs + middle, count - middle);
}

size_t bpf_compile(const struct bpf_table *table, struct sock_filter *room, size_t size)
{
	struct code code = {.at = room, .room = size};
	static struct run runs[BPF_CALLS + 1];
	size_t count = find_runs(table, runs);

	bpf_add(&code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4));
	bpf_add(&code, (struct sock_filter)BPF_IF(table->arch, 1, 0));
	bpf_add(&code, (struct sock_filter)BPF_SAY(table->bad_arch));
	bpf_add(&code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0));
	if (table->arch == AUDIT_ARCH_X86_64) {
		bpf_add(&code,
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
		bpf_add(&code, (struct sock_filter)BPF_SAY(table->bad_arch));
	}
	tree(&code, runs, count);
	return code.failed ? 0 : code.len;
}
