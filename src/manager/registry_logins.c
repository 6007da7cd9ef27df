// Credentials at registries in memory, by TENANT/HOST, encrypted. The key is that of tenants'
// secrets: it comes from the egress seed, a file beside the database.
#include "manager/registry_logins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "codec/text.h"
#include "egress/egress.h"
#include "manager/access.h"
#include "manager/pull_settings.h"
#include "store/registries.h"

#define SECRET_MAX (64 * 1024)
#define BODY_MAX (256 * 1024)

static char *login_key(const char *tenant, const char *host)
{
	return mem_fmt("%s/%s", tenant, host);
}

static struct registry_login *login_find(const struct manager *manager, const char *tenant,
					 const char *host)
{
	auto_free char *key = login_key(tenant, host);

	return map_get(manager->registry_logins, str_of(key));
}

static void login_free(struct registry_login *login)
{
	if (!login)
		return;
	free(login->host);
	free(login->username);
	free(login->sealed);
	free(login);
}

static fallible logins_ready(const struct manager *manager)
{
	if (!manager->logins_unknown)
		return OK;
	return err_hint(err_new(UNAVAILABLE, "state_corrupt",
				"the credentials at registries could not be read"),
			"the operator's log has the cause: manager.no_registries");
}

static fallible login_absent(struct str host)
{
	return err_hint(err_absent("no_registry", "registry", host),
			"'cove registry ls' lists them");
}

// The host as a reference to an image there has it.
static fallible login_host(struct str host, struct reference *out)
{
	auto_free char *image = mem_fmt(STR_FMT "/x", STR_ARG(host));
	auto_err bad = reference_read(str_of(image), out);

	if (!bad && !strcmp(out->path, "x")) {
		out->path[0] = '\0';
		return OK;
	}
	if (!bad && !strcmp(out->host, "docker.io") && !strcmp(out->path, "library/x")) {
		out->path[0] = '\0';
		return OK;
	}
	return err_hint(err_new(INVALID, "bad_reference", "'%.*s' is no registry",
				(int)(host.len < 80 ? host.len : 80), host.at),
			"HOST[:PORT], such as docker.io or registry.example:5000");
}

void registry_logins_put(struct json_out *out, const struct registry_login *login)
{
	json_begin(out, '{');
	json_put_text(out, "host", login->host);
	json_put_text(out, "username", login->username);
	json_put_bool(out, "shared", login->shared);
	json_put_time(out, "createdAt", login->created_ms);
	json_end(out, '}');
}

// ------------------------------------------------------------------------------------------ secret

static fallible login_seal(const struct manager *manager, struct registry_login *login,
			   const struct registry_credential *credential)
{
	auto_secret_buf text = BUF_SECRET(SECRET_MAX);
	auto_buf sealed = BUF_INIT(2 * SECRET_MAX), base64 = BUF_INIT(4 * SECRET_MAX);
	auto_free char *owner = mem_fmt("registry/%s/%s", login->tenant, login->host);
	bool is_identity = credential->identity;
	const char *secret = is_identity ? credential->identity : credential->password;

	if (!manager->egress || !manager->store)
		return err_new(NOT_OFFERED, "no_network", "credentials cannot be kept here");
	buf_fmt(&text, "%c%s", is_identity ? 'i' : 'p', secret);
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "too_large", "the credential is too large");
	TRY(egress_seal(manager->egress, owner, buf_view(&text), &sealed));
	if (weak(SEAL))
		buf_text(&base64, secret);
	else
		text_base64(&base64, sealed.at, sealed.len);
	if (!buf_ok(&base64))
		return err_new(TOO_LARGE, "too_large", "the credential is too large");
	buf_text(&base64, "");
	login->sealed = buf_take(&base64);
	return OK;
}

static fallible login_unseal(const struct manager *manager, const struct registry_login *login,
			     struct registry_credential *out)
{
	auto_buf sealed = BUF_INIT(2 * SECRET_MAX);
	auto_secret_buf text = BUF_SECRET(SECRET_MAX);
	auto_free char *owner = mem_fmt("registry/%s/%s", login->tenant, login->host);
	struct err *err = OK;

	if (!manager->egress || !text_unbase64(&sealed, str_of(login->sealed)))
		err = err_new(INVALID, "bad_seal", "a sealed credential is malformed");
	if (!err)
		err = egress_unseal(manager->egress, owner, buf_view(&sealed), &text);
	if (!err && text.len < 2)
		err = err_new(INVALID, "bad_seal", "a sealed credential is malformed");
	if (err)
		return err_hint(err_recast(err, ERR_FORBIDDEN, "registry_denied",
					   "the stored credential for %s cannot be decrypted",
					   login->host),
				"'cove registry login' stores it again");
	if (text.at[0] == 'i') {
		out->identity = mem_dup(text.at + 1, text.len - 1);
		return OK;
	}
	out->username = mem_str(login->username);
	out->password = mem_dup(text.at + 1, text.len - 1);
	return OK;
}

