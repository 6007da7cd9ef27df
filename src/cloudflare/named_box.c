// A bridge id is the name of a sandbox. Every bridge request ensures that the sandbox exists, as
// upstream does, so a deleted one is created anew. Errors of the creation become the bridge's
// codes.
#include "cloudflare/named_box.h"

#include <stdio.h>

fallible named_box_check(struct http *x)
{
	if (path_is_id(x->params[0]))
		return OK;
	authenticate_report(x, "bad_id", "low");
	return err_hint(err_new(INVALID, "invalid_request", "Invalid sandbox ID format"),
			"POST /v1/sandbox gives one");
}

static fallible named_box_explain(struct err *err)
{
	auto_free char *words = mem_str(err_message(err));

	switch (err_kind(err)) {
	case ERR_EXHAUSTED:
	case ERR_NO_SPACE:
		return err_recast(err, ERR_UNAVAILABLE, "capacity_exceeded", "%s", words);
	case ERR_FORBIDDEN:
	case ERR_CANCELLED:
		return err;
	default:
		return err_recast(err, ERR_BAD_PEER, "pool_error", "pool error: %s", words);
	}
}

fallible named_box_enter(struct http *x, char out_id[ID_BOX_LEN + 1])
{
	struct gateway *gateway = gateway_of(x);
	const struct record *record = NULL;
	struct create_grant grant;
	auto_spec spec = {0};
	struct err *err;
	bool made;

	TRY(named_box_check(x));
	TRY(spec_read(NULL, manager_bounds(gateway->manager), &spec));
	snprintf(spec.name, sizeof(spec.name), STR_FMT, STR_ARG(x->params[0]));
	env_map_set(&spec.labels, STR("cove.api"), STR("bridge"));
	TRY(access_create(gateway_who(x), &grant));
	err = create_box(gateway->manager, &grant, &spec, CREATE_OR_GET, &record, &made);
	if (err)
		return named_box_explain(err);
	snprintf(out_id, ID_BOX_LEN + 1, "%s", record->id);
	return OK;
}

fallible named_box_session(struct http *x, struct str *out)
{
	struct str id = http_field(x, "Session-Id");

	if (!id.len)
		id = http_query(x, "session");
	if (id.len && !path_is_session(id))
		return err_hint(err_new(INVALID, "invalid_request", "Invalid session ID format"),
				"use 1 to 128 letters, digits and ._- without '..'");
	*out = id.len ? id : STR("");
	return OK;
}

const char *named_box_target(struct http *x, const char *id, const char *rest)
{
	return arena_fmt(x->arena, "/v1/sandboxes/%s%s", id, rest);
}
