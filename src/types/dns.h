// DNS queries of a box and their answers: one question, at most one address. Every length is
// bounded, a compressed name leads only backwards. Nothing here resolves names. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "types/address.h"
#include "types/hostname.h"

#define DNS_QUERY_MAX 4096
#define DNS_ANSWER_MAX 512 // no answer is longer: none is truncated
#define DNS_TTL_S 60
#define DNS_OWNER_MAX 253
#define DNS_EDNS_SIZE 1232 // of an answer by UDP, if the query has EDNS; else 512

enum dns_type {
	DNS_A = 1,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
};

enum dns_code {
	DNS_OK,
	DNS_MALFORMED,	 // FORMERR
	DNS_FAILED,	 // SERVFAIL
	DNS_NO_NAME,	 // NXDOMAIN
	DNS_NOT_OFFERED, // NOTIMP
	DNS_REFUSED,
	DNS_BAD_VERSION = 16, // of EDNS
};

struct dns_query {
	uint16_t id;
	uint8_t opcode;
	bool wants_recursion, checking_disabled;
	enum dns_code fault; // anything but DNS_OK: this is the answer, for any name
	uint16_t type, class;
	enum hostname_kind kind;     // of the name; BAD: no host can have it
	char name[HOSTNAME_MAX + 1]; // normalised; "" when BAD
	// The queried name in lower case: `name`, or a service of it ("_sip._tcp.name").
	char owner[DNS_OWNER_MAX + 1];
	bool is_service;
	struct str question; // its bytes in the message; empty if malformed
	bool has_edns, dnssec_ok;
};

// False: no query that is answered (too short, too long, itself an answer): stay silent. Slices
// point into `message`.
bool dns_read(struct str message, struct dns_query *out);

// Writes an answer to `query`. A fault of the query overrides `code`. `address` is the A or AAAA
// record, NULL: none (with DNS_OK: the name has no record of that type). Returns the length; `room`
// has DNS_ANSWER_MAX bytes.
size_t dns_answer(const struct dns_query *query, enum dns_code code, const struct address *address,
		  uint8_t room[DNS_ANSWER_MAX]);

// The same with a PTR record of `name`, as hostname_read() gives it.
size_t dns_answer_name(const struct dns_query *query, const char *name,
		       uint8_t room[DNS_ANSWER_MAX]);
// Turns another server's answer to the same question into one to `query`: its id and letter case.
// An answer longer than `max` is truncated to the question, with TC set. Changes `message` in
// place; returns its new length, 0: not an answer.
size_t dns_adopt(const struct dns_query *query, uint8_t *message, size_t len, size_t max);
// The IPv4 address of a reverse query: "1.0.18.198.in-addr.arpa".
bool dns_reverse(const struct dns_query *query, struct address *out);

// Over TCP each message follows two bytes of length.
enum dns_frame { DNS_FRAME_MORE, DNS_FRAME_DONE, DNS_FRAME_BAD };
// The first message of `bytes`; *used is its length with the prefix.
enum dns_frame dns_unframe(struct str bytes, struct str *message, size_t *used);
void dns_frame(size_t len, uint8_t out[2]);