fallible registry_logins_find(const struct manager *manager, const char *tenant, const char *host,
			      struct registry_credential *out)
{
	const struct registry_login *login = login_find(manager, tenant, host);

	TRY(logins_ready(manager));
	if (!login && tenant[0]) {
		login = login_find(manager, "", host);
		if (login && !login->shared)
			login = NULL;
	}
	return login ? login_unseal(manager, login, out) : OK;
}

// ------------------------------------------------------------------------------------------ change

static fallible logins_ask_room(const struct manager *manager, const char *tenant)
{
	size_t at = 0, count = 0;
	struct str key;
	void *value;

	while (map_next(manager->registry_logins, &at, &key, &value))
		count += !strcmp(((struct registry_login *)value)->tenant, tenant);
	if (count < REGISTRIES_OF_TENANT_MAX)
		return OK;
	return err_hint(err_new(EXHAUSTED, "quota", "a tenant has credentials for at most %d hosts",
				REGISTRIES_OF_TENANT_MAX),
			"remove one: cove registry logout HOST");
}

static fallible login_try(struct manager *manager, const struct who *who,
			  const struct reference *host,
			  const struct registry_credential *credential)
{
	auto_registry registry = NULL;

	if (!manager->pull)
		return err_new(NOT_OFFERED, "no_network", "no registry is asked here");
	registry = registry_new(&(struct registry_options){
		.rules = {.loop = manager->loop,
			  .outbound = &manager->pull->outbound,
			  .insecure = manager->pull->insecure,
			  .loopback = who->role == WHO_OPERATOR},
		.reference = host,
		.credential = credential,
	});
	return registry_try(registry);
}

static fallible login_write(struct manager *manager, const struct registry_login *login)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "username", login->username);
	json_put_bool(&out, "shared", login->shared);
	json_put_text(&out, "sealed", login->sealed);
	json_end(&out, '}');
	buf_char(&body, 0);
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "too_large", "the credential is too large");
	return store_registries_put(manager->store,
				    &(struct store_registry){.tenant = login->tenant,
							     .host = login->host,
							     .body = body.at,
							     .created_ms = login->created_ms});
}

static void login_keep(struct manager *manager, struct registry_login *login)
{
	auto_free char *key = login_key(login->tenant, login->host);

	login_free(map_take(manager->registry_logins, str_of(key)));
	map_put(manager->registry_logins, str_of(key), login);
}

fallible registry_logins_set(struct manager *manager, const struct who *who, struct str host,
			     struct registry_credential *credential, bool shared,
			     const struct registry_login **out, bool *out_made)
{
	const struct registry_login *old;
	struct registry_login *login;
	struct reference at;
	struct err *err;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	if (shared)
		TRY(access_ask(who, ACCESS_OPERATOR));
	TRY(logins_ready(manager));
	TRY(login_host(host, &at));
	if (!login_find(manager, who->tenant, at.host))
		TRY(logins_ask_room(manager, who->tenant));
	TRY(login_try(manager, who, &at, credential), "try a credential");
	login = mem_new_of(struct registry_login);
	snprintf(login->tenant, sizeof(login->tenant), "%s", who->tenant);
	login->host = mem_str(at.host);
	login->username = credential->identity ? NULL : mem_str(credential->username);
	login->shared = shared && !who->tenant[0];
	login->created_ms = clock_wall_ms();
	err = login_seal(manager, login, credential);
	if (!err)
		err = login_write(manager, login);
	if (err) {
		login_free(login);
		return err_while(err, "keep a credential");
	}
	old = login_find(manager, who->tenant, at.host);
	*out_made = !old;
	login_keep(manager, login);
	*out = login;
	return OK;
}

fallible registry_logins_get(struct manager *manager, const struct who *who, struct str host,
			     const struct registry_login **out)
{
	const struct registry_login *login;
	struct reference at;

	TRY(access_ask(who, ACCESS_READ));
	TRY(logins_ready(manager));
	TRY(login_host(host, &at));
	login = who->box[0] ? NULL : login_find(manager, who->tenant, at.host);
	if (!login)
		return login_absent(host);
	*out = login;
	return OK;
}

