// A 401 is answered once per request: its challenge says whether the registry wants Basic, or a
// token from another server (the realm). The token is kept for the next requests of this pull. What
// a registry says in an error is shown to the tenant, cut and cleaned.
#include "registry/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/json.h"
#include "codec/text.h"
#include "codec/url.h"
#include "types/challenge.h"
#include "types/manifest.h"

#define TOKEN_MAX (64 * 1024)
#define TOKEN_MS 60000 // if the server does not say
#define SAID_MAX 4096
#define RETRY_AFTER_MAX_S 60
#define MIRRORS_MAX 8

struct registry_base {
	char *url;  // with scheme, without a slash at its end
	bool own;   // the registry itself, not a mirror
	bool found; // the credential was looked up
	struct registry_credential credential;
	char *authorization;
	int64_t expires_ms; // loop time; of a token
};

struct registry {
	struct fetch_rules rules;
	struct reference reference;
	fallible (*find)(void *arg, const char *host, struct registry_credential *out);
	void *arg;
	struct registry_base bases[MIRRORS_MAX + 1]; // the last one is the registry itself
	size_t count;
	int64_t retry_after_ms;
};

static void text_wipe(char **text)
{
	if (*text)
		secret_wipe(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void registry_credential_done(struct registry_credential *credential)
{
	text_wipe(&credential->username);
	text_wipe(&credential->password);
	text_wipe(&credential->identity);
}

void registry_free(struct registry *registry)
{
	if (!registry)
		return;
	for (size_t i = 0; i < registry->count; i++) {
		free(registry->bases[i].url);
		text_wipe(&registry->bases[i].authorization);
		registry_credential_done(&registry->bases[i].credential);
	}
	free(registry);
}

static void add_mirrors(struct registry *registry, struct str list)
{
	struct str word, host;

	while (list.len && str_cut(&list, ',', &word)) {
		word = str_trim(word);
		if (!str_cut(&word, '=', &host) || !str_is(host, registry->reference.host) ||
		    !word.len || registry->count == MIRRORS_MAX)
			continue;
		while (word.len && word.at[word.len - 1] == '/')
			word.len--;
		registry->bases[registry->count++].url = mem_dup(word.at, word.len);
	}
}

struct registry *registry_new(const struct registry_options *options)
{
	struct registry *registry = mem_new_of(struct registry);
	const struct registry_credential *credential = options->credential;
	const char *host = options->reference->host;
	auto_free char *plain = mem_fmt("http://%s", host);
	struct registry_base *own;

	registry->rules = options->rules;
	registry->reference = *options->reference;
	registry->find = options->find;
	registry->arg = options->arg;
	add_mirrors(registry, options->mirrors);
	own = &registry->bases[registry->count++];
	own->own = true;
	own->found = credential != NULL;
	if (credential && credential->username)
		own->credential.username = mem_str(credential->username);
	if (credential && credential->password)
		own->credential.password = mem_str(credential->password);
	if (credential && credential->identity)
		own->credential.identity = mem_str(credential->identity);
	if (!strcmp(host, "docker.io"))
		own->url = mem_str("https://registry-1.docker.io");
	else if (fetch_may_carry_secrets(&registry->rules, plain))
		own->url = take_ptr(plain);
	else
		own->url = mem_fmt("https://%s", host);
	return registry;
}

fallible registry_read(struct fetch *fetch, size_t max, struct buf *out)
{
	auto_free char *room = mem_new(16 * 1024);

	fetch_hurry(fetch);
	for (;;) {
		size_t got = 0;

		TRY(fetch_read(fetch, room, 16 * 1024, &got));
		if (!got)
			return OK;
		if (out->len + got > max)
			return err_hint(err_new(TOO_LARGE, "archive_too_large",
						"the registry sent a document of more than %zu KiB",
						max >> 10),
					"the registry serves something else than an image");
		buf_add(out, room, got);
	}
}

// -------------------------------------------------------------------------------------------
// errors

// What the registry says, printable and short.
static void registry_said(struct fetch *fetch, struct buf *out)
{
	auto_buf body = BUF_INIT(SAID_MAX);
	auto_json json = NULL;
	auto_err cut = registry_read(fetch, SAID_MAX - 1, &body);
	auto_err bad = cut ? OK : json_read(buf_view(&body), &json);
	const struct json *errors, *first;
	struct str message = {0};

	if (cut || bad || !json || json_type(json) != JSON_OBJECT)
		return;
	errors = json_get(json, "errors");
	first = errors && json_type(errors) == JSON_ARRAY ? json_at(errors, 0) : json;
	if (first && json_type(first) == JSON_OBJECT) {
		message = json_chars(json_get(first, "message"));
		if (!message.len)
			message = json_chars(json_get(first, "details"));
	}
	for (size_t i = 0; i < message.len && i < 160; i++)
		buf_char(out, message.at[i] >= ' ' && message.at[i] < 127 ? message.at[i] : '?');
}

static fallible registry_denied(const struct registry *registry, struct fetch *fetch)
{
	auto_buf said = BUF_INIT(256);

	if (fetch)
		registry_said(fetch, &said);
	if (!registry->reference.path[0])
		return err_hint(err_new(FORBIDDEN, "registry_denied",
					"%s does not accept the credential%s%s",
					registry->reference.host, said.len ? ": " : "",
					said.len ? said.at : ""),
				"check the name and the password");
	return err_hint(err_new(FORBIDDEN, "registry_denied", "%s denies access to %s%s%s",
				registry->reference.host, registry->reference.path,
				said.len ? ": " : "", said.len ? said.at : ""),
			"the name may be wrong, or the image private: 'cove registry login %s', or "
			"'docker login' on the client",
			registry->reference.host);
}

static fallible registry_explain(struct registry *registry, struct fetch *fetch, const char *name)
{
	int status = fetch_status(fetch);
	uint64_t seconds;

	registry->retry_after_ms = 0;
	if (str_to_u64(fetch_field(fetch, "Retry-After"), 1, RETRY_AFTER_MAX_S, &seconds))
		registry->retry_after_ms = (int64_t)seconds * 1000;
	if (status == 404)
		return err_hint(err_new(NOT_FOUND, "no_image", "%s has no %s of that name: %.80s",
					registry->reference.host, registry->reference.path, name),
				"check the name and its tag");
	if (status == 401 || status == 403)
		return registry_denied(registry, fetch);
	if (status == 416)
		return err_new(BAD_PEER, "bad_range", "the registry refused to send a part");
	return err_hint(err_new(BAD_PEER, "registry_unreachable", "the registry %s answered %d",
				registry->reference.host, status),
			"%s",
			status == 429 ? "it limits how often it is asked: log in, or wait"
				      : "try again in a moment");
}

bool registry_may_pass(const struct err *err)
{
	return err_kind(err) == ERR_TIMEOUT ||
	       (err_kind(err) == ERR_BAD_PEER && strcmp(err_reason(err), "tls_untrusted") != 0);
}

int64_t registry_pause_ms(int attempt)
{
	return 1000ll << (attempt < 4 ? attempt : 4);
}

// -------------------------------------------------------------------------------------------- auth

static void base_authorize(struct registry_base *base, const char *scheme, struct str value,
			   int64_t expires_ms)
{
	text_wipe(&base->authorization);
	base->authorization = mem_fmt("%s " STR_FMT, scheme, STR_ARG(value));
	base->expires_ms = expires_ms;
}

// Looks the credential up, once, when it is asked for: that of the registry's or the mirror's host.
static fallible base_find_credential(const struct registry *registry, struct registry_base *base)
{
	auto_free char *host = NULL;
	struct url url;

	if (base->found || !registry->find)
		return OK;
	if (base->own)
		host = mem_str(registry->reference.host);
	else if (!url_absolute(str_of(base->url), &url))
		return OK;
	else if (url.port)
		host = mem_fmt(STR_FMT ":%u", STR_ARG(url.host), url.port);
	else
		host = mem_dup(url.host.at, url.host.len);
	TRY(registry->find(registry->arg, host, &base->credential));
	base->found = true;
	return OK;
}

static bool base_basic(const struct registry_base *base, struct buf *out)
{
	auto_secret_buf pair = BUF_INIT(32 * 1024);

	if (!base->credential.username || !base->credential.password)
		return false;
	buf_fmt(&pair, "%s:%s", base->credential.username, base->credential.password);
	text_base64(out, pair.at, pair.len);
	return buf_ok(&pair) && buf_ok(out);
}

static void put_pair(struct buf *out, const char *key, const char *value)
{
	buf_fmt(out, "%s%s=", out->len && !strchr("?&", out->at[out->len - 1]) ? "&" : "", key);
	text_percent(out, str_of(value));
}

// Asks the realm for a token.
static fallible registry_ask_token(struct registry *registry, const struct registry_base *base,
				   const struct challenge *challenge, struct fetch **out)
{
	struct fetch_rules rules = registry->rules;
	auto_free char *scope = mem_fmt("repository:%s:pull", registry->reference.path);
	auto_secret_buf url = BUF_INIT(8192), basic = BUF_INIT(64 * 1024), form = BUF_INIT(65536);
	const char *wanted = challenge->scope[0]	   ? challenge->scope
			     : registry->reference.path[0] ? scope
							   : NULL;
	auto_free char *authorization = NULL;
	struct fetch_request request = {0};
	struct err *err;

	// A registry elsewhere may not name a realm on loopback.
	rules.loopback = rules.loopback && fetch_is_loopback(base->url);
	buf_fmt(&url, "%s", challenge->realm);
	if (base->credential.identity) {
		put_pair(&form, "grant_type", "refresh_token");
		put_pair(&form, "client_id", "cove");
		put_pair(&form, "refresh_token", base->credential.identity);
		put_pair(&form, "service", challenge->service);
		if (wanted)
			put_pair(&form, "scope", wanted);
		request.form = buf_view(&form);
	} else {
		buf_char(&url, strchr(challenge->realm, '?') ? '&' : '?');
		if (challenge->service[0])
			put_pair(&url, "service", challenge->service);
		if (wanted)
			put_pair(&url, "scope", wanted);
		if (base_basic(base, &basic))
			authorization = mem_fmt("Basic %s", basic.at);
	}
	if ((authorization || request.form.at) &&
	    !fetch_may_carry_secrets(&rules, challenge->realm))
		return err_hint(err_new(FORBIDDEN, "registry_denied",
					"the registry %s wants a password without TLS",
					registry->reference.host),
				"the operator may list that host in registry-insecure");
	if (!buf_ok(&url) || !buf_ok(&form) || !buf_ok(&basic))
		return registry_denied(registry, NULL);
	request.url = url.at;
	request.authorization = authorization;
	err = fetch_open(&rules, &request, out);
	if (authorization)
		secret_wipe(authorization, strlen(authorization));
	return err;
}

static fallible registry_token(struct registry *registry, struct registry_base *base,
			       const struct challenge *challenge)
{
	auto_secret_buf body = BUF_INIT(TOKEN_MAX + 1);
	auto_fetch fetch = NULL;
	auto_json json = NULL;
	struct str token = {0};
	uint64_t seconds = 0;

	TRY(registry_ask_token(registry, base, challenge, &fetch));
	if (fetch_status(fetch) >= 500 || fetch_status(fetch) == 429)
		return registry_explain(registry, fetch, "token");
	if (fetch_status(fetch) != 200)
		return registry_denied(registry, fetch);
	TRY(registry_read(fetch, TOKEN_MAX, &body));
	auto_err bad = json_read(buf_view(&body), &json);

	if (!bad && json_type(json) == JSON_OBJECT) {
		token = json_chars(json_get(json, "token"));
		if (!token.len)
			token = json_chars(json_get(json, "access_token"));
		err_free(json_u64(json_get(json, "expires_in"), "expires_in", 0, 86400, &seconds));
	}
	if (!token.len || !http1_is_field(STR("Authorization"), token))
		return registry_denied(registry, NULL);
	base_authorize(base, "Bearer", token,
		       loop_now(registry->rules.loop) +
			       (seconds ? (int64_t)seconds * 1000 : TOKEN_MS));
	return OK;
}

// Answers the challenges of a 401.
static fallible registry_authorize(struct registry *registry, struct registry_base *base,
				   struct fetch *fetch)
{
	auto_free struct challenge *challenge = mem_new_of(struct challenge);
	const struct http1_head *head = fetch_head(fetch);
	auto_secret_buf basic = BUF_INIT(64 * 1024);

	TRY(base_find_credential(registry, base));
	for (size_t i = 0; i < head->field_count; i++)
		if (str_eq_nocase(head->fields[i].name, STR("WWW-Authenticate")))
			challenge_read(head->fields[i].value, challenge);
	if (challenge->kind == CHALLENGE_BEARER)
		return registry_token(registry, base, challenge);
	if (challenge->kind == CHALLENGE_BASIC && base_basic(base, &basic) &&
	    fetch_may_carry_secrets(&registry->rules, base->url)) {
		base_authorize(base, "Basic", buf_view(&basic), CLOCK_NEVER);
		return OK;
	}
	return registry_denied(registry, fetch);
}

// -----------------------------------------------------------------------------------------
// requests

static fallible base_get(struct registry *registry, struct registry_base *base, const char *path,
			 uint64_t from, struct fetch **out)
{
	auto_free char *url = mem_fmt("%s%s", base->url, path);
	struct fetch_request request = {.url = url, .from = from};

	if (strstr(path, "/manifests/"))
		request.accept = MANIFEST_ACCEPT;
	for (bool again = false;; again = true) {
		auto_fetch fetch = NULL;
		bool valid = base->authorization &&
			     base->expires_ms > loop_now(registry->rules.loop);
		auto_free char *authorization = valid ? mem_str(base->authorization) : NULL;

		request.authorization = authorization;
		TRY(fetch_open(&registry->rules, &request, &fetch));
		if (fetch_status(fetch) != 401 || again) {
			*out = take_ptr(fetch);
			return OK;
		}
		TRY(registry_authorize(registry, base, fetch));
	}
}

static fallible registry_get_once(struct registry *registry, struct registry_base *base,
				  const char *kind, const char *name, uint64_t from,
				  struct fetch **out)
{
	auto_free char *path = mem_fmt("/v2/%s/%s/%s", registry->reference.path, kind, name);
	auto_fetch fetch = NULL;
	int status;

	TRY(base_get(registry, base, path, from, &fetch));
	status = fetch_status(fetch);
	if (status != 200 && !(status == 206 && from))
		return registry_explain(registry, fetch, name);
	*out = take_ptr(fetch);
	return OK;
}

fallible registry_get(struct registry *registry, const char *kind, const char *name, uint64_t from,
		      int tries, struct fetch **out)
{
	for (size_t i = 0; i + 1 < registry->count; i++) {
		struct err *err = registry_get_once(registry, &registry->bases[i], kind, name, from,
						    out);

		if (!err || err_kind(err) == ERR_CANCELLED)
			return err;
		err_free(err); // the next one may have it
	}
	for (int attempt = 0;; attempt++) {
		struct err *err = registry_get_once(registry, &registry->bases[registry->count - 1],
						    kind, name, from, out);
		int64_t pause = registry_pause_ms(attempt);

		if (!err || attempt + 1 >= tries || !registry_may_pass(err))
			return err;
		err_free(err);
		if (registry->retry_after_ms > pause)
			pause = registry->retry_after_ms;
		TRY(task_sleep_until(loop_now(registry->rules.loop) + pause));
	}
}

fallible registry_try(struct registry *registry)
{
	struct registry_base *own = &registry->bases[registry->count - 1];
	auto_fetch fetch = NULL;

	TRY(base_get(registry, own, "/v2/", 0, &fetch));
	return fetch_status(fetch) == 200 ? OK : registry_explain(registry, fetch, "");
}

fallible registry_try_mirror(struct registry *registry)
{
	auto_fetch fetch = NULL;
	struct err *err = base_get(registry, &registry->bases[0], "/v2/", 0, &fetch);

	// It answers, and wants a credential.
	if (err && !strcmp(err_reason(err), "registry_denied")) {
		err_free(err);
		return OK;
	}
	TRY(err);
	return fetch_status(fetch) < 500 ? OK : registry_explain(registry, fetch, "");
}
