// Names of hosts in the one form in which they are compared, looked up and written down. Whoever
// judges a name judges this form, and whoever connects connects to this form: never to what was
// sent. And the names of previews. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define HOSTNAME_MAX 253
#define HOSTNAME_LABEL_MAX 63

enum hostname_kind {
	HOSTNAME_BAD,	  // none of the two: nothing may be done with it
	HOSTNAME_NAME,	  // labels of letters, digits and inner hyphens
	HOSTNAME_LITERAL, // a numeric address, without brackets
};

// Lower case, no dot at the end, LDH labels; a literal as inet_ntop() writes it, IPv4 in
// IPv6 (::ffff:) as IPv4. What some
// resolvers take for an address though it is no dotted quad ("127.1", "0x7f.1", "2130706433") is
// BAD. `out` is
// "" when it is.
enum hostname_kind hostname_read(struct str text, char out[HOSTNAME_MAX + 1]);
// The value of a Host field, "NAME[:PORT]" or "[V6][:PORT]". *out_port is 0 when none is given.
enum hostname_kind hostname_read_host(struct str text, char out[HOSTNAME_MAX + 1],
				      uint16_t *out_port);
// Whether `name` is `domain` or lies beneath it. Both as hostname_read() gives them.
bool hostname_is_beneath(const char *name, const char *domain);

// PORT-ID-TOKEN.DOMAIN. The port is what precedes the first hyphen, the token what follows the
// last.
struct hostname_preview {
	uint16_t port;
	char id[HOSTNAME_LABEL_MAX + 1]; // a short id, or a name: looks like one, no more is said
	char token[HOSTNAME_LABEL_MAX + 1]; // looks like one of types/preview_token.h
};

// `host` is the value of a Host field, its port does not count; `domain` may have one too, that
// does not count either. False: this is no preview's host.
bool hostname_read_preview(struct str host, const char *domain, struct hostname_preview *out);
// Writes it, with the domain as it is given. False, and nothing is written: the label is too long.
bool hostname_write_preview(const struct hostname_preview *preview, const char *domain,
			    struct buf *out);
