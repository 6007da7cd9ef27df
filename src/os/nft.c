// Installs the nftables rules that steer a box's TCP connections to a listener, in one atomic
// batch:
//	table inet cove { chain p {
//		type filter hook prerouting priority -150;
//		ip daddr 127.0.0.0/8 accept
//		ip6 daddr ::1 accept
//		meta l4proto tcp tproxy to :PORT
//	} }
// A previous table is deleted in the same batch; that takes the kernel milliseconds, so it is tried
// without first. Packets sent over lo pass prerouting too: the box's own packets are steered.
#include "os/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <string.h>

#include "os/netlink.h"

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

static void add_table(struct netlink *batch)
{
	nft_begin(batch, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	netlink_put_text(batch, NFTA_TABLE_NAME, TABLE);
}

static void drop_table(struct netlink *batch)
{
	nft_begin(batch, NFT_MSG_DELTABLE, 0);
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
		drop_table(&batch);
	add_table(&batch);
	add_chain(&batch);
	spare_loopback(&batch, NFPROTO_IPV4);
	spare_loopback(&batch, NFPROTO_IPV6);
	steer_rest(&batch, port);
	edge(&batch, NFNL_MSG_BATCH_END);
	return netlink_run(NETLINK_NETFILTER, &batch, 0);
}

int nft_steer(uint16_t port)
{
	int result = steer(port, false);

	return result && errno == EEXIST ? steer(port, true) : result;
}
