// Dockerfiles that a create brings: built as `cove template build` does, and kept as templates. A
// Dockerfile of the same text is built once. A build whose client leaves goes on.
#include "daytona/dockerfile.h"

#include "base/sha256.h"
#include "daytona/storage.h"
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

fallible dockerfile_begin(struct http *x, struct str name, const struct dockerfile_source *source,
			  struct operation **out)
{
	on_exit_call(build_ask_done) struct build_ask ask = {.name = name};
	struct create_grant grant;

	TRY(access_create(gateway_who(x), &grant));
	TRY(dockerfile_read(source->text, &ask.plan));
	TRY(storage_context(x, source->hashes, &ask.context));
	return builds_begin(gateway_of(x)->manager, &grant, &ask, out);
}

static void dockerfile_name(struct http *x, const struct dockerfile_source *source,
			    const char **out)
{
	size_t count = source->hashes ? json_count(source->hashes) : 0;
	char hex[SHA256_HEX + 1];
	struct sha256 hash;

	sha256_begin(&hash);
	sha256_add(&hash, source->text.at, source->text.len);
	for (size_t i = 0; i < count; i++) {
		struct str one = json_chars(json_at(source->hashes, i));

		sha256_add(&hash, "\0", 1);
		sha256_add(&hash, one.at, one.len);
	}
	sha256_end(&hash, hex);
	*out = arena_fmt(x->arena, BUILT_PREFIX "%.*s", BUILT_DIGITS, hex);
}

fallible dockerfile_template(struct http *x, const struct dockerfile_source *source,
			     const char **out)
{
	struct operation *operation = NULL;
	struct template template;
	auto_err err = NULL;

	dockerfile_name(x, source, out);
	err = templates_get(gateway_of(x)->manager, gateway_who(x), str_of(*out), &template);
	if (!err || err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	TRY(dockerfile_begin(x, str_of(*out), source, &operation));
	return dockerfile_await(x, operation);
}
