// An entry is open (status 0: its first claimer is working) or kept. Kept entries are in a list by
// age; the oldest are removed when there are too many or after a day. An open entry that is dropped
// without an answer is removed at once, and its waiters compete to be the next first.
//
// Entries are keyed by a hash of owner and key. After a restart there is a third state: an object
// was created but its answer was lost; the next request builds the answer.
#include "gateway/idempotency.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/idempotency.h"

#define KEY_MAX 255

struct idempotency {
	struct idempotency_keys *all;
	char *key;  // hex
	char *made; // NULL: none
	uint8_t hash[SECRET_HASH];
	int status; // 0: open
	char *place, *body;
	size_t body_len;
	int64_t kept_at;
	uint32_t holds; // claimers and waiters; the table itself holds none
	bool listed;
	struct condition settled;
	struct link link; // kept entries, oldest first
};

struct idempotency_keys {
	struct loop *loop;
	struct store *store; // NULL: nothing is persistent
	struct map *by_key;
	struct link kept;
};

struct idempotency_keys *idempotency_keys_new(struct loop *loop)
{
	struct idempotency_keys *all = mem_new_of(struct idempotency_keys);

	all->loop = loop;
	all->by_key = map_new();
	link_init(&all->kept);
	return all;
}

static void idempotency_forget(struct idempotency *idempotency)
{
	free(idempotency->key);
	free(idempotency->made);
	free(idempotency->place);
	free(idempotency->body);
	free(idempotency);
}

static void idempotency_unlist(struct idempotency *idempotency)
{
	if (!idempotency->listed)
		return;
	idempotency->listed = false;
	map_take(idempotency->all->by_key, str_of(idempotency->key));
	if (idempotency->status)
		link_drop(&idempotency->link);
	if (!idempotency->holds)
		idempotency_forget(idempotency);
}

void idempotency_keys_free(struct idempotency_keys *all)
{
	if (!all)
		return;
	list_each (at, &all->kept)
		idempotency_unlist(link_of(at, struct idempotency, link));
	map_free(all->by_key);
	free(all);
}

static void idempotency_expire(struct idempotency_keys *all)
{
	int64_t oldest = loop_now(all->loop) - IDEMPOTENCY_AGE_MS;

	list_each (at, &all->kept) {
		struct idempotency *idempotency = link_of(at, struct idempotency, link);

		if (idempotency->kept_at > oldest && map_count(all->by_key) <= IDEMPOTENCY_MAX)
			break;
		idempotency_unlist(idempotency);
	}
}

static bool idempotency_is_key(struct str key)
{
	for (size_t i = 0; i < key.len; i++)
		if (key.at[i] <= ' ' || key.at[i] > '~')
			return false;
	return key.len && key.len <= KEY_MAX;
}

static struct idempotency *idempotency_make(struct idempotency_keys *all, struct str key,
					    const uint8_t hash[SECRET_HASH])
{
	struct idempotency *idempotency = mem_new_of(struct idempotency);

	idempotency->all = all;
	idempotency->key = mem_dup(key.at, key.len);
	memcpy(idempotency->hash, hash, SECRET_HASH);
	idempotency->listed = true;
	condition_init(&idempotency->settled);
	map_put(all->by_key, key, idempotency);
	return idempotency;
}

static void let_go(struct idempotency **idempotency)
{
	if (*idempotency && !--(*idempotency)->holds && !(*idempotency)->listed)
		idempotency_forget(*idempotency);
}

static void to_hex(const uint8_t hash[SECRET_HASH], char out[2 * SECRET_HASH + 1])
{
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

static bool from_hex(const char *hex, uint8_t out[SECRET_HASH])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 2 * SECRET_HASH; i++) {
		const char *digit = hex[i] ? strchr(digits, hex[i]) : NULL;

		if (!digit)
			return false;
		out[i / 2] = (uint8_t)(out[i / 2] << 4 | (digit - digits));
	}
	return true;
}

// `who` has no slash.
static void name_key(const char *who, struct str key, char out[2 * SECRET_HASH + 1])
{
	auto_free char *text = mem_fmt("%s/" STR_FMT, who, STR_ARG(key));
	uint8_t hash[SECRET_HASH];

	secret_sha256(text, strlen(text), hash);
	to_hex(hash, out);
}

fallible idempotency_claim(struct idempotency_keys *all, struct str key,
			   const uint8_t hash[SECRET_HASH], struct idempotency **out,
			   bool *out_first)
{
	return idempotency_claim_of(all, "", key, hash, out, out_first);
}

