// API keys and their expiry. The ring holds every valid key. A new key enters it once the store has
// it; a revoked key leaves it before the store is told, so that a full disk never keeps a revoked
// key valid. If the store then fails, the caller gets the error and can revoke again: after a
// restart the key would be valid again.
//
// When a key expires, open connections that used it are closed. Expiry follows the steady clock,
// which tracks a drifting host clock, so the timer checks periodically, not only when the next key
// is due.
//
// Tenants: a tenant is removed only without sandboxes; its keys leave the ring first. A malformed
// row of the store is logged and skipped.
#include "manager/keyring.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "manager/access.h"
#include "manager/build_steps.h"
#include "manager/life.h"
#include "manager/named_secrets.h"
#include "manager/pools.h"
#include "manager/registry_logins.h"
#include "manager/templates.h"
#include "manager/volumes.h"
#include "store/keys.h"
#include "types/event.h"
#include "types/retention.h"

#define EXPIRY_MAX_MS (10ull * 366 * 24 * 3600 * 1000)
#define KEYS_MAX 100000
#define TENANTS_MAX 10000
#define TENANT_BODY_MAX 16384
#define CLOCK_LOOK_MS 5000

struct keyring {
	struct manager *manager;
	struct store *store;
	struct map *by_hash, *by_id; // of struct key, owned
	void (*revoked)(void *arg, const char *key);
	void *revoked_arg;
	struct timer expiry; // for the next expiry, or the next check of the clock
	int64_t looked_ms;   // wall clock up to which all expiries were handled
};

static void keyring_report(enum event_kind kind, const char *key, const char *tenant,
			   const char *by)
{
	log_event(LOG_INFO, event_word(kind), "key", key, "tenant", tenant, "by", by, NULL);
	event_publish(kind, "key", key, "tenant", tenant, "by", by, NULL);
}

static fallible tenant_bad(void)
{
	return err_hint(err_new(INVALID, "bad_tenant", "not a valid tenant name"),
			"1 to %d of a-z, 0-9 and -, beginning with no -", WHO_TENANT_MAX);
}

static fallible tenant_absent(struct str name)
{
	return err_hint(err_absent("no_tenant", "tenant", name),
			"GET /v1/tenants lists those there are; PUT /v1/tenants/NAME makes one");
}

static bool expires(const struct key *key)
{
	return key->expires_ms && !weak(REVOCATION);
}

static void keyring_arm(struct keyring *ring, int64_t wait_ms)
{
	struct loop *loop = ring->manager->loop;

	wait_ms = wait_ms < 0 ? 0 : wait_ms > CLOCK_LOOK_MS ? CLOCK_LOOK_MS : wait_ms;
	loop_set_timer(loop, &ring->expiry, loop_now(loop) + wait_ms);
}

static void on_expiry(struct timer *timer)
{
	struct keyring *ring = link_of(timer, struct keyring, expiry);
	int64_t now = clock_steady_ms(), next = INT64_MAX;
	struct str name;
	void *value;

	for (size_t at = 0; map_next(ring->by_id, &at, &name, &value);) {
		const struct key *key = value;

		if (!expires(key))
			continue;
		if (key->expires_ms > now)
			next = key->expires_ms < next ? key->expires_ms : next;
		else if (key->expires_ms > ring->looked_ms && ring->revoked)
			ring->revoked(ring->revoked_arg, key->id);
	}
	ring->looked_ms = now;
	if (next < INT64_MAX)
		keyring_arm(ring, next - now);
}

struct keyring *keyring_new(struct manager *manager, struct store *store)
{
	struct keyring *ring = mem_new_of(struct keyring);

	ring->manager = manager;
	ring->store = store;
	ring->by_hash = map_new();
	ring->by_id = map_new();
	ring->expiry.due = on_expiry;
	return ring;
}

void keyring_free(struct keyring *ring)
{
	struct str name;
	void *value;

	if (!ring)
		return;
	loop_drop_timer(ring->manager->loop, &ring->expiry);
	for (size_t at = 0; map_next(ring->by_id, &at, &name, &value);)
		free(value);
	map_free(ring->by_hash);
	map_free(ring->by_id);
	free(ring);
}

void keyring_on_revoke(struct keyring *ring, void (*revoked)(void *arg, const char *key), void *arg)
{
	ring->revoked = revoked;
	ring->revoked_arg = arg;
}

static struct str hash_of(const struct key *key)
{
	return (struct str){(const char *)key->hash, SECRET_HASH};
}

