// The verbs secret set, ls, inspect and rm: named secrets of the tenant. A value comes from stdin,
// or is typed without echo: never from argv, which every user of the host can read.
#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/tty.h"
#include "lib/fields.h"

#define SECRETS_PATH "/v1/secrets"
#define VALUE_MAX (16 * 1024 + 2)
#define BODY_MAX (128 * 1024)

// "Authorization: Bearer {}", or a name alone.
static void secrets_put_header(struct json_out *out, const char *text)
{
	struct str rest = str_of(text), name;

	str_cut(&rest, ':', &name);
	json_key(out, "header");
	json_begin(out, '{');
	json_put_str(out, "name", str_trim(name));
	if (rest.at)
		json_put_str(out, "format", str_trim(rest));
	json_end(out, '}');
}

static void secrets_put_hosts(struct json_out *out, const struct call *call)
{
	const char *text;

	json_key(out, "hosts");
	json_begin(out, '[');
	for (size_t at = 0; call_next(call, OPT_FOR, &at, &text);) {
		struct str rest = str_of(text), host;

		while (rest.len && str_cut(&rest, ',', &host))
			json_add_str(out, host);
	}
	json_end(out, ']');
}

fallible secrets_set(struct call *call)
{
	auto_secret_buf body = BUF_SECRET(BODY_MAX), value = BUF_SECRET(VALUE_MAX);
	auto_free char *path = remote_path(SECRETS_PATH, call->words[0], "");
	struct json_out out = json_to(&body);
	int64_t expires_ms = 0;

	if (!call_has(call, OPT_FOR))
		return err_hint(err_new(INVALID, "bad_value", "no host is named"),
				"--for api.example.com");
	TRY(body_ms(call, OPT_EXPIRES, "720h", &expires_ms));
	json_begin(&out, '{');
	secrets_put_hosts(&out, call);
	if (call_has(call, OPT_HEADER))
		secrets_put_header(&out, call_value(call, OPT_HEADER));
	if (call_has(call, OPT_QUERY))
		json_put_text(&out, "query", call_value(call, OPT_QUERY));
	if (expires_ms)
		json_put_time(&out, "expiresAt", clock_wall_ms() + expires_ms);
	if (!call_has(call, OPT_KEEP)) {
		TRY(tty_read_secret("Value", true, &value));
		json_put_str(&out, "value", buf_view(&value));
	}
	json_end(&out, '}');
	return remote_act(call, "PUT", path, &body, NULL);
}

static void secrets_put_form(const struct json *secret, const char *key, struct buf *out)
{
	const struct json *header = json_get(secret, "header");

	(void)key;
	if (header)
		buf_fmt(out, "%s: %s", fields_text(header, "name"), fields_text(header, "format"));
	else if (json_get(secret, "query"))
		buf_fmt(out, "?%s=", fields_text(secret, "query"));
	else
		buf_text(out, "placeholder");
}

fallible secrets_ls(struct call *call)
{
	static const struct column columns[] = {
		{"NAME", "name", NULL},
		{"HOSTS", "hosts", column_list},
		{"FORM", "header", secrets_put_form},
		{"ROTATED", "rotatedAt", column_age},
		{"USED", "lastUsedAt", column_age},
		{"BY HOST", "lastUsedHost", NULL},
		{"EXPIRES", "expiresAt", NULL},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){SECRETS_PATH, "", "name", columns});
}

fallible secrets_inspect(struct call *call)
{
	return collection_show(call, SECRETS_PATH, NULL);
}

fallible secrets_rm(struct call *call)
{
	return collection_rm(call, SECRETS_PATH);
}
