// Secrets in memory, by TENANT/NAME. The store has the encrypted value; its key comes from the
// egress seed, which is a file beside the database.
//
// A use is recorded three times: in the ledger row of the connection (egress/judge), as the last
// use of the secret, and in the audit log, once for each sandbox and host.
#include "manager/named_secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret_text.h"
#include "base/weak.h"
#include "codec/text.h"
#include "egress/egress.h"
#include "manager/access.h"
#include "store/audit.h"
#include "store/secrets.h"

#define KEY_MAX (WHO_TENANT_MAX + POLICY_SECRET_NAME_MAX + 2)
#define USE_KEY_MAX (ID_BOX_LEN + POLICY_SECRET_NAME_MAX + HOSTNAME_MAX + 3)
#define USES_MAX 4096	  // remembered pairs of sandbox and host; beyond it all are forgotten
#define USE_EVERY_MS 1000 // the store gets the last use of a secret so often at most
#define SLICE 32	  // sandboxes that get a changed secret in one turn of the loop
#define BODY_MAX (4 * POLICY_SECRET_VALUE_MAX + 64 * 1024)

static struct str named_secrets_key(char room[KEY_MAX], const char *tenant, struct str name)
{
	int len = snprintf(room, KEY_MAX, "%s/" STR_FMT, tenant, STR_ARG(name));

	return (struct str){room, len < KEY_MAX ? (size_t)len : KEY_MAX - 1};
}

static struct named_secret *named_secrets_find(const struct manager *manager, const char *tenant,
					       struct str name)
{
	char room[KEY_MAX];

	if (name.len > POLICY_SECRET_NAME_MAX)
		return NULL;
	return map_get(manager->secrets, named_secrets_key(room, tenant, name));
}

// While the table could not be read, an absent secret proves nothing.
static fallible named_secrets_ready(const struct manager *manager)
{
	if (!manager->secrets_unknown)
		return OK;
	return err_hint(err_new(UNAVAILABLE, "state_corrupt", "the secrets could not be read"),
			"the operator's log has the cause: manager.no_secrets");
}

static void named_secret_free(struct named_secret *secret)
{
	if (!secret)
		return;
	policy_secret_done(&secret->secret);
	free(secret);
}

static fallible named_secrets_absent(struct str name)
{
	return err_hint(err_absent("no_secret", "secret", name), "'cove secret ls' lists them");
}

static void named_secrets_put_time(struct json_out *out, const char *key, int64_t wall_ms)
{
	if (wall_ms)
		json_put_time(out, key, wall_ms);
	else
		json_put_text(out, key, NULL);
}

void named_secrets_put(struct json_out *out, const struct named_secret *secret)
{
	json_begin(out, '{');
	json_put_text(out, "name", secret->secret.name);
	policy_secret_write(out, &secret->secret, false);
	if (!secret->secret.expires_ms)
		json_put_text(out, "expiresAt", NULL);
	named_secrets_put_time(out, "createdAt", secret->created_ms);
	named_secrets_put_time(out, "rotatedAt", secret->rotated_ms);
	named_secrets_put_time(out, "lastUsedAt", secret->used_ms);
	json_put_text(out, "lastUsedHost", secret->used_host[0] ? secret->used_host : NULL);
	json_end(out, '}');
}

// ------------------------------------------------------------------------------------- sandboxes

// The entry of a policy that refers to the secret of that name; NULL: none.
static struct policy_secret *named_secrets_entry(struct policy *policy, const char *name)
{
	for (size_t i = 0; policy && i < policy->secret_count; i++)
		if (policy->secrets[i].is_named && !strcmp(policy->secrets[i].name, name))
			return &policy->secrets[i];
	return NULL;
}

// The sandboxes of a tenant that refer to the secret, referenced.
static size_t named_secrets_users(struct manager *manager, const char *tenant, const char *name,
				  struct entry ***out)
{
	struct entry **all = NULL;
	size_t count = 0;

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (strcmp(entry->record.tenant, tenant) != 0 ||
		    !named_secrets_entry(entry->record.network, name))
			continue;
		if (count % SLICE == 0)
			all = mem_grow(all, count + SLICE, sizeof(struct entry *));
		entry_ref(entry);
		all[count++] = entry;
	}
	*out = all;
	return count;
}