static void keyring_add(struct keyring *ring, const struct key *key)
{
	struct key *own = mem_new_of(struct key);

	*own = *key;
	if (!map_put(ring->by_id, str_of(own->id), own) ||
	    !map_put(ring->by_hash, hash_of(own), own)) {
		log_event(LOG_ERROR, "key.twice", "key", key->id, NULL);
		if (map_get(ring->by_id, str_of(own->id)) == own)
			map_take(ring->by_id, str_of(own->id));
		free(own);
		return;
	}
	if (expires(own))
		keyring_arm(ring, 0);
}

// Frees the key, and calls the revoke callback.
static void keyring_take(struct keyring *ring, struct key *key)
{
	char id[WHO_KEY_LEN + 1];

	memcpy(id, key->id, sizeof(id));
	map_take(ring->by_hash, hash_of(key));
	map_take(ring->by_id, str_of(key->id));
	secret_wipe(key, sizeof(*key));
	free(key);
	if (ring->revoked)
		ring->revoked(ring->revoked_arg, id);
}

void keyring_lend(const struct keyring *ring, struct who *who)
{
	const struct account *account = who->tenant[0] ? accounts_find(&ring->manager->accounts,
								       str_of(who->tenant))
						       : NULL;

	who->may_host |= account && account->tenant.host;
}

bool keyring_who(const struct keyring *ring, struct str secret, struct who *out)
{
	static const struct key nobody;
	const struct key *key;
	uint8_t hash[SECRET_HASH];
	bool same;

	secret_sha256(secret.at, secret.len, hash);
	key = map_get(ring->by_hash, (struct str){(const char *)hash, sizeof(hash)});
	// The hash's position in the table reveals nothing about the secret; the whole hash is
	// compared all the same.
	same = secret_equal(hash, key ? key->hash : nobody.hash, SECRET_HASH);
	if (!key || !same ||
	    (key->expires_ms && key->expires_ms <= clock_steady_ms() && !weak(REVOCATION)))
		return false;
	*out = key_who(key);
	keyring_lend(ring, out);
	return true;
}

bool keyring_key(const struct keyring *ring, const char *id, struct who *out)
{
	const struct key *key = map_get(ring->by_id, str_of(id));

	if (!key || (key->expires_ms && key->expires_ms <= clock_steady_ms() && !weak(REVOCATION)))
		return false;
	*out = key_who(key);
	keyring_lend(ring, out);
	return true;
}

static fallible read_expiry(const struct json *value, int64_t *out)
{
	struct str text = {0};
	uint64_t ms = 0;
	double seconds = 0;

	if (!value)
		return OK;
	if (json_type(value) == JSON_NUMBER) {
		TRY(json_double(value, "expiresIn", 1, EXPIRY_MAX_MS / 1000.0, &seconds));
		ms = (uint64_t)(seconds * 1000);
	} else {
		TRY(json_str(value, "expiresIn", &text));
		if (!str_to_ms(text, &ms) || ms < 1000 || ms > EXPIRY_MAX_MS)
			return err_hint(err_new(INVALID, "bad_field",
						"'expiresIn' must be within 1 second and 10 years"),
					"seconds as a number, or \"30s\", \"10m\", \"720h\"");
	}
	*out = clock_steady_ms() + (int64_t)ms;
	return OK;
}

static bool is_shown(struct str name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.at[i] < ' ' || name.at[i] > '~')
			return false;
	return name.len <= WHO_NAME_MAX;
}

static fallible keyring_read_names(const struct json *object, struct key *key)
{
	struct str name = {0}, tenant = str_of(key->tenant);

	TRY(json_str(json_get(object, "name"), "name", &name));
	TRY(json_str(json_get(object, "tenant"), "tenant", &tenant));
	if (name.at && !is_shown(name))
		return err_new(INVALID, "bad_field", "'name' must be up to %d printable characters",
			       WHO_NAME_MAX);
	if (tenant.len && !who_is_tenant(tenant))
		return tenant_bad();
	memcpy(key->name, name.at ? name.at : "", name.len);
	memmove(key->tenant, tenant.at, tenant.len);
	key->tenant[tenant.len] = '\0';
	return OK;
}

static fallible refuse(const char *words)
{
	return err_hint(err_new(FORBIDDEN, "not_allowed", "this key may not %s", words),
			"a key gives no more than it has itself; use the operator's");
}

