// Resolves a name in a worker thread, checks its addresses with egress/resolve and connects. Names
// in `hosts` need no lookup. Errors: an address that is not allowed, an unknown name, no server,
// too many lookups.
#include "egress/outbound.h"

#include <string.h>

#include "base/auto.h"
#include "egress/resolve.h"
#include "loop/offload.h"

#define NAME_MAX_BYTES 253
// A name server can delay its answer as long as it likes, and the waiting worker thread is one that
// all tenants' file operations need: limit them.
#define LOOKUPS_MAX 8

struct lookup {
	char name[NAME_MAX_BYTES + 1];
	struct resolve_found found;
};

static uint32_t looking; // used on the loop's thread only

static void look_up(void *arg)
{
	struct lookup *lookup = arg;

	resolve_look_up(lookup->name, &lookup->found);
}

fallible outbound_open(const struct outbound *outbound, struct loop *loop, struct str host,
		       uint16_t port, int64_t deadline, struct stream *out)
{
	struct resolve_rules rules = {.exceptions = outbound->exceptions, .hosts = outbound->hosts};
	struct lookup lookup = {0};
	struct address address;

	if (!host.len || host.len > NAME_MAX_BYTES || memchr(host.at, 0, host.len))
		return err_new(INVALID, "no_name", "that is not a host name");
	memcpy(lookup.name, host.at, host.len);
	if (!resolve_is_known(&rules, host, &lookup.found)) {
		if (looking == LOOKUPS_MAX)
			return err_hint(err_new(EXHAUSTED, "names_busy",
						"%d names are being looked up already",
						LOOKUPS_MAX),
					"try again in a moment");
		looking++;
		offload_run(look_up, &lookup);
		looking--;
	}
	if (!lookup.found.count)
		return resolve_no_name(lookup.name);
	return resolve_dial(&rules, loop, &lookup.found, lookup.name, port, deadline, out,
			    &address);
}
