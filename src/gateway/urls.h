// Public URLs of previews, as the API returns them for an exposed port.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct urls {
	char *proto;  // scheme of the host form: "http", "https"
	char *domain; // "localhost:8485", "preview.example.org"; NULL: no host form
	char *path;   // base of the path form: "http://127.0.0.1:8485"; NULL: no listener
};

// `domain` is "[PROTO://]NAME[:PORT]", or empty; `bound` the first address of the listeners, or
// empty; `tls`: the listener uses TLS. Scheme and port default to those of the listener. INVALID
// bad_config.
fallible urls_make(struct str domain, struct str bound, bool tls, struct urls *out);
void urls_done(struct urls *urls);

// "https://8080-0123456789ab-TOKEN.DOMAIN/", "http://127.0.0.1:8485/8080-0123456789ab-TOKEN/".
// An empty token is left out with its hyphen. False: no such form, or the label is too long for
// DNS.
bool urls_host(const struct urls *urls, const char *id, uint16_t port, const char *token,
	       struct buf *out);
bool urls_path(const struct urls *urls, const char *id, uint16_t port, const char *token,
	       struct buf *out);
