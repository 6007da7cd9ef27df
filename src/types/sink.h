// Where notices of alerts go, as the configuration says: one line "KIND NAME KEY=VALUE" for each
// setting of a section [alert.KIND NAME]. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "types/alert.h"

#define SINKS_MAX 8
#define SINK_TEXT_MAX 1024 // of a value

enum sink_kind { SINK_WEBHOOK, SINK_SLACK, SINK_EMAIL, SINK_ALERTMANAGER, SINK_KIND_COUNT };
const char *sink_kind_word(enum sink_kind kind);

struct sink {
	enum sink_kind kind;
	char name[ID_NAME_MAX + 1]; // unique among all kinds
	char *url, *secret_file;    // NULL: not given
	char *relay, *from, *to;    // of e-mail; `to` may have several, with commas
	char *user;		    // of e-mail: for AUTH, with the secret as password
	bool warnings, criticals;   // the severities that it gets
};

// All sinks, in order. INVALID bad_config names the sink and the setting.
fallible sinks_read(struct str text, struct sink *room, size_t *out_count);
void sinks_done(struct sink *sinks, size_t count);

// "host", "host:port", "[v6]:port". False: malformed.
bool sink_relay(struct str text, struct str *host, uint16_t *port);
// local@domain without blanks, control characters or brackets, 254 bytes at most.
bool sink_is_address(struct str text);