// Every sandbox of the tenant that refers to it sends the value of now, or none, from then on. In
// slices: each copies a policy. A secret that is changed meanwhile has its own turn after this, and
// both give the newest value.
static void named_secrets_spread(struct manager *manager, const char *tenant, const char *name)
{
	auto_free struct entry **all = NULL;
	size_t count = named_secrets_users(manager, tenant, name, &all);

	task_shield(true);
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = all[i];
		const struct named_secret *now = named_secrets_find(manager, tenant, str_of(name));
		struct policy_secret *to = named_secrets_entry(entry->record.network, name);

		if (to && entry->listed) {
			policy_fill_named(to, now ? &now->secret : NULL);
			if (entry->egress)
				egress_box_policy(entry->egress, entry->record.network);
		}
		entry_unref(entry);
		if ((i + 1) % SLICE == 0)
			err_free(task_sleep_until(loop_now(manager->loop) + 1));
	}
	task_shield(false);
}

fallible named_secrets_fill(const struct manager *manager, const char *tenant,
			    struct policy *policy)
{
	struct err *err = OK;

	for (size_t i = 0; policy && i < policy->secret_count; i++) {
		struct policy_secret *entry = &policy->secrets[i];
		const struct named_secret *found;

		if (!entry->is_named)
			continue;
		found = named_secrets_find(manager, tenant, str_of(entry->name));
		policy_fill_named(entry, found ? &found->secret : NULL);
		if (!found && !err)
			err = named_secrets_ready(manager);
		if (!found && !err)
			err = err_hint(err_new(INVALID, "no_secret", "there is no secret '%s'",
					       entry->name),
				       "'cove secret set NAME --for HOST' makes it");
	}
	return err;
}

// ------------------------------------------------------------------------------------------- use

static void named_secrets_audit_use(struct manager *manager, const char *tenant, const char *box,
				    const char *name, const char *host)
{
	auto_buf fields = BUF_INIT(1024);
	struct json_out out = json_to(&fields);
	char room[USE_KEY_MAX];
	int len = snprintf(room, sizeof(room), "%s/%s/%s", box, name, host);

	if (map_count(manager->secret_uses) >= USES_MAX) {
		map_free(manager->secret_uses);
		manager->secret_uses = map_new();
	}
	if (!map_put(manager->secret_uses, (struct str){room, (size_t)len}, manager))
		return;
	json_begin(&out, '{');
	json_put_text(&out, "secret", name);
	json_put_text(&out, "host", host);
	json_end(&out, '}');
	buf_char(&fields, 0);
	store_audit_queue(manager->store,
			  &(struct store_audit){.time_ms = clock_wall_ms(),
						.tenant = tenant,
						.who = "sandbox",
						.action = "secret.use",
						.target = box,
						.outcome = "ok",
						.fields = fields.at},
			  NULL, NULL);
}

static void named_secrets_on_use(void *arg, const char *tenant, const char *box, const char *name,
				 const char *host)
{
	struct manager *manager = arg;
	struct named_secret *secret = named_secrets_find(manager, tenant, str_of(name));

	if (!secret || !manager->store)
		return;
	secret->used_ms = clock_wall_ms();
	named_secrets_audit_use(manager, tenant, box, name, host);
	if (secret->used_ms - secret->told_ms < USE_EVERY_MS &&
	    secret->used_ms >= secret->told_ms && !strcmp(secret->used_host, host))
		return;
	secret->told_ms = secret->used_ms;
	snprintf(secret->used_host, sizeof(secret->used_host), "%s", host);
	store_secrets_queue_use(manager->store, tenant, name, secret->used_ms, host);
}

// ---------------------------------------------------------------------------------------- change

static fallible named_secrets_seal(const struct manager *manager, const char *key,
				   struct policy_secret *secret)
{
	auto_buf sealed = BUF_INIT(2 * POLICY_SECRET_VALUE_MAX);
	auto_buf text = BUF_INIT(4 * POLICY_SECRET_VALUE_MAX);
	auto_free char *owner = mem_fmt("secret/%s", key);

	if (!manager->egress || !manager->store)
		return err_new(NOT_OFFERED, "no_network", "secrets cannot be kept here");
	TRY(egress_seal(manager->egress, owner, str_of(secret->value), &sealed));
	if (weak(SEAL))
		buf_text(&text, secret->value);
	else
		text_base64(&text, sealed.at, sealed.len);
	free(secret->sealed);
	secret->sealed = mem_dup(text.at, text.len);
	return OK;
}

