// Steers the TCP connections of a network namespace to a listener, by nftables rules (below) or by
// a BPF program at socket lookup:
//	pass unless the protocol is TCP
//	pass if the destination is 127/8 (IPv4) or ::1 (all four words)
//	socket = map[0]; pass if there is none: the connection is refused
//	assign the socket, release it, pass
// The map is a SOCKMAP of one entry: the kernel removes a socket from it on close. Link, program
// and map hold each other in this order, so only the link must be kept open.
//
// syscalls: bpf close
#include "os/steer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/netlink.h"

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

int steer_sk_lookup(int netns, int listener)
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

// nftables rules, in one atomic batch:
//	table inet cove { chain p {
//		type filter hook prerouting priority -150;
//		ip daddr 127.0.0.0/8 accept
//		ip6 daddr ::1 accept
//		meta l4proto tcp tproxy to :PORT
//	} }
// A previous table is deleted in the same batch; that takes the kernel milliseconds, so it is tried
// without first. Packets sent over lo pass prerouting too: the box's own packets are steered.
#define TABLE "cove"
#define CHAIN "p"
#define PRIORITY (-150)
#define V4_DESTINATION 16
#define V6_DESTINATION 24

static void nft_begin(struct netlink *batch, int message, uint16_t flags)
{
	struct nfgenmsg body = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};

	netlink_begin(batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | message), flags, &body,
		      sizeof(body));
}

static void edge(struct netlink *batch, uint16_t type)
{
	struct nfgenmsg body = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

	netlink_begin(batch, type, 0, &body, sizeof(body));
}

static void table_message(struct netlink *batch, int message, uint16_t flags)
{
	nft_begin(batch, message, flags);
	netlink_put_text(batch, NFTA_TABLE_NAME, TABLE);
}

static void add_chain(struct netlink *batch)
{
	size_t hook;

	nft_begin(batch, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	netlink_put_text(batch, NFTA_CHAIN_TABLE, TABLE);
	netlink_put_text(batch, NFTA_CHAIN_NAME, CHAIN);
	netlink_put_text(batch, NFTA_CHAIN_TYPE, "filter");
	hook = netlink_open(batch, NFTA_CHAIN_HOOK);
	netlink_put_be32(batch, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	netlink_put_be32(batch, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY);
	netlink_close(batch, hook);
}

// A rule is a list of expressions, each with a name and its own data.
struct expression {
	size_t whole, data;
};

static struct expression open_expression(struct netlink *batch, const char *name)
{
	struct expression e = {.whole = netlink_open(batch, NFTA_LIST_ELEM)};

	netlink_put_text(batch, NFTA_EXPR_NAME, name);
	e.data = netlink_open(batch, NFTA_EXPR_DATA);
	return e;
}

static void close_expression(struct netlink *batch, struct expression e)
{
	netlink_close(batch, e.data);
	netlink_close(batch, e.whole);
}

static void load_meta(struct netlink *batch, uint32_t key)
{
	struct expression e = open_expression(batch, "meta");

	netlink_put_be32(batch, NFTA_META_DREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_META_KEY, key);
	close_expression(batch, e);
}

static void load_header(struct netlink *batch, uint32_t offset, uint32_t len)
{
	struct expression e = open_expression(batch, "payload");

	netlink_put_be32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	netlink_put_be32(batch, NFTA_PAYLOAD_OFFSET, offset);
	netlink_put_be32(batch, NFTA_PAYLOAD_LEN, len);
	close_expression(batch, e);
}

static void unless_equal_leave(struct netlink *batch, const void *value, size_t len)
{
	struct expression e = open_expression(batch, "cmp");
	size_t data;

	netlink_put_be32(batch, NFTA_CMP_SREG, NFT_REG_1);
	netlink_put_be32(batch, NFTA_CMP_OP, NFT_CMP_EQ);
	data = netlink_open(batch, NFTA_CMP_DATA);
	netlink_put(batch, NFTA_DATA_VALUE, value, len);
	netlink_close(batch, data);
	close_expression(batch, e);
}

static void accept_it(struct netlink *batch)
{
	struct expression e = open_expression(batch, "immediate");
	size_t data, verdict;

	netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = netlink_open(batch, NFTA_IMMEDIATE_DATA);
	verdict = netlink_open(batch, NFTA_DATA_VERDICT);
	netlink_put_be32(batch, NFTA_VERDICT_CODE, NF_ACCEPT);
	netlink_close(batch, verdict);
	netlink_close(batch, data);
	close_expression(batch, e);
}

static void tproxy_to(struct netlink *batch, uint16_t port)
{
	uint16_t swapped = htons(port);
	struct expression e = open_expression(batch, "immediate");
	size_t data;

	netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	data = netlink_open(batch, NFTA_IMMEDIATE_DATA);
	netlink_put(batch, NFTA_DATA_VALUE, &swapped, sizeof(swapped));
	netlink_close(batch, data);
	close_expression(batch, e);

	e = open_expression(batch, "tproxy");
	netlink_put_be32(batch, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC); // both
	netlink_put_be32(batch, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	close_expression(batch, e);
}

static size_t begin_rule(struct netlink *batch)
{
	nft_begin(batch, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK);
	netlink_put_text(batch, NFTA_RULE_TABLE, TABLE);
	netlink_put_text(batch, NFTA_RULE_CHAIN, CHAIN);
	return netlink_open(batch, NFTA_RULE_EXPRESSIONS);
}

static void spare_loopback(struct netlink *batch, uint8_t family)
{
	static const uint8_t first4 = 127;
	size_t rule = begin_rule(batch);

	load_meta(batch, NFT_META_NFPROTO);
	unless_equal_leave(batch, &family, sizeof(family));
	if (family == NFPROTO_IPV4) {
		load_header(batch, V4_DESTINATION, 1);
		unless_equal_leave(batch, &first4, 1);
	} else {
		load_header(batch, V6_DESTINATION, sizeof(in6addr_loopback));
		unless_equal_leave(batch, &in6addr_loopback, sizeof(in6addr_loopback));
	}
	accept_it(batch);
	netlink_close(batch, rule);
}

static void steer_rest(struct netlink *batch, uint16_t port)
{
	static const uint8_t tcp = IPPROTO_TCP;
	size_t rule = begin_rule(batch);

	load_meta(batch, NFT_META_L4PROTO);
	unless_equal_leave(batch, &tcp, sizeof(tcp));
	tproxy_to(batch, port);
	netlink_close(batch, rule);
}

static int steer(uint16_t port, bool anew)
{
	struct netlink batch = {.len = 0};

	edge(&batch, NFNL_MSG_BATCH_BEGIN);
	if (anew)
		table_message(&batch, NFT_MSG_DELTABLE, 0);
	table_message(&batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	add_chain(&batch);
	spare_loopback(&batch, NFPROTO_IPV4);
	spare_loopback(&batch, NFPROTO_IPV6);
	steer_rest(&batch, port);
	edge(&batch, NFNL_MSG_BATCH_END);
	return netlink_run(NETLINK_NETFILTER, &batch, 0);
}

int steer_nft(uint16_t port)
{
	int result = steer(port, false);

	return result && errno == EEXIST ? steer(port, true) : result;
}
