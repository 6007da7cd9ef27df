// Addresses of previews. The standard one names a port and needs the token of the sandbox, one for
// all ports. A signed one has a link of that token in it, for one port and a time. Both are void
// when the sandbox is started again. preview/target.c serves them. Signed URLs of files
// (types/file_url.h) have a key of their own, which a client replaces to void them.
#include "base/clock.h"
#include "daytona/handlers.h"
#include "gateway/gateway.h"
#include "types/file_url.h"
#include "types/preview_token.h"

#define SPAN_S 60
#define SPAN_MAX_S 86400
#define URL_MAX 1024
#define LIST_MAX 8192

static fallible preview_port(struct http *x, uint16_t *out)
{
	uint64_t port;

	if (!str_to_u64(x->params[1], 1, 65535, &port)) {
		authenticate_report(x, "bad_port", "low");
		return err_new(INVALID, "bad_port", "a port is a number from 1 to 65535");
	}
	*out = (uint16_t)port;
	return OK;
}

// Without the slash at its end: clients add a path.
static fallible preview_put_url(struct http *x, struct json_out *out, const struct entry *entry,
				uint16_t port, const char *token)
{
	const struct urls *urls = &gateway_of(x)->urls;
	const char *id = entry->record.short_id;
	auto_buf url = BUF_INIT(URL_MAX);

	if (!urls_host(urls, id, port, token, &url) && !urls_path(urls, id, port, token, &url))
		return err_hint(err_new(NOT_OFFERED, "not_offered", "this cove has no previews"),
				"set 'listen' in the section [preview]");
	json_put_str(out, "url", (struct str){url.at, url.len - 1});
	return OK;
}

fallible daytona_preview_url(struct http *x)
{
	char token[PREVIEW_TOKEN_BOX_LEN + 1];
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	auto_entry entry = NULL;
	uint16_t port = 0;

	TRY(preview_port(x, &port));
	TRY(gateway_entry(x, ACCESS_USE, &entry));
	preview_token_of_box(gateway_of(x)->link_key, entry->record.id, &entry->record.labels,
			     token);
	json_begin(&out, '{');
	json_put_text(&out, "sandboxId", entry->record.id);
	TRY(preview_put_url(x, &out, entry, port, ""));
	json_put_text(&out, "token", token);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible daytona_preview_sign(struct http *x)
{
	struct str span = http_query(x, "expiresInSeconds");
	char token[PREVIEW_TOKEN_BOX_LEN + 1], link[PREVIEW_TOKEN_LINK_LEN + 1];
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	uint64_t seconds = SPAN_S;
	auto_entry entry = NULL;
	uint16_t port = 0;

	TRY(preview_port(x, &port));
	if (span.at && !str_to_u64(span, 1, SPAN_MAX_S, &seconds))
		return err_new(INVALID, "bad_field", "'expiresInSeconds' must be within 1 and %d",
			       SPAN_MAX_S);
	TRY(gateway_entry(x, ACCESS_USE, &entry));
	preview_token_of_box(gateway_of(x)->link_key, entry->record.id, &entry->record.labels,
			     token);
	preview_token_sign(gateway_of(x)->link_key,
			   &(struct preview_token){entry->record.id, port, token, 0},
			   clock_steady_ms() + (int64_t)seconds * 1000, link);
	json_begin(&out, '{');
	json_put_text(&out, "sandboxId", entry->record.id);
	json_put_int(&out, "port", port);
	json_put_text(&out, "token", link);
	TRY(preview_put_url(x, &out, entry, port, link));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// Durable on return, and open connections by this link end.
fallible daytona_preview_expire(struct http *x)
{
	struct str link = x->params[2];
	char token[PREVIEW_TOKEN_BOX_LEN + 1];
	auto_buf list = BUF_INIT(LIST_MAX);
	const struct record *record;
	auto_entry entry = NULL;
	uint16_t port = 0;

	TRY(preview_port(x, &port));
	TRY(gateway_entry(x, ACCESS_USE, &entry));
	preview_token_of_box(gateway_of(x)->link_key, entry->record.id, &entry->record.labels,
			     token);
	if (!preview_token_is_link(link) ||
	    preview_token_check(gateway_of(x)->link_key,
				&(struct preview_token){entry->record.id, port, token, 0}, link,
				clock_steady_ms()) == PREVIEW_TOKEN_WRONG)
		return err_new(NOT_FOUND, "no_link", "there is no such signed address of the port");
	if (!preview_token_add_void(&entry->record.labels, link, clock_steady_ms(), &list))
		return err_hint(err_new(EXHAUSTED, "too_many_signed",
					"%d signed addresses were taken back already",
					PREVIEW_TOKEN_VOID_MAX),
				"a stop and a start of the sandbox voids all");
	TRY(change_own_label(gateway_of(x)->manager, gateway_who(x), x->params[0],
			     PREVIEW_TOKEN_VOID, list.at, &record));
	condition_signal(&entry->changed);
	return http_reply_empty(x, 200);
}

fallible daytona_preview_public(struct http *x)
{
	bool flag = str_is(x->params[1], "true");
	const struct record *record;
	auto_entry entry = NULL;

	if (!flag && !str_is(x->params[1], "false"))
		return err_new(INVALID, "bad_field", "the flag must be true or false");
	TRY(gateway_entry(x, ACCESS_MAKE, &entry));
	TRY(change_own_label(gateway_of(x)->manager, gateway_who(x), x->params[0],
			     PREVIEW_TOKEN_PUBLIC, flag ? "true" : NULL, &record));
	condition_signal(&entry->changed);
	return daytona_sandbox_get(x);
}

static fallible preview_answer_key(struct http *x, const struct entry *entry)
{
	char key[FILE_URL_KEY_LEN + 1];
	auto_buf body = BUF_INIT(256);
	struct json_out out = json_to(&body);

	file_url_key(gateway_of(x)->link_key, entry->record.id, &entry->record.labels, key);
	json_add_text(&out, key);
	secret_wipe(key, sizeof(key));
	return http_reply_json(x, 200, &body);
}

fallible daytona_preview_signing_key(struct http *x)
{
	auto_entry entry = NULL;

	TRY(gateway_entry(x, ACCESS_USE, &entry));
	return preview_answer_key(x, entry);
}

fallible daytona_preview_rotate_key(struct http *x)
{
	const struct record *record;
	auto_entry entry = NULL;
	char turn[17];

	TRY(gateway_entry(x, ACCESS_MAKE, &entry));
	secret_hex(turn, 8);
	TRY(change_own_label(gateway_of(x)->manager, gateway_who(x), x->params[0], FILE_URL_TURN,
			     turn, &record));
	return preview_answer_key(x, entry);
}
