#include "bridge/about.h"

#include <ctype.h>

#include "door/door.h"

#define ABOUT_MAX (1 << 20)

static bool is_first(const struct route *table, const struct route *row)
{
	for (; table < row; table++)
		if (strcmp(table->pattern, row->pattern) == 0)
			return false;
	return true;
}

// "/files/{path*}" as OpenAPI knows it: {path}.
static const char *path_of(struct http *x, const char *pattern)
{
	char *text = arena_dup(x->arena, pattern, strlen(pattern)), *to = text;

	for (const char *from = text; *from; from++)
		if (*from != '*')
			*to++ = *from;
	*to = 0;
	return text;
}

static void put_parameters(struct json_out *out, const char *path)
{
	json_key(out, "parameters");
	json_begin(out, '[');
	while ((path = strchr(path, '{'))) {
		size_t len = strcspn(++path, "}");

		json_begin(out, '{');
		json_put_str(out, "name", (struct str){path, len});
		json_put_text(out, "in", "path");
		json_put_bool(out, "required", true);
		json_key(out, "schema");
		json_add_raw(out, STR("{\"type\":\"string\"}"));
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void put_operation(struct json_out *out, const struct route *row, const char *path)
{
	char method[16] = "";

	for (size_t i = 0; row->method[i] && i + 1 < sizeof(method); i++)
		method[i] = (char)tolower((unsigned char)row->method[i]);
	json_key(out, method);
	json_begin(out, '{');
	json_put_text(out, "summary", row->what);
	put_parameters(out, path);
	if (row->flags & ROUTE_OPEN) {
		json_key(out, "security");
		json_add_raw(out, STR("[]"));
	}
	json_key(out, "responses");
	json_add_raw(out, STR("{\"default\":{\"description\":\"see the documentation\"}}"));
	json_end(out, '}');
}

static void put_paths(struct http *x, struct json_out *out)
{
	const struct route *table = door_of(x)->routes;

	json_key(out, "paths");
	json_begin(out, '{');
	for (const struct route *row = table; row->method; row++) {
		const char *path;

		if (!is_first(table, row))
			continue;
		path = path_of(x, row->pattern);
		json_key(out, path);
		json_begin(out, '{');
		for (const struct route *same = row; same->method; same++)
			if (strcmp(same->pattern, row->pattern) == 0)
				put_operation(out, same, path);
		json_end(out, '}');
	}
	json_end(out, '}');
}

fallible bridge_about(struct http *x)
{
	struct door *door = door_of(x);
	struct str token = http_query(x, "token");
	auto_buf body = BUF_INIT(ABOUT_MAX);
	struct json_out out = json_to(&body);

	if (!x->guest && !guard_token(door->guard, token))
		return token.at ? guard_strike_query(door->guard, x) : guard_strike(door->guard, x);
	json_begin(&out, '{');
	json_put_text(&out, "openapi", "3.1.0");
	json_key(&out, "info");
	json_begin(&out, '{');
	json_put_text(&out, "title", "cove");
	json_put_text(&out, "version", door->version);
	json_end(&out, '}');
	json_key(&out, "components");
	json_add_raw(&out, STR("{\"securitySchemes\":{\"bearer\":{\"type\":\"http\","
			       "\"scheme\":\"bearer\"}}}"));
	json_key(&out, "security");
	json_add_raw(&out, STR("[{\"bearer\":[]}]"));
	put_paths(x, &out);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
