// Classifies IP addresses by tables of reserved ranges, and reads the operator's lists of
// exceptions and fixed names. An IPv6 address that embeds an IPv4 address is judged by that one. An
// address in doubt is not global.
#include "types/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

struct range {
	const char *from;
	uint8_t bits;
};

// docs/ISOLATION.md NET-7. 168.63.129.16 is inside of Azure and looks global.
static const struct range own_v4[] = {
	{"0.0.0.0", 8},	     {"10.0.0.0", 8},	  {"100.64.0.0", 10},	 {"127.0.0.0", 8},
	{"169.254.0.0", 16}, {"172.16.0.0", 12},  {"192.0.0.0", 24},	 {"192.0.2.0", 24},
	{"192.88.99.0", 24}, {"192.168.0.0", 16}, {"198.18.0.0", 15},	 {"198.51.100.0", 24},
	{"203.0.113.0", 24}, {"224.0.0.0", 3},	  {"168.63.129.16", 32}, // Azure's host agent
};
static const struct range own_v6[] = {
	{"::", 128},
	{"::1", 128},
	{"fc00::", 7},
	{"fe80::", 10},
	{"fec0::", 10},
	{"ff00::", 8},
	{"100::", 64},
	{"2001:db8::", 32},
	// Translators and tunnels whose IPv4 address is anywhere or obfuscated, and ranges that are
	// not routed.
	{"64:ff9b:1::", 48},
	{"::ffff:0:0:0", 96},
	{"2001::", 32},
	{"3fff::", 20},
	{"5f00::", 16},
};
// Where an IPv6 address embeds an IPv4 one, and from which byte on.
static const struct {
	struct range range;
	size_t at;
} carriers[] = {
	{{"::ffff:0:0", 96}, 12}, {{"::", 96}, 12}, {{"64:ff9b::", 96}, 12}, {{"2002::", 16}, 2}};
#define COUNT(list) (sizeof(list) / sizeof(*(list)))

bool address_read(struct str text, struct address *out)
{
	char copy[INET6_ADDRSTRLEN];

	if (!text.len || text.len >= sizeof(copy) || memchr(text.at, 0, text.len))
		return false;
	memcpy(copy, text.at, text.len);
	copy[text.len] = 0;
	*out = (struct address){.is_v6 = memchr(text.at, ':', text.len) != NULL};
	return inet_pton(out->is_v6 ? AF_INET6 : AF_INET, copy, out->at) == 1;
}

void address_write(const struct address *address, char out[ADDRESS_TEXT])
{
	inet_ntop(address->is_v6 ? AF_INET6 : AF_INET, address->at, out, ADDRESS_TEXT);
}

static bool begins(const uint8_t *at, const uint8_t *with, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return !memcmp(at, with, whole) && (!rest || (at[whole] ^ with[whole]) >> (8 - rest) == 0);
}

static bool is_in(const struct range *range, const struct address *address)
{
	struct address from;

	return address_read(str_of(range->from), &from) && from.is_v6 == address->is_v6 &&
	       begins(address->at, from.at, range->bits);
}

static bool is_in_any(const struct range *list, size_t count, const struct address *address)
{
	for (size_t i = 0; i < count; i++)
		if (is_in(&list[i], address))
			return true;
	return false;
}

bool address_carries(const struct address *address, struct address *inner)
{
	static const uint8_t isatap[] = {0, 0, 0x5e, 0xfe};
	uint8_t tail[4];

	if (!address->is_v6)
		return false;
	*inner = (struct address){0};
	for (size_t i = 0; i < COUNT(carriers); i++)
		if (is_in(&carriers[i].range, address)) {
			memcpy(inner->at, address->at + carriers[i].at, 4);
			return true;
		}
	memcpy(tail, address->at + 8, 4);
	tail[0] &= 0xfd; // the universal/local bit
	memcpy(inner->at, address->at + 12, 4);
	return !memcmp(tail, isatap, 4);
}

bool address_is_global(const struct address *address)
{
	struct address inner;

	if (!address->is_v6)
		return !is_in_any(own_v4, COUNT(own_v4), address);
	if (is_in_any(own_v6, COUNT(own_v6), address))
		return false;
	return !address_carries(address, &inner) || address_is_global(&inner);
}