fallible idempotency_claim_of(struct idempotency_keys *all, const char *who, struct str plain,
			      const uint8_t hash[SECRET_HASH], struct idempotency **out,
			      bool *out_first)
{
	int64_t deadline = loop_now(all->loop) + IDEMPOTENCY_WAIT_MS;
	char name[2 * SECRET_HASH + 1];
	struct str key;

	if (!idempotency_is_key(plain))
		return err_new(INVALID, "bad_key",
			       "Idempotency-Key must be 1 to %d printable characters", KEY_MAX);
	name_key(who, plain, name);
	key = str_of(name);
	idempotency_expire(all);
	for (;;) {
		on_exit_call(let_go) struct idempotency *idempotency = map_get(all->by_key, key);

		if (!idempotency) {
			*out = idempotency_make(all, key, hash);
			(*out)->holds++;
			*out_first = true;
			return OK;
		}
		idempotency->holds++;
		if (memcmp(idempotency->hash, hash, SECRET_HASH) != 0)
			return err_hint(err_new(CONFLICT, "idempotency_mismatch",
						"this key was used with another request"),
					"use a new Idempotency-Key for a new request");
		if (idempotency->status || idempotency->made) {
			*out = take_ptr(idempotency);
			*out_first = false;
			return OK;
		}
		TRY(condition_wait(&idempotency->settled, deadline),
		    "wait for the first request of that key");
	}
}

static void store_down(const struct idempotency *idempotency)
{
	struct store_idempotency row = {
		.key = idempotency->key,
		.status = idempotency->status,
		.place = idempotency->place,
		.body = {idempotency->body, idempotency->body_len},
		.kept_ms = clock_steady_ms(),
	};

	memcpy(row.hash, idempotency->hash, sizeof(row.hash));
	store_idempotency_rows_put(idempotency->all->store, &row);
}

void idempotency_keep(struct idempotency *idempotency, int status, struct str place,
		      struct str body)
{
	idempotency->status = status;
	idempotency->place = mem_dup(place.at, place.len);
	idempotency->body = mem_dup(body.at, body.len);
	idempotency->body_len = body.len;
	idempotency->kept_at = loop_now(idempotency->all->loop);
	link_add(&idempotency->all->kept, &idempotency->link);
	if (idempotency->all->store)
		store_down(idempotency);
	condition_signal(&idempotency->settled);
}

void idempotency_mark(const struct idempotency *idempotency, char out[IDEMPOTENCY_MARK])
{
	char hash[2 * SECRET_HASH + 1];

	to_hex(idempotency->hash, hash);
	snprintf(out, IDEMPOTENCY_MARK, "%s:%s", idempotency->key, hash);
}

const char *idempotency_made(const struct idempotency *idempotency)
{
	return idempotency->status ? NULL : idempotency->made;
}

void idempotency_void(struct idempotency *idempotency)
{
	free(take_ptr(idempotency->made));
	idempotency_drop(idempotency);
}

void idempotency_keys_made(struct idempotency_keys *all, const char *mark, const char *made)
{
	uint8_t hash[SECRET_HASH] = {0};
	struct str key = {mark, 2 * SECRET_HASH};

	if (strlen(mark) != IDEMPOTENCY_MARK - 1 || !from_hex(mark + key.len + 1, hash) ||
	    map_get(all->by_key, key))
		return;
	idempotency_make(all, key, hash)->made = mem_str(made);
}

fallible idempotency_keys_load(struct idempotency_keys *all, struct store *store)
{
	auto_arena arena = arena_new();
	int64_t wall = clock_steady_ms();
	struct store_idempotency *kept = NULL;
	size_t count = 0;

	all->store = store;
	TRY(store_idempotency_rows_load(store, wall - IDEMPOTENCY_AGE_MS, arena, &kept, &count));
	for (size_t i = 0; i < count; i++) {
		struct idempotency *idempotency = idempotency_make(all, str_of(kept[i].key),
								   kept[i].hash);

		idempotency->status = kept[i].status;
		idempotency->place = mem_str(kept[i].place);
		idempotency->body = mem_dup(kept[i].body.at, kept[i].body.len);
		idempotency->body_len = kept[i].body.len;
		// If the wall clock was set back, the entry counts as new.
		idempotency->kept_at = loop_now(all->loop) -
				       (kept[i].kept_ms < wall ? wall - kept[i].kept_ms : 0);
		link_add(&all->kept, &idempotency->link);
	}
	return OK;
}

// When the first claimer failed, it drops the entry without an answer; a waiter tries next.
void idempotency_drop(struct idempotency *idempotency)
{
	if (!idempotency->status && !idempotency->made && idempotency->listed) {
		idempotency->listed = false;
		map_take(idempotency->all->by_key, str_of(idempotency->key));
		condition_signal(&idempotency->settled);
	}
	let_go(&idempotency);
}

int idempotency_status(const struct idempotency *idempotency)
{
	return idempotency->status;
}

struct str idempotency_location(const struct idempotency *idempotency)
{
	return str_of(idempotency->place);
}

struct str idempotency_body(const struct idempotency *idempotency)
{
	return (struct str){idempotency->body, idempotency->body_len};
}
