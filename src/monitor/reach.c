// Resolves a sink's name in a worker thread and connects to the first address that answers. One
// deadline holds for the whole delivery.
#include "monitor/reach.h"

#include <stdio.h>
#include <string.h>

#include "egress/resolve.h"
#include "loop/dial.h"
#include "loop/offload.h"

struct reach_lookup {
	char name[254];
	struct resolve_found found;
};

static void reach_look_up(void *arg)
{
	struct reach_lookup *lookup = arg;

	resolve_look_up(lookup->name, &lookup->found);
}

fallible reach_open(struct reach *reach, struct loop *loop, struct str hosts, struct str name,
		    uint16_t port)
{
	struct resolve_rules rules = {.hosts = hosts};
	char texts[RESOLVE_MAX][DIAL_HOST_TEXT];
	struct reach_lookup lookup = {0};
	size_t which = 0;

	reach->stream.fd = -1;
	reach->deadline = loop_now(loop) + REACH_MS;
	if (!name.len || name.len >= sizeof(lookup.name))
		return err_new(INVALID, "no_name", "that is not a host name");
	memcpy(lookup.name, name.at, name.len);
	memcpy(reach->name, name.at, name.len);
	reach->name[name.len] = '\0';
	if (!resolve_is_known(&rules, name, &lookup.found))
		offload_run(reach_look_up, &lookup);
	if (!lookup.found.count)
		return resolve_no_name(lookup.name);
	for (size_t i = 0; i < lookup.found.count; i++)
		address_write(&lookup.found.at[i], texts[i]);
	TRY(dial_first(loop, (const char(*)[DIAL_HOST_TEXT])texts, lookup.found.count, port,
		       reach->deadline, &reach->stream, &which));
	reach->is_loopback = !strncmp(texts[which], "127.", 4) || !strcmp(texts[which], "::1");
	return OK;
}

static int64_t reach_left(const struct reach *reach)
{
	int64_t left = reach->deadline - loop_now(reach->stream.loop);

	return left > 1 ? left : 1;
}

fallible reach_secure(struct reach *reach)
{
	return tls_stream_connect(&reach->stream, reach->trust, reach->name, reach_left(reach),
				  &reach->tls);
}

fallible reach_write(struct reach *reach, const void *bytes, size_t len)
{
	return reach->tls ? tls_stream_write(reach->tls, bytes, len, reach_left(reach))
			  : stream_write(&reach->stream, bytes, len, reach_left(reach));
}

fallible reach_read(struct reach *reach, void *room, size_t size, size_t *out)
{
	return reach->tls ? tls_stream_read(reach->tls, room, size, reach->deadline, out)
			  : stream_read(&reach->stream, room, size, reach->deadline, out);
}

void reach_close(struct reach *reach)
{
	tls_stream_free(take_ptr(reach->tls));
	stream_close(&reach->stream);
}
