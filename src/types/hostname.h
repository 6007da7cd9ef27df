// Host names in one normal form. Policies judge this form, and connections are made to this form:
// never to the text that was sent. Also the host names of previews. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define HOSTNAME_MAX 253
#define HOSTNAME_LABEL_MAX 63

enum hostname_kind {
	HOSTNAME_BAD,	  // neither: must not be used
	HOSTNAME_NAME,	  // labels of letters, digits and inner hyphens
	HOSTNAME_LITERAL, // a numeric address, without brackets
};

// Lower case, no final dot, LDH labels; a literal as inet_ntop() writes it, IPv4 in IPv6 (::ffff:)
// as IPv4. Forms that some resolvers read as addresses though they are no dotted quad ("127.1",
// "0x7f.1", "2130706433") are BAD. `out` is "" then.
enum hostname_kind hostname_read(struct str text, char out[HOSTNAME_MAX + 1]);
// The value of a Host field, "NAME[:PORT]" or "[V6][:PORT]". *out_port is 0 when none is given.
enum hostname_kind hostname_read_host(struct str text, char out[HOSTNAME_MAX + 1],
				      uint16_t *out_port);
// Whether `name` is `domain` or a subdomain. Both as hostname_read() gives them.
bool hostname_is_beneath(const char *name, const char *domain);

// PORT-ID-TOKEN.DOMAIN. The port is before the first hyphen, the token after the last. Without a
// token, PORT-ID.DOMAIN, the id is a short id.
struct hostname_preview {
	uint16_t port;
	char id[HOSTNAME_LABEL_MAX + 1];    // a short id, or a name: only its form is checked
	char token[HOSTNAME_LABEL_MAX + 1]; // has the form of types/preview_token.h; "": none
};

// `host` is the value of a Host field; its port and that of `domain` are ignored. False: not the
// host of a preview.
bool hostname_read_preview(struct str host, const char *domain, struct hostname_preview *out);
// Writes it, with the domain as given. False, and nothing is written: the label is too long.
bool hostname_write_preview(const struct hostname_preview *preview, const char *domain,
			    struct buf *out);