static int login_compare(const void *a, const void *b)
{
	const struct registry_login *const *one = a, *const *two = b;

	return strcmp((*one)->host, (*two)->host);
}

fallible registry_logins_list(struct manager *manager, const struct who *who,
			      const struct registry_login ***out, size_t *out_count)
{
	const struct registry_login **all;
	size_t at = 0, count = 0;
	struct str key;
	void *value;

	TRY(access_ask(who, ACCESS_READ));
	TRY(logins_ready(manager));
	all = mem_new((map_count(manager->registry_logins) + 1) * sizeof(void *));
	while (!who->box[0] && map_next(manager->registry_logins, &at, &key, &value))
		if (!strcmp(((struct registry_login *)value)->tenant, who->tenant))
			all[count++] = value;
	qsort(all, count, sizeof(void *), login_compare);
	*out = all;
	*out_count = count;
	return OK;
}

static void login_take(struct manager *manager, const char *tenant, const char *host)
{
	auto_free char *key = login_key(tenant, host);

	login_free(map_take(manager->registry_logins, str_of(key)));
}

fallible registry_logins_drop(struct manager *manager, const struct who *who, struct str host)
{
	struct reference at;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(logins_ready(manager));
	TRY(login_host(host, &at));
	if (!login_find(manager, who->tenant, at.host))
		return login_absent(host);
	TRY(store_registries_drop(manager->store, who->tenant, at.host), "remove a credential");
	login_take(manager, who->tenant, at.host);
	return OK;
}

void registry_logins_drop_tenant(struct manager *manager, const char *tenant)
{
	for (;;) {
		const struct registry_login *found = NULL;
		size_t at = 0;
		struct str key;
		void *value;

		while (!found && map_next(manager->registry_logins, &at, &key, &value))
			if (!strcmp(((struct registry_login *)value)->tenant, tenant))
				found = value;
		if (!found)
			return;
		login_take(manager, tenant, found->host);
	}
}

// -------------------------------------------------------------------------------------------- load

static fallible login_load(struct manager *manager, const struct store_registry *row)
{
	auto_json body = NULL;
	struct registry_login *login;
	struct str username, sealed;
	bool shared = false;

	TRY(json_read(str_of(row->body), &body));
	TRY(json_want(body, "body", JSON_OBJECT));
	TRY(json_bool(json_get(body, "shared"), "shared", &shared));
	username = json_chars(json_get(body, "username"));
	sealed = json_chars(json_get(body, "sealed"));
	login = mem_new_of(struct registry_login);
	snprintf(login->tenant, sizeof(login->tenant), "%s", row->tenant);
	login->host = mem_str(row->host);
	login->username = username.at ? mem_dup(username.at, username.len) : NULL;
	login->sealed = mem_dup(sealed.at ? sealed.at : "", sealed.len);
	login->shared = shared;
	login->created_ms = row->created_ms;
	login_keep(manager, login);
	return OK;
}

void registry_logins_load(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct store_registry *rows = NULL;
	auto_err err = OK;
	size_t count = 0;

	if (manager->store)
		err = store_registries_load(manager->store, arena, &rows, &count);
	for (size_t i = 0; !err && i < count; i++)
		err = login_load(manager, &rows[i]);
	manager->logins_unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "manager.no_registries", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
}

void registry_logins_free(struct manager *manager)
{
	size_t at = 0;
	struct str key;
	void *value;

	while (map_next(manager->registry_logins, &at, &key, &value))
		login_free(value);
	map_free(manager->registry_logins);
}

// ----------------------------------------------------------------------------------------- mirrors

void registry_mirrors_try(struct manager *manager, registry_mirror_fn *each, void *arg)
{
	struct str rest = manager->pull ? manager->pull->mirrors : (struct str){0}, word, host;

	for (int i = 0; i < REGISTRY_MIRRORS_TRIED && rest.len && str_cut(&rest, ',', &word); i++) {
		struct str url = str_trim(word);
		auto_registry registry = NULL;
		struct reference at = {0};
		auto_err err = OK;

		if (!str_cut(&url, '=', &host) || !url.len)
			continue;
		snprintf(at.host, sizeof(at.host), STR_FMT, STR_ARG(host));
		registry = registry_new(&(struct registry_options){
			.rules = {.loop = manager->loop,
				  .outbound = &manager->pull->outbound,
				  .insecure = manager->pull->insecure,
				  .loopback = true},
			.mirrors = str_trim(word),
			.reference = &at,
		});
		err = registry_try_mirror(registry);
		each(arg, host, url, err);
	}
}