struct entry {
	struct address address;
	uint64_t bits, port; // port 0: any
};

// "A", "A/B", "A:P", "A/B:P", with an IPv6 A in brackets when a port follows it at once.
static bool read_entry(struct str text, struct entry *out)
{
	struct str host = text, rest = {0};
	const char *end = NULL;
	uint64_t width;

	if (text.len && text.at[0] == '[') {
		end = memchr(text.at, ']', text.len);
		if (!end)
			return false;
		host = (struct str){text.at + 1, (size_t)(end - text.at) - 1};
		rest = str_skip(text, host.len + 2);
	} else {
		end = memchr(text.at, '/', text.len);
		if (!end && text.len &&
		    memchr(text.at, ':', text.len) == memrchr(text.at, ':', text.len))
			end = memchr(text.at, ':', text.len);
		if (end) {
			host.len = (size_t)(end - text.at);
			rest = str_skip(text, host.len);
		}
	}
	if (!address_read(host, &out->address))
		return false;
	width = out->bits = out->address.is_v6 ? 128 : 32;
	out->port = 0;
	if (rest.len && rest.at[0] == '/') {
		struct str bits;

		rest = str_skip(rest, 1);
		end = memchr(rest.at, ':', rest.len);
		bits = (struct str){rest.at, end ? (size_t)(end - rest.at) : rest.len};
		if (!str_to_u64(bits, 0, width, &out->bits))
			return false;
		rest = str_skip(rest, bits.len);
	}
	return !rest.len ||
	       (rest.at[0] == ':' && str_to_u64(str_skip(rest, 1), 1, 65535, &out->port));
}

bool address_list_is_valid(struct str list)
{
	struct entry entry;
	struct str part;

	while (list.len && str_cut(&list, ',', &part))
		if (!read_entry(str_trim(part), &entry))
			return false;
	return true;
}

bool address_is_listed(struct str list, const struct address *address, uint16_t port)
{
	struct entry entry;
	struct str part;

	while (list.len && str_cut(&list, ',', &part))
		if (read_entry(str_trim(part), &entry) && entry.address.is_v6 == address->is_v6 &&
		    (!entry.port || entry.port == port) &&
		    begins(address->at, entry.address.at, (unsigned)entry.bits))
			return true;
	return false;
}

bool address_range_read(struct str text, char out[ADDRESS_RANGE_TEXT], uint16_t *out_port)
{
	char address[ADDRESS_TEXT];
	struct entry entry;

	if (!memchr(text.at ? text.at : "", '/', text.len) || !read_entry(text, &entry))
		return false;
	for (size_t i = 0; i < sizeof(entry.address.at); i++) {
		unsigned kept = entry.bits > 8 * i ? (unsigned)entry.bits - 8 * (unsigned)i : 0;

		if (kept < 8)
			entry.address.at[i] &= (uint8_t)(0xff00 >> kept);
	}
	address_write(&entry.address, address);
	snprintf(out, ADDRESS_RANGE_TEXT, "%s/%u", address, (unsigned)entry.bits);
	*out_port = (uint16_t)entry.port;
	return true;
}

bool address_range_has(const char *range, const char *address)
{
	struct address at;

	return address_read(str_of(address), &at) && address_is_listed(str_of(range), &at, 0);
}

static bool address_read_name(struct str text, struct str *name, struct address *out)
{
	struct str rest = text;

	return str_cut(&rest, '=', name) && str_trim(*name).len &&
	       address_read(str_trim(rest), out);
}

bool address_names_are_valid(struct str list)
{
	struct address address;
	struct str part, name;

	while (list.len && str_cut(&list, ',', &part))
		if (!address_read_name(part, &name, &address))
			return false;
	return true;
}

bool address_of_name(struct str list, struct str name, struct address *out)
{
	struct str part, known;

	while (list.len && str_cut(&list, ',', &part))
		if (address_read_name(part, &known, out) && str_eq_nocase(str_trim(known), name))
			return true;
	return false;
}
