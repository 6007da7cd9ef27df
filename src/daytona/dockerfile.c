// Dockerfiles that a create brings: built as `cove template build` does, and kept as templates. A
// Dockerfile of the same text is built once. A build whose client leaves goes on.
#include "daytona/dockerfile.h"

#include "base/secret.h"
#include "codec/text.h"
#include "manager/builds.h"
#include "manager/templates.h"
#include "types/dockerfile.h"

#define BUILT_PREFIX "daytona-"
#define BUILT_DIGITS 40

fallible dockerfile_await(struct http *x, struct operation *operation)
{
	struct err *err = http_while_away(x, HTTP_PROBE_HEAD,
					  operation_await(operation, CLOCK_NEVER));

	operation_drop(operation);
	return err;
}

fallible dockerfile_build(struct http *x, struct str name, struct str dockerfile)
{
	on_exit_call(build_ask_done) struct build_ask ask = {.name = name};
	struct operation *operation = NULL;
	struct create_grant grant;

	TRY(access_create(gateway_who(x), &grant));
	TRY(dockerfile_read(dockerfile, &ask.plan));
	TRY(builds_begin(gateway_of(x)->manager, &grant, &ask, &operation));
	return dockerfile_await(x, operation);
}

fallible dockerfile_template(struct http *x, struct str dockerfile, const char **out)
{
	uint8_t hash[SECRET_HASH];
	auto_buf hex = BUF_INIT(2 * SECRET_HASH);
	struct template template;
	auto_err err = NULL;

	secret_sha256(dockerfile.at, dockerfile.len, hash);
	text_hex(&hex, hash, sizeof(hash));
	*out = arena_fmt(x->arena, BUILT_PREFIX "%.*s", BUILT_DIGITS, hex.at);
	err = templates_get(gateway_of(x)->manager, gateway_who(x), str_of(*out), &template);
	if (!err || err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	return dockerfile_build(x, str_of(*out), dockerfile);
}
