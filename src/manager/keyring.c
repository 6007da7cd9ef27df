// API keys and their expiry. The ring holds every valid key. A new key enters it once the store has
// it; a revoked key leaves it before the store is told, so that a full disk never keeps a revoked
// key valid. If the store then fails, the caller gets the error and can revoke again: after a
// restart the key would be valid again.
//
// When a key expires, open connections that used it are closed. Expiry follows the steady clock,
// which tracks a drifting host clock, so the timer checks periodically, not only when the next key
// is due.
#include "manager/keyring.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "manager/access.h"
#include "manager/keyring_private.h"
#include "manager/life.h"
#include "types/retention.h"

#define EXPIRY_MAX_MS (10ull * 366 * 24 * 3600 * 1000)
#define KEYS_MAX 100000
#define CLOCK_LOOK_MS 5000

fallible tenant_bad(void)
{
	return err_hint(err_new(INVALID, "bad_tenant", "not a valid tenant name"),
			"1 to %d of a-z, 0-9 and -, beginning with no -", WHO_TENANT_MAX);
}

fallible tenant_absent(struct str name)
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

void keyring_add(struct keyring *ring, const struct key *key)
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

void keyring_take(struct keyring *ring, struct key *key)
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

static fallible read_scopes(const struct json *array, unsigned *out)
{
	unsigned scopes = 0, bit = 0;

	if (!array)
		return OK;
	TRY(json_want(array, "scopes", JSON_ARRAY));
	for (size_t i = 0; i < json_count(array); i++) {
		struct str word = {0};

		TRY(json_str(json_at(array, i), "scopes", &word));
		if (!key_scope(word, &bit))
			return err_hint(
				err_new(INVALID, "bad_field", "'scopes' has an unknown scope"),
				"read, make, use, templates, admin");
		scopes |= bit;
	}
	if (!scopes)
		return err_new(INVALID, "bad_field", "'scopes' must not be empty");
	*out = scopes;
	return OK;
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
		return life_absent(name);
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
		TRY(read_scopes(json_get(object, "scopes"), &key.scopes));
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
	log_event(LOG_INFO, "key.made", "key", key.id, "tenant", key.tenant, "by", who->name, NULL);
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
	log_event(LOG_INFO, "key.revoked", "key", own, "tenant", tenant, "by", who->name, NULL);
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