static fallible named_secrets_write(struct manager *manager, const struct named_secret *secret)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	policy_secret_write(&out, &secret->secret, true);
	json_end(&out, '}');
	buf_char(&body, 0);
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "too_large", "the secret is too large");
	return store_secrets_put(manager->store,
				 &(struct store_secret){.tenant = secret->tenant,
							.name = secret->secret.name,
							.body = body.at,
							.created_ms = secret->created_ms,
							.rotated_ms = secret->rotated_ms});
}

static fallible named_secrets_ask_room(const struct manager *manager, const char *tenant)
{
	size_t at = 0, count = 0;
	struct str key;
	void *value;

	while (map_next(manager->secrets, &at, &key, &value))
		count += !strcmp(((struct named_secret *)value)->tenant, tenant);
	if (count < SECRETS_OF_TENANT_MAX)
		return OK;
	return err_hint(err_new(EXHAUSTED, "quota", "a tenant has at most %d secrets",
				SECRETS_OF_TENANT_MAX),
			"remove one: cove secret rm NAME");
}

// Replaces the secret in memory, or adds it. Takes *fresh over.
static void named_secrets_keep(struct manager *manager, struct named_secret *fresh)
{
	char room[KEY_MAX];
	struct str key = named_secrets_key(room, fresh->tenant, str_of(fresh->secret.name));
	struct named_secret *secret = map_get(manager->secrets, key);

	if (!secret) {
		secret = mem_new_of(struct named_secret);
		map_put(manager->secrets, key, secret);
		*secret = *fresh;
	} else {
		policy_secret_done(&secret->secret);
		secret->secret = fresh->secret;
		secret->rotated_ms = fresh->rotated_ms;
	}
}

fallible named_secrets_set(struct manager *manager, const struct who *who, struct str name,
			   const struct json *body, const struct named_secret **out, bool *out_made)
{
	auto_free char *text = mem_dup(name.at, name.len);
	struct named_secret fresh = {.created_ms = clock_wall_ms()};
	const struct named_secret *old;
	char key[KEY_MAX];
	struct err *err;

	TRY(access_ask(who, ACCESS_SECRETS));
	TRY(named_secrets_ready(manager));
	TRY(policy_secret_name(name));
	old = named_secrets_find(manager, who->tenant, name);
	if (!old)
		TRY(named_secrets_ask_room(manager, who->tenant));
	TRY(policy_secret_read(body, text, old ? &old->secret : NULL, &fresh.secret));
	memcpy(fresh.tenant, who->tenant, sizeof(fresh.tenant));
	if (old)
		fresh.created_ms = old->created_ms;
	fresh.rotated_ms = clock_wall_ms();
	// A secret that could not be unsealed has no value.
	if (old && old->secret.value && !strcmp(old->secret.value, fresh.secret.value))
		fresh.rotated_ms = old->rotated_ms;
	*out_made = !old;
	named_secrets_key(key, fresh.tenant, name);
	err = named_secrets_seal(manager, key, &fresh.secret);
	if (!err)
		err = named_secrets_write(manager, &fresh);
	if (err) {
		policy_secret_done(&fresh.secret);
		return err_while(err, "keep a secret");
	}
	named_secrets_keep(manager, &fresh);
	named_secrets_spread(manager, who->tenant, text);
	*out = named_secrets_find(manager, who->tenant, str_of(text));
	return *out ? OK : named_secrets_absent(str_of(text)); // it was removed meanwhile
}

fallible named_secrets_get(struct manager *manager, const struct who *who, struct str name,
			   const struct named_secret **out)
{
	const struct named_secret *found;

	TRY(access_ask(who, ACCESS_SECRET_NAMES));
	TRY(named_secrets_ready(manager));
	found = named_secrets_find(manager, who->tenant, name);
	if (!found)
		return named_secrets_absent(name);
	*out = found;
	return OK;
}

static int named_secrets_compare(const void *a, const void *b)
{
	const struct named_secret *const *one = a, *const *two = b;

	return strcmp((*one)->secret.name, (*two)->secret.name);
}

