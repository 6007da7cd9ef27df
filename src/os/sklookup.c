// The BPF program that steers connections at socket lookup:
//	pass unless the protocol is TCP
//	pass if the destination is 127/8 (IPv4) or ::1 (all four words)
//	socket = map[0]; pass if there is none: the connection is refused
//	assign the socket, release it, pass
// The map is a SOCKMAP of one entry: the kernel removes a socket from it on close. Link, program
// and map hold each other in this order, so only the link must be kept open.
//
// syscalls: bpf close
#include "os/sklookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct bpf_sk_lookup, name)

enum { R0, R1, R2, R3, R6 = 6, R7, FRAME = 10 };

// Jump targets; labels are replaced by instruction numbers when all are known.
enum label { NEXT, V4, STEER, PASS, LABELS };

struct line {
	struct bpf_insn code;
	enum label to;	 // NEXT: no jump
	enum label here; // NEXT: not a target
};

#define OP(op, dst, src, value)                                                                    \
	{                                                                                          \
		.code = {.code = (op), .dst_reg = (dst), .src_reg = (src), .imm = (value) }        \
	}
#define MOVE(dst, src) OP(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0)
#define SET(dst, value) OP(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, value)
#define CALL(function) OP(BPF_JMP | BPF_CALL, 0, 0, function)
#define LOAD(size, dst, field)                                                                     \
	{                                                                                          \
		.code = {                                                                          \
			.code = BPF_LDX | BPF_MEM | (size),                                        \
			.dst_reg = (dst),                                                          \
			.src_reg = R6,                                                             \
			.off = (field)                                                             \
		}                                                                                  \
	}
#define JUMP(op, value, label)                                                                     \
	{                                                                                          \
		.code = {.code = BPF_JMP | (op) | BPF_K, .dst_reg = R0, .imm = (int)(value)},      \
		.to = (label)                                                                      \
	}

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int make_map(int listener)
{
	union bpf_attr make = {
		.map_type = BPF_MAP_TYPE_SOCKMAP,
		.key_size = sizeof(uint32_t),
		.value_size = sizeof(uint32_t),
		.max_entries = 1,
	};
	uint32_t key = 0, value = (uint32_t)listener;
	int map = bpf(BPF_MAP_CREATE, &make);
	union bpf_attr put = {
		.map_fd = (uint32_t)map,
		.key = (uintptr_t)&key,
		.value = (uintptr_t)&value,
	};

	if (map >= 0 && bpf(BPF_MAP_UPDATE_ELEM, &put)) {
		close(map);
		return -1;
	}
	return map;
}

static void sklookup_resolve(const struct line *lines, int count, struct bpf_insn *out)
{
	int at[LABELS] = {0};

	for (int i = 0; i < count; i++)
		at[lines[i].here] = i;
	for (int i = 0; i < count; i++) {
		out[i] = lines[i].code;
		if (lines[i].to != NEXT)
			out[i].off = (int16_t)(at[lines[i].to] - i - 1);
	}
}

static int sklookup_load(int map)
{
	const struct line lines[] = {
		MOVE(R6, R1),
		LOAD(BPF_W, R0, FIELD(protocol)),
		JUMP(BPF_JNE, IPPROTO_TCP, PASS),
		LOAD(BPF_W, R0, FIELD(family)),
		JUMP(BPF_JEQ, AF_INET, V4),
		LOAD(BPF_W, R0, FIELD(local_ip6[0])),
		JUMP(BPF_JNE, 0, STEER),
		LOAD(BPF_W, R0, FIELD(local_ip6[1])),
		JUMP(BPF_JNE, 0, STEER),
		LOAD(BPF_W, R0, FIELD(local_ip6[2])),
		JUMP(BPF_JNE, 0, STEER),
		LOAD(BPF_W, R0, FIELD(local_ip6[3])),
		JUMP(BPF_JEQ, htonl(1), PASS),
		JUMP(BPF_JA, 0, STEER),
		{.code = {.code = BPF_LDX | BPF_MEM | BPF_B,
			  .dst_reg = R0,
			  .src_reg = R6,
			  .off = FIELD(local_ip4)},
		 .here = V4}, // its first byte
		JUMP(BPF_JEQ, 127, PASS),
		{.code = {.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = FRAME, .off = -4},
		 .here = STEER}, // the key
		OP(BPF_LD | BPF_DW | BPF_IMM, R1, BPF_PSEUDO_MAP_FD, map),
		OP(0, 0, 0, 0),
		MOVE(R2, FRAME),
		OP(BPF_ALU64 | BPF_ADD | BPF_K, R2, 0, -4),
		CALL(BPF_FUNC_map_lookup_elem),
		JUMP(BPF_JEQ, 0, PASS),
		MOVE(R7, R0),
		MOVE(R1, R6),
		MOVE(R2, R7),
		SET(R3, 0),
		CALL(BPF_FUNC_sk_assign),
		MOVE(R1, R7),
		CALL(BPF_FUNC_sk_release),
		{.code = {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = R0, .imm = SK_PASS},
		 .here = PASS},
		OP(BPF_JMP | BPF_EXIT, 0, 0, 0),
	};
	const int count = sizeof(lines) / sizeof(*lines);
	struct bpf_insn code[sizeof(lines) / sizeof(*lines)];
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SK_LOOKUP,
		.expected_attach_type = BPF_SK_LOOKUP,
		.insns = (uintptr_t)code,
		.insn_cnt = (uint32_t)count,
		.license = (uintptr_t) "MIT",
		.prog_name = "cove_steer",
	};

	sklookup_resolve(lines, count, code);
	return bpf(BPF_PROG_LOAD, &attr);
}

int sklookup_steer(int netns, int listener)
{
	int map = make_map(listener);
	int program = map < 0 ? -1 : sklookup_load(map);
	union bpf_attr attr = {
		.link_create = {.prog_fd = (uint32_t)program,
				.target_fd = (uint32_t)netns,
				.attach_type = BPF_SK_LOOKUP},
	};
	int link = program < 0 ? -1 : bpf(BPF_LINK_CREATE, &attr);
	int failure = errno;

	if (map >= 0)
		close(map);
	if (program >= 0)
		close(program);
	errno = failure;
	return link;
}
