// How long an idle sandbox is kept, and how long clients wait for it: the settings of
// Cloudflare's object beside the container.
#pragma once

#include "base/err.h"
#include "codec/json.h"

struct retention {
	uint64_t sleep_after_ms; // sleeps after so long without use
	bool keep_alive;	 // never sleeps for idleness
	struct {
		uint64_t instance_get_ms, port_ready_ms, wait_interval_ms;
	} waits;	// timeouts of readiness: of the instance, of a port, between two checks
	char *base_url; // where clients reach it: http(s)://host[:port][/path]; NULL: not set.
			// Owned
	uint64_t token_turn; // how often the credential of its path was revoked
};

#define RETENTION_SLEEP_MS (10 * 60 * 1000)
#define RETENTION_DEFAULT                                                                          \
	((struct retention){.sleep_after_ms = RETENTION_SLEEP_MS,                                  \
			    .waits = {.instance_get_ms = 30000,                                    \
				      .port_ready_ms = 90000,                                      \
				      .wait_interval_ms = 300}})
void retention_done(struct retention *retention);

// Reads {sleepAfter, keepAlive, containerTimeouts, baseUrl} of a body into *out; absent fields stay
// as they are. sleepAfter is seconds as a number, or "30s", "10m", "1h"; up to 30 days. INVALID
// bad_field. A base URL is set once: another is CONFLICT base_url_set.
fallible retention_read(const struct json *object, struct retention *out);
// A span of time in one field, like sleepAfter.
fallible retention_read_span(const struct json *value, const char *where, uint64_t *out);
// The same as members of an object that is being written, without the base URL.
void retention_write(struct json_out *out, const struct retention *retention);
