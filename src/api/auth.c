// Signing in to the dashboard: a key, or the code of a link, becomes a session token. The page
// keeps the token in memory and in the storage of its tab; there are no cookies, because all ports
// of a host share them.
#include <string.h>

#include "api/handlers.h"
#include "codec/url.h"
#include "gateway/gateway.h"

#define REPLY_MAX (4u << 20)
#define REQUEST_NAME_MAX 40
#define AUTH_PATH_MAX 8192

static struct web_sessions *web_of(const struct http *x)
{
	return gateway_of(x)->web;
}

static fallible auth_read(struct http *x, const char *const *known, struct json **out,
			  struct web_ask *ask)
{
	*ask = (struct web_ask){.scopes = gateway_who(x)->scopes};
	TRY(gateway_json(x, out, NULL));
	if (!*out)
		return OK;
	TRY(json_want(*out, "body", JSON_OBJECT));
	TRY(json_only(*out, known));
	TRY(key_read_scopes(json_get(*out, "scopes"), &ask->scopes));
	TRY(json_str(json_get(*out, "tenant"), "tenant", &ask->tenant));
	TRY(json_str(json_get(*out, "name"), "name", &ask->name));
	if (ask->tenant.at && !who_is_tenant(ask->tenant))
		return err_new(INVALID, "bad_tenant", "not a valid tenant name");
	for (size_t i = 0; i < ask->name.len; i++)
		if (ask->name.at[i] < ' ' || ask->name.at[i] > '~' ||
		    ask->name.len > REQUEST_NAME_MAX)
			return err_new(INVALID, "bad_field",
				       "'name' must be up to %d printable characters",
				       REQUEST_NAME_MAX);
	return OK;
}

static fallible auth_answer(struct http *x, const struct who *who, char text[WEB_TOKEN_LEN + 1])
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct err *err;

	json_begin(&out, '{');
	web_sessions_put(web_of(x), who->web, &out);
	json_put_text(&out, "token", text);
	json_end(&out, '}');
	secret_wipe(text, WEB_TOKEN_LEN);
	http_set(x, "Location", str_of(arena_fmt(x->arena, "/v1/auth/sessions/%s", who->web)));
	http_set(x, "Cache-Control", STR("no-store"));
	err = http_reply_json(x, 201, &body);
	secret_wipe(body.at, body.len);
	return err;
}

fallible api_auth_sign_in(struct http *x)
{
	static const char *const known[] = {"scopes", "name", NULL};
	char text[WEB_TOKEN_LEN + 1];
	auto_json json = NULL;
	struct web_ask ask;
	struct who made;

	TRY(auth_read(x, known, &json, &ask));
	TRY(web_sessions_make(web_of(x), gateway_who(x), &ask, &made, text));
	return auth_answer(x, &made, text);
}

fallible api_auth_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_key(&out, "items");
	web_sessions_put_all(web_of(x), gateway_who(x), &out);
	json_end(&out, '}');
	http_set(x, "Cache-Control", STR("no-store"));
	return http_reply_json(x, 200, &body);
}

fallible api_auth_sign_out(struct http *x)
{
	TRY(web_sessions_end(web_of(x), gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}

// The address by which the client reached this server; a client of the Unix socket gets that of the
// first listener.
static fallible auth_origin(struct http *x, struct str *out)
{
	struct str bound = authenticate_bound(gateway_of(x)->auth);

	*out = x->uid < 0 ? http_field(x, "Host") : bound;
	if (out->len)
		return OK;
	return err_hint(err_new(CONFLICT, "no_listener", "cove listens on no address"),
			"give 'cove serve' an address with --listen");
}

fallible api_auth_link(struct http *x)
{
	static const char *const known[] = {"scopes", "tenant", NULL};
	auto_secret_buf body = BUF_SECRET(4096);
	struct json_out out = json_to(&body);
	char code[WEB_CODE_LEN + 1];
	auto_json json = NULL;
	struct web_ask ask;
	struct str origin;
	int64_t expires_ms;

	TRY(auth_read(x, known, &json, &ask));
	TRY(auth_origin(x, &origin));
	TRY(web_sessions_link(web_of(x), gateway_who(x), &ask, code, &expires_ms));
	json_begin(&out, '{');
	json_put_text(
		&out, "url",
		arena_fmt(x->arena, "http://" STR_FMT "/ui/login#code=%s", STR_ARG(origin), code));
	json_put_time(&out, "expiresAt", expires_ms);
	json_end(&out, '}');
	secret_wipe(code, sizeof(code));
	http_set(x, "Cache-Control", STR("no-store"));
	return http_reply_json(x, 201, &body);
}

// Open: the code is the credential. The content type keeps out forms of other pages.
fallible api_auth_exchange(struct http *x)
{
	static const char *const known[] = {"code", NULL};
	char text[WEB_TOKEN_LEN + 1];
	struct str code = {0};
	auto_json json = NULL;
	bool is_known = false;
	struct who made;

	TRY(gateway_object(x, &json));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "code"), "code", &code));
	if (!code.at)
		return err_new(INVALID, "bad_field", "'code' is missing");
	TRY(web_sessions_redeem(web_of(x), code, &is_known, &made, text));
	if (!is_known)
		return authenticate_fail_code(gateway_of(x)->auth, x);
	return auth_answer(x, &made, text);
}

// A relay to a server in a sandbox answers what that server says: it is nothing to save.
static bool auth_is_download(struct str path)
{
	struct url url;

	if (!url_target(path, &url) || !str_starts(url.path, "/v1/"))
		return false;
	for (size_t i = 0; i + strlen("/proxy/") <= path.len; i++)
		if (!memcmp(path.at + i, "/proxy/", strlen("/proxy/")))
			return false;
	return true;
}

fallible api_auth_ticket(struct http *x)
{
	static const char *const known[] = {"path", NULL};
	auto_secret_buf body = BUF_SECRET(2 * AUTH_PATH_MAX);
	struct json_out out = json_to(&body);
	char text[WEB_TICKET_LEN + 1];
	auto_json json = NULL;
	struct str path = {0};
	int64_t expires_ms;

	TRY(gateway_object(x, &json));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "path"), "path", &path));
	if (path.len > AUTH_PATH_MAX || !auth_is_download(path))
		return err_hint(err_new(INVALID, "bad_field", "'path' is no path of a download"),
				"as /v1/executions/ID/artifacts.tar");
	TRY(web_sessions_ticket(web_of(x), gateway_who(x), path, text, &expires_ms));
	json_begin(&out, '{');
	json_put_text(&out, "url",
		      arena_fmt(x->arena, STR_FMT "%sticket=%s", STR_ARG(path),
				memchr(path.at, '?', path.len) ? "&" : "?", text));
	json_put_time(&out, "expiresAt", expires_ms);
	json_end(&out, '}');
	secret_wipe(text, sizeof(text));
	http_set(x, "Cache-Control", STR("no-store"));
	return http_reply_json(x, 201, &body);
}