// A key cannot grant more than it has. Another tenant is refused with the message for an absent
// one.
static fallible check_grant(const struct keyring *ring, const struct who *who,
			    const struct key *key)
{
	const struct account *account = accounts_find(&ring->manager->accounts,
						      str_of(key->tenant));

	if (who->role != WHO_OPERATOR && strcmp(who->tenant, key->tenant) != 0)
		return tenant_absent(str_of(key->tenant));
	if (key->tenant[0] && (!account || !account->known))
		return tenant_absent(str_of(key->tenant));
	if (key->scopes & ~who->scopes)
		return refuse("give scopes that it lacks");
	if (key->host && !who->may_host)
		return refuse("allow the template 'host'");
	if (who->box[0])
		return refuse("make others: it is for one sandbox");
	return OK;
}

// A key does not outlive the key that created it.
static void cap_expiry(const struct keyring *ring, const struct who *who, struct key *key)
{
	const struct key *maker = who->key[0] ? map_get(ring->by_id, str_of(who->key)) : NULL;

	if (maker && maker->expires_ms && (!key->expires_ms || key->expires_ms > maker->expires_ms))
		key->expires_ms = maker->expires_ms;
}

static fallible find_box(const struct keyring *ring, const struct json *value, struct key *key)
{
	struct who owner = {.role = WHO_TENANT};
	const struct entry *entry;
	struct str name = {0};

	TRY(json_str(value, "sandbox", &name));
	if (!name.at)
		return OK;
	memcpy(owner.tenant, key->tenant, sizeof(owner.tenant));
	entry = access_find(ring->manager, &owner, name);
	if (!entry)
		return access_absent(name);
	memcpy(key->box, entry->record.id, sizeof(key->box));
	return OK;
}

static fallible keyring_keep(struct keyring *ring, const struct key *key)
{
	auto_buf body = BUF_INIT(1024);
	struct json_out out = json_to(&body);
	struct store_key row = {
		.id = key->id,
		.tenant = key->tenant,
		.name = key->name,
		.scopes = key->scopes,
		.created_ms = key->created_ms,
		.expires_ms = key->expires_ms,
	};

	json_begin(&out, '{');
	if (key->box[0])
		json_put_text(&out, "sandbox", key->box);
	json_put_bool(&out, "host", key->host);
	json_end(&out, '}');
	row.body = body.at;
	memcpy(row.hash, key->hash, sizeof(row.hash));
	return store_keys_put(ring->store, &row);
}

fallible keyring_make(struct keyring *ring, const struct who *who, const struct json *object,
		      struct key *out, char text[KEY_TEXT_LEN + 1])
{
	static const char *const known[] = {"name", "tenant",	 "scopes", "sandbox",
					    "host", "expiresIn", NULL};
	struct key key = {
		.scopes = WHO_MAY_READ | WHO_MAY_MAKE | WHO_MAY_USE,
		.created_ms = clock_wall_ms(),
	};

	TRY(access_ask(who, ACCESS_KEYS));
	memcpy(key.tenant, who->tenant, sizeof(key.tenant));
	if (object) {
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		TRY(keyring_read_names(object, &key));
		TRY(key_read_scopes(json_get(object, "scopes"), &key.scopes));
		TRY(json_bool(json_get(object, "host"), "host", &key.host));
		TRY(read_expiry(json_get(object, "expiresIn"), &key.expires_ms));
	}
	TRY(check_grant(ring, who, &key));
	cap_expiry(ring, who, &key);
	TRY(find_box(ring, json_get(object, "sandbox"), &key));
	if (map_count(ring->by_id) >= KEYS_MAX)
		return err_new(EXHAUSTED, "too_many_keys", "there are too many keys");
	key_make(&key, text);
	TRY(keyring_keep(ring, &key), "keep a key");
	keyring_add(ring, &key);
	keyring_report(EVENT_KEY_MADE, key.id, key.tenant, who->name);
	*out = key;
	return OK;
}

// Do not echo a secret that was given instead of a key's id.
static fallible key_absent(struct str id)
{
	return err_hint(err_absent("no_key", "key", id.len == WHO_KEY_LEN ? id : STR("")),
			"GET /v1/keys lists those there are");
}

static bool sees(const struct who *who, const struct key *key)
{
	return access_sees(who, key->tenant, key->box);
}

fallible keyring_revoke(struct keyring *ring, const struct who *who, struct str id)
{
	struct key *key = map_get(ring->by_id, id);
	char own[WHO_KEY_LEN + 1] = "", tenant[WHO_TENANT_MAX + 1] = "";
	struct err *err;

	TRY(access_ask(who, ACCESS_KEYS));
	if (id.len != WHO_KEY_LEN || (key ? !sees(who, key) : who->role != WHO_OPERATOR))
		return key_absent(id);
	memcpy(own, id.at, id.len);
	if (key)
		memcpy(tenant, key->tenant, sizeof(tenant));
	if (key)
		keyring_take(ring, key);
	keyring_report(EVENT_KEY_REVOKED, own, tenant, who->name);
	err = store_keys_revoke(ring->store, own, clock_wall_ms());
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return key ? OK : key_absent(id);
	}
	return err_while(err, "revoke %s", own);
}

