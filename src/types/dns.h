// The questions that a box asks, and the answers it gets: one question, at most one address. Every
// length is bounded, a compressed name leads only backwards. Nothing here resolves anything. No
// I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "types/address.h"
#include "types/hostname.h"

#define DNS_QUERY_MAX 4096
#define DNS_ANSWER_MAX 512 // a whole answer never is longer: none is cut
#define DNS_TTL_S 60
#define DNS_OWNER_MAX 253
#define DNS_EDNS_SIZE 1232 // of an answer by UDP, to whoever asks with EDNS; 512 to others

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
	enum dns_code fault; // anything but DNS_OK: this is the answer, whatever the name
	uint16_t type, class;
	enum hostname_kind kind;     // of the name; BAD: no host can have it
	char name[HOSTNAME_MAX + 1]; // normalised; "" when BAD
	// As it was asked for, in lower case: `name`, or that of a service of it
	// ("_sip._tcp.name").
	char owner[DNS_OWNER_MAX + 1];
	bool is_service;
	struct str question; // its bytes, in the message; empty when malformed
	bool has_edns, dnssec_ok;
};

// False: no question that one answers (too short, too long, itself an answer): silence. Slices
// point into `message`.
bool dns_read(struct str message, struct dns_query *out);

// Writes an answer to `query`, which may be followed by a fault of its own: that wins over `code`.
// `address` is the A record, NULL: none (with DNS_OK: the name has nothing of that type). Returns
// its length; `room` has DNS_ANSWER_MAX bytes.
size_t dns_answer(const struct dns_query *query, enum dns_code code, const struct address *address,
		  uint8_t room[DNS_ANSWER_MAX]);

// The same with a PTR record that holds `name`, as hostname_read() gives it.
size_t dns_answer_name(const struct dns_query *query, const char *name,
		       uint8_t room[DNS_ANSWER_MAX]);
// Makes the answer of another server to the same question one to `query`: its id and the case of
// its letters. Longer than `max`, it is cut to the question and says so. `message` is changed in
// place; returns its new length, 0: that is no answer.
size_t dns_adopt(const struct dns_query *query, uint8_t *message, size_t len, size_t max);
// The IPv4 address whose name is asked for: "1.0.18.198.in-addr.arpa".
bool dns_reverse(const struct dns_query *query, struct address *out);

// Over TCP each message follows two bytes of length.
enum dns_frame { DNS_FRAME_MORE, DNS_FRAME_DONE, DNS_FRAME_BAD };
// The first message of `bytes`; *used is what it took of them.
enum dns_frame dns_unframe(struct str bytes, struct str *message, size_t *used);
void dns_frame(size_t len, uint8_t out[2]);
