// How long an idle sandbox is kept, and how long clients wait for it: the settings of
// Cloudflare's object beside the container.
#pragma once

#include "base/err.h"
#include "codec/json.h"

// How long clients wait, in ms: the API's bounds and the default of each.
// clang-format off
//	  field             key                     stored      least  most    default
#define RETENTION_WAITS(F) \
	F(instance_get_ms,  "instanceGetTimeoutMS", "get",      5000,  300000, 30000) \
	F(port_ready_ms,    "portReadyTimeoutMS",   "port",     10000, 600000, 90000) \
	F(wait_interval_ms, "waitIntervalMS",       "interval", 100,   5000,   300)
// clang-format on

struct retention {
	uint64_t sleep_after_ms;   // sleeps after so long without use
	uint64_t archive_after_ms; // archived so long after it was stopped; 0: never
	bool keep_alive;	   // never sleeps for idleness
	struct {
#define F(field, ...) uint64_t field;
		RETENTION_WAITS(F)
#undef F
	} waits;	// timeouts of readiness: of the instance, of a port, between two checks
	char *base_url; // where clients reach it: http(s)://host[:port][/path]; NULL: not set.
			// Owned
	uint64_t token_turn; // how often the credential of its path was revoked
};

#define RETENTION_SLEEP_MS (10 * 60 * 1000)
#define RETENTION_DEFAULT                                                                          \
	((struct retention){.sleep_after_ms = RETENTION_SLEEP_MS,                                  \
			    .waits = {RETENTION_WAITS(RETENTION_WAIT_DEFAULT_)}})
#define RETENTION_WAIT_DEFAULT_(field, key, stored, least, most, preset) .field = (preset),
void retention_done(struct retention *retention);

// Reads {sleepAfter, archiveAfter, keepAlive, containerTimeouts, baseUrl} of a body into *out;
// absent fields stay as they are; archiveAfter may be 0: never. sleepAfter is seconds as a number,
// or "30s", "10m", "1h"; up to 30 days. INVALID bad_field. A base URL is set once: another is
// CONFLICT base_url_set.
fallible retention_read(const struct json *object, struct retention *out);
// A span of time in one field, like sleepAfter.
fallible retention_read_span(const struct json *value, const char *where, uint64_t *out);
// The same as members of an object that is being written, without the base URL.
void retention_write(struct json_out *out, const struct retention *retention);