static int by_time(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

fallible keyring_all(struct keyring *ring, const struct who *who, struct key **out,
		     size_t *out_count)
{
	struct key *all;
	struct str name;
	size_t count = 0;
	void *value;

	TRY(access_ask(who, ACCESS_KEYS));
	all = mem_new((map_count(ring->by_id) + 1) * sizeof(*all));
	for (size_t at = 0; map_next(ring->by_id, &at, &name, &value);)
		if (sees(who, value))
			all[count++] = *(struct key *)value;
	qsort(all, count, sizeof(*all), by_time);
	*out = all;
	*out_count = count;
	return OK;
}

// ---------------------------------------------------------------------------------------- tenants

static struct account *tenant_find(const struct keyring *ring, struct str name)
{
	struct account *account = who_is_tenant(name)
					  ? accounts_find(&ring->manager->accounts, name)
					  : NULL;

	return account && account->known ? account : NULL;
}

// A tenant's templates are stored as TENANT.NAME. An existing template with that prefix would
// become the tenant's.
static fallible tenant_check_shadow(const struct keyring *ring, const struct who *who,
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

static fallible tenant_keep(struct keyring *ring, const struct tenant *tenant)
{
	auto_buf body = BUF_INIT(TENANT_BODY_MAX);
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
	account = tenant_find(ring, name);
	made = !account;
	memcpy(tenant.name, name.at, name.len);
	if (account)
		tenant.created_ms = account->tenant.created_ms;
	TRY(tenant_read(object, &tenant));
	if (made && map_count(ring->manager->accounts.by_name) >= TENANTS_MAX)
		return err_new(EXHAUSTED, "too_many_tenants", "there are too many tenants");
	if (made)
		TRY(tenant_check_shadow(ring, who, name));
	TRY(tenant_keep(ring, &tenant), "keep a tenant");
	account = accounts_get(&ring->manager->accounts, tenant.name);
	keyring_report(made ? EVENT_TENANT_MADE : EVENT_TENANT_SET, NULL, tenant.name, who->name);
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
		keyring_report(EVENT_KEY_REVOKED, key->id, tenant, NULL);
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

static fallible ask_no_volumes(const struct keyring *ring, const char *tenant)
{
	if (!volumes_are_of(ring->manager, tenant))
		return OK;
	return err_hint(err_new(CONFLICT, "tenant_in_use", "it has volumes"),
			"delete them first, as an operator by their ids");
}

static fallible ask_no_pools(const struct keyring *ring, const char *tenant)
{
	if (!pools_are_of(ring->manager, tenant))
		return OK;
	return err_hint(err_new(CONFLICT, "tenant_in_use", "it has pools"),
			"delete them first, with a key of the tenant");
}

fallible keyring_drop_tenant(struct keyring *ring, const struct who *who, struct str name)
{
	struct account *account;
	char own[WHO_TENANT_MAX + 1];
	uint64_t bytes;

	TRY(access_ask(who, ACCESS_OPERATOR));
	account = tenant_find(ring, name);
	if (!account)
		return tenant_absent(name);
	TRY(ask_no_pools(ring, account->tenant.name));
	TRY(ask_no_boxes(account));
	TRY(ask_no_volumes(ring, account->tenant.name));
	memcpy(own, account->tenant.name, sizeof(own));
	TRY(templates_forget_all(ring->manager, own), "remove the templates of a tenant");
	TRY(build_steps_prune(ring->manager, own, 0, &bytes), "remove the cache of a tenant");
	TRY(ask_no_boxes(account)); // boxes may have been created during the wait
	TRY(ask_no_volumes(ring, own));
	take_keys(ring, own);
	named_secrets_drop_tenant(ring->manager, own);
	registry_logins_drop_tenant(ring->manager, own);
	account_unset(account);
	keyring_report(EVENT_TENANT_GONE, NULL, own, who->name);
	return err_while(store_tenants_drop(ring->store, own), "drop a tenant");
}

fallible keyring_tenant(struct keyring *ring, const struct who *who, struct str name,
			const struct account **out)
{
	bool own = who && who->role == WHO_TENANT && who->tenant[0] && !who->box[0] &&
		   str_is(name, who->tenant);
	const struct account *account;

	TRY(access_ask(who, own ? ACCESS_READ : ACCESS_OPERATOR));
	account = tenant_find(ring, name);
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
