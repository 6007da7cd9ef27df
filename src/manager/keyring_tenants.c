// Tenants of the keyring: create, change, remove, list, and loading tenants and keys from the
// store. A tenant is removed only without sandboxes; its keys leave the ring first. A malformed row
// is logged and skipped.
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/access.h"
#include "manager/keyring_private.h"
#include "manager/templates.h"

#define BODY_MAX 16384
#define TENANTS_MAX 10000

static struct account *keyring_tenants_find(const struct keyring *ring, struct str name)
{
	struct account *account = who_is_tenant(name)
					  ? accounts_find(&ring->manager->accounts, name)
					  : NULL;

	return account && account->known ? account : NULL;
}

// A tenant's templates are stored as TENANT.NAME. An existing template with that prefix would
// become the tenant's.
static fallible keyring_tenants_check_shadow(const struct keyring *ring, const struct who *who,
					     struct str name)
{
	auto_free struct template *all = NULL;
	size_t count = 0;

	if (!ask_host(ring->manager->ask))
		return OK;
	TRY(templates_all(ring->manager, who, &all, &count));
	for (size_t i = 0; i < count; i++)
		if (!strncmp(all[i].name, name.at, name.len) && all[i].name[name.len] == '.')
			return err_hint(err_new(CONFLICT, "tenant_shadows",
						"the template '%s' would be this tenant's",
						all[i].name),
					"choose another name, or remove the template first");
	return OK;
}

static fallible keyring_tenants_keep(struct keyring *ring, const struct tenant *tenant)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	struct store_tenant row = {.id = tenant->name, .created_ms = tenant->created_ms};

	json_begin(&out, '{');
	tenant_put_rights(&out, tenant);
	json_end(&out, '}');
	row.body = body.at;
	return store_tenants_put(ring->store, &row);
}

fallible keyring_set_tenant(struct keyring *ring, const struct who *who, struct str name,
			    const struct json *object, const struct account **out, bool *out_made)
{
	auto_tenant tenant = {.created_ms = clock_wall_ms()};
	struct account *account;
	bool made;

	TRY(access_ask(who, ACCESS_OPERATOR));
	if (!who_is_tenant(name))
		return tenant_bad();
	account = keyring_tenants_find(ring, name);
	made = !account;
	memcpy(tenant.name, name.at, name.len);
	if (account)
		tenant.created_ms = account->tenant.created_ms;
	TRY(tenant_read(object, &tenant));
	if (made && map_count(ring->manager->accounts.by_name) >= TENANTS_MAX)
		return err_new(EXHAUSTED, "too_many_tenants", "there are too many tenants");
	if (made)
		TRY(keyring_tenants_check_shadow(ring, who, name));
	TRY(keyring_tenants_keep(ring, &tenant), "keep a tenant");
	account = accounts_get(&ring->manager->accounts, tenant.name);
	log_event(LOG_INFO, made ? "tenant.made" : "tenant.set", "tenant", tenant.name, "by",
		  who->name, NULL);
	account_set(account, &tenant);
	*out = account;
	*out_made = made;
	return OK;
}

static void take_keys(struct keyring *ring, const char *tenant)
{
	struct str name;
	void *value;

	// Removing a key changes the table: start over each time.
	for (size_t at = 0; map_next(ring->by_id, &at, &name, &value);) {
		struct key *key = value;

		if (strcmp(key->tenant, tenant) != 0)
			continue;
		log_event(LOG_INFO, "key.revoked", "key", key->id, "tenant", tenant, NULL);
		keyring_take(ring, key);
		at = 0;
	}
}

static fallible ask_no_boxes(const struct account *account)
{
	if (!account->used.boxes)
		return OK;
	return err_hint(err_new(CONFLICT, "tenant_in_use", "it has %llu sandboxes",
				(unsigned long long)account->used.boxes),
			"delete them first");
}

fallible keyring_drop_tenant(struct keyring *ring, const struct who *who, struct str name)
{
	struct account *account;
	char own[WHO_TENANT_MAX + 1];

	TRY(access_ask(who, ACCESS_OPERATOR));
	account = keyring_tenants_find(ring, name);
	if (!account)
		return tenant_absent(name);
	TRY(ask_no_boxes(account));
	memcpy(own, account->tenant.name, sizeof(own));
	TRY(templates_forget_all(ring->manager, own), "remove the templates of a tenant");
	TRY(ask_no_boxes(account)); // boxes may have been created during the wait
	take_keys(ring, own);
	account_unset(account);
	log_event(LOG_INFO, "tenant.dropped", "tenant", own, "by", who->name, NULL);
	return err_while(store_tenants_drop(ring->store, own), "drop a tenant");
}

