// Routes for templates. An import streams a tar archive to the warden; freezing makes a fixed
// template of the host's root. manager/templates decides who may, and checks names and archives.
#include "api/handlers.h"
#include "base/clock.h"
#include "gateway/gateway.h"

#define REPLY_MAX (1 << 20)
#define PIECE (64 * 1024)

static void templates_put_count(struct json_out *out, const char *key, uint64_t value)
{
	json_key(out, key);
	if (value)
		json_add_int(out, (int64_t)value);
	else
		json_add_null(out);
}

static void write_template(struct json_out *out, const struct template *template)
{
	auto_buf time = BUF_INIT(64);

	if (template->created_ms)
		clock_iso(template->created_ms, &time);
	json_begin(out, '{');
	json_put_text(out, "name", template->name);
	json_put_text(out, "kind", template->kind);
	templates_put_count(out, "bytes", template->bytes);
	templates_put_count(out, "files", template->files);
	json_put_text(out, "createdAt", time.len ? time.at : NULL);
	json_end(out, '}');
}

static fallible templates_answer(struct http *x, int status, const struct template *template)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	write_template(&out, template);
	return http_reply_json(x, status, &body);
}

fallible api_templates_list(struct http *x)
{
	auto_free struct template *all = NULL;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	size_t count;

	TRY(templates_all(gateway_of(x)->manager, gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++)
		write_template(&out, &all[i]);
	json_end(&out, ']');
	json_put_text(&out, "cursor", NULL);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_templates_get(struct http *x)
{
	struct template template;

	TRY(templates_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &template));
	return templates_answer(x, 200, &template);
}

fallible api_templates_forget(struct http *x)
{
	TRY(templates_forget(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}

static fallible api_templates_freeze(struct http *x)
{
	static const char *const known[] = {"name", "from", NULL};
	struct str name = {0}, from = STR("host");
	struct template template;
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "name"), "name", &name));
	TRY(json_str(json_get(json, "from"), "from", &from));
	if (!name.at)
		return err_new(INVALID, "bad_field", "'name' is missing");
	if (!str_is(from, "host"))
		return err_hint(err_new(NOT_OFFERED, "not_offered",
					"only the template 'host' can be frozen"),
				"send {\"name\":NAME,\"from\":\"host\"}");
	TRY(templates_freeze(gateway_of(x)->manager, gateway_who(x), name, &template));
	return templates_answer(x, 201, &template);
}

static fallible api_templates_import(struct http *x)
{
	struct str name = http_query(x, "name");
	auto_templates_import to = NULL;
	struct template template;
	char *piece;
	size_t got;

	if (!name.at)
		return err_hint(err_new(INVALID, "bad_field", "'name' is missing"),
				"POST /v1/templates?name=NAME with the archive as the body");
	TRY(templates_import_begin(gateway_of(x)->manager, gateway_who(x), name, &to));
	piece = arena_take(x->arena, PIECE);
	do {
		TRY(http_read(x, piece, PIECE, &got));
		if (got)
			TRY(templates_import_write(to, piece, got));
	} while (got);
	TRY(templates_import_end(to, &template));
	return templates_answer(x, 201, &template);
}

fallible api_templates_make(struct http *x)
{
	struct str type = http_field(x, "Content-Type");

	if (type.len >= 16 && str_eq_nocase((struct str){type.at, 16}, STR("application/json")))
		return api_templates_freeze(x);
	return api_templates_import(x);
}
