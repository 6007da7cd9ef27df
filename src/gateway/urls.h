// Where previews are found from outside: what the API tells of an exposed port.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct urls {
	char *proto;  // of the host form: "http", "https"
	char *domain; // "localhost:8485", "preview.example.org"; NULL: there is no host form
	char *path;   // of the path form: "http://127.0.0.1:8485"; NULL: nothing listens
};

// `domain` is "[PROTO://]NAME[:PORT]", or empty; `bound` the first address that is listened on, or
// empty; `tls`: by TLS. Without a protocol and a port the domain is where we listen. INVALID
// bad_config.
fallible urls_make(struct str domain, struct str bound, bool tls, struct urls *out);
void urls_done(struct urls *urls);

// "https://8080-0123456789ab-TOKEN.DOMAIN/", "http://127.0.0.1:8485/8080-0123456789ab-TOKEN/".
// False: there is no such form, or the label would be too long for DNS.
bool urls_host(const struct urls *urls, const char *id, uint16_t port, const char *token,
	       struct buf *out);
bool urls_path(const struct urls *urls, const char *id, uint16_t port, const char *token,
	       struct buf *out);