fallible keyring_tenant(struct keyring *ring, const struct who *who, struct str name,
			const struct account **out)
{
	bool own = who && who->role == WHO_TENANT && who->tenant[0] && !who->box[0] &&
		   str_is(name, who->tenant);
	const struct account *account;

	TRY(access_ask(who, own ? ACCESS_READ : ACCESS_OPERATOR));
	account = keyring_tenants_find(ring, name);
	if (!account)
		return tenant_absent(name);
	*out = account;
	return OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct account *const *)a)->tenant.name,
		      (*(const struct account *const *)b)->tenant.name);
}

fallible keyring_tenants(struct keyring *ring, const struct who *who, const struct account ***out,
			 size_t *out_count)
{
	struct map *map = ring->manager->accounts.by_name;
	const struct account **all;
	size_t count = 0;
	struct str name;
	void *value;

	TRY(access_ask(who, ACCESS_OPERATOR));
	all = mem_new((map_count(map) + 1) * sizeof(void *));
	for (size_t at = 0; map_next(map, &at, &name, &value);)
		if (((const struct account *)value)->known)
			all[count++] = value;
	qsort(all, count, sizeof(void *), by_name);
	*out = all;
	*out_count = count;
	return OK;
}

static fallible load_tenant(struct keyring *ring, const struct store_tenant *row)
{
	auto_tenant tenant = {.created_ms = row->created_ms};
	auto_json body = NULL;
	struct str id = str_of(row->id);

	if (!row->body || !who_is_tenant(id))
		return tenant_bad();
	TRY(json_read(str_of(row->body), &body));
	memcpy(tenant.name, id.at, id.len);
	TRY(tenant_read(body, &tenant));
	account_set(accounts_get(&ring->manager->accounts, tenant.name), &tenant);
	return OK;
}

static fallible load_key(struct keyring *ring, const struct store_key *row)
{
	struct key key = {
		.scopes = (unsigned)row->scopes & WHO_MAY_ALL,
		.created_ms = row->created_ms,
		.expires_ms = row->expires_ms,
	};
	auto_json body = NULL;
	struct str box = {0};

	if (!row->body || strlen(row->id) != WHO_KEY_LEN || strlen(row->name) > WHO_NAME_MAX ||
	    (row->tenant[0] && !who_is_tenant(str_of(row->tenant))))
		return err_new(INVALID, "bad_key", "the row is malformed");
	TRY(json_read(str_of(row->body), &body));
	TRY(json_str(json_get(body, "sandbox"), "sandbox", &box));
	TRY(json_bool(json_get(body, "host"), "host", &key.host));
	if (box.at && !id_is_box(box))
		return err_new(INVALID, "bad_key", "the row is malformed");
	memcpy(key.id, row->id, sizeof(key.id));
	memcpy(key.name, row->name, strlen(row->name));
	memcpy(key.tenant, row->tenant, strlen(row->tenant));
	memcpy(key.box, box.at ? box.at : "", box.len);
	memcpy(key.hash, row->hash, sizeof(key.hash));
	keyring_add(ring, &key);
	return OK;
}

static void log_bad_row(const char *event, const char *id, struct err *failed)
{
	auto_err err = failed;

	if (err)
		log_event(LOG_ERROR, event, "id", id, "message", err_message(err), NULL);
}

fallible keyring_load(struct keyring *ring)
{
	auto_arena arena = arena_new();
	struct store_keyring rows = {0};

	TRY(store_keys_load(ring->store, arena, &rows), "load the keys");
	for (size_t i = 0; i < rows.tenant_count; i++)
		log_bad_row("tenant.unreadable", rows.tenants[i].id,
			    load_tenant(ring, &rows.tenants[i]));
	for (size_t i = 0; i < rows.key_count; i++)
		if (!rows.keys[i].revoked_ms)
			log_bad_row("key.unreadable", rows.keys[i].id,
				    load_key(ring, &rows.keys[i]));
	return OK;
}