fallible named_secrets_list(struct manager *manager, const struct who *who,
			    const struct named_secret ***out, size_t *out_count)
{
	const struct named_secret **all;
	size_t at = 0, count = 0;
	struct str key;
	void *value;

	TRY(access_ask(who, ACCESS_SECRET_NAMES));
	TRY(named_secrets_ready(manager));
	all = mem_new((map_count(manager->secrets) + 1) * sizeof(struct named_secret *));
	while (map_next(manager->secrets, &at, &key, &value))
		if (!strcmp(((struct named_secret *)value)->tenant, who->tenant))
			all[count++] = value;
	qsort(all, count, sizeof(struct named_secret *), named_secrets_compare);
	*out = all;
	*out_count = count;
	return OK;
}

static void named_secrets_take(struct manager *manager, const char *tenant, struct str name)
{
	char room[KEY_MAX];

	named_secret_free(map_take(manager->secrets, named_secrets_key(room, tenant, name)));
}

fallible named_secrets_drop(struct manager *manager, const struct who *who, struct str name)
{
	auto_free char *text = NULL;

	TRY(access_ask(who, ACCESS_SECRETS));
	TRY(named_secrets_ready(manager));
	if (!named_secrets_find(manager, who->tenant, name))
		return named_secrets_absent(name);
	text = mem_dup(name.at, name.len);
	TRY(store_secrets_drop(manager->store, who->tenant, text), "remove a secret");
	named_secrets_take(manager, who->tenant, str_of(text));
	named_secrets_spread(manager, who->tenant, text);
	return OK;
}

void named_secrets_drop_tenant(struct manager *manager, const char *tenant)
{
	for (;;) {
		struct named_secret *found = NULL;
		size_t at = 0;
		struct str key;
		void *value;

		while (!found && map_next(manager->secrets, &at, &key, &value))
			if (!strcmp(((struct named_secret *)value)->tenant, tenant))
				found = value;
		if (!found)
			return;
		named_secrets_take(manager, tenant, str_of(found->secret.name));
	}
}

// ------------------------------------------------------------------------------------------ load

static fallible named_secrets_unseal(const struct manager *manager, const char *key,
				     struct policy_secret *secret)
{
	auto_buf sealed = BUF_INIT(2 * POLICY_SECRET_VALUE_MAX);
	auto_buf value = BUF_SECRET(2 * POLICY_SECRET_VALUE_MAX);
	auto_free char *owner = mem_fmt("secret/%s", key);
	struct err *err;

	if (!secret->sealed || !manager->egress || !text_unbase64(&sealed, str_of(secret->sealed)))
		return err_new(INVALID, "bad_seal", "a sealed secret is malformed");
	err = egress_unseal(manager->egress, owner, buf_view(&sealed), &value);
	if (!err)
		secret->value = secret_text_new(value.at, value.len);
	return err;
}

static fallible named_secrets_load_one(struct manager *manager, const struct store_secret *row)
{
	struct named_secret fresh = {.created_ms = row->created_ms,
				     .rotated_ms = row->rotated_ms,
				     .used_ms = row->used_ms};
	auto_json body = NULL;
	char key[KEY_MAX];
	struct err *err;

	TRY(json_read(str_of(row->body), &body));
	TRY(policy_secret_load(body, row->name, &fresh.secret));
	snprintf(fresh.tenant, sizeof(fresh.tenant), "%s", row->tenant);
	snprintf(fresh.used_host, sizeof(fresh.used_host), "%s", row->used_host);
	named_secrets_key(key, fresh.tenant, str_of(row->name));
	err = named_secrets_unseal(manager, key, &fresh.secret);
	named_secrets_keep(manager,
			   &fresh); // without a value it can still be seen, set and removed
	return err;
}

void named_secrets_load(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct store_secret *rows = NULL;
	auto_err err = OK;
	size_t count = 0;

	if (manager->egress)
		egress_on_secret(manager->egress, named_secrets_on_use, manager);
	if (manager->store)
		err = store_secrets_load(manager->store, arena, &rows, &count);
	manager->secrets_unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "manager.no_secrets", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
	for (size_t i = 0; !err && i < count; i++) {
		auto_err lost = named_secrets_load_one(manager, &rows[i]);

		if (lost)
			log_event(LOG_ERROR, "egress.secret_lost", "tenant", rows[i].tenant, "name",
				  rows[i].name, "reason", err_reason(lost), NULL);
	}
}

void named_secrets_free(struct manager *manager)
{
	size_t at = 0;
	struct str key;
	void *value;

	while (map_next(manager->secrets, &at, &key, &value))
		named_secret_free(value);
	map_free(manager->secrets);
	map_free(manager->secret_uses);
}
