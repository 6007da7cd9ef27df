// A pledge is in one of two states: open (status 0: its first claimer is at work) or kept. Kept
// ones stand in a list by age; the oldest go when there are too many or they are a day old. An open
// one that is dropped without an answer leaves at once, and its waiters race to be the next first.
//
// Keys are known by a hash of whose they are and the key. After a restart there is a third state:
// something was made, but its answer was lost; whoever asks next answers.
#include "door/pledge.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/pledges.h"

#define KEY_MAX 255

struct pledge {
	struct pledges *all;
	char *key;  // hex
	char *made; // NULL: nothing
	uint8_t hash[SECRET_HASH];
	int status; // 0: open
	char *place, *body;
	size_t body_len;
	int64_t kept_at;
	uint32_t holds; // claimers and waiters; the table itself is no holder
	bool listed;
	struct bell settled;
	struct link link; // kept ones, oldest first
};

struct pledges {
	struct loop *loop;
	struct store *store; // NULL: nothing outlives us
	struct map *by_key;
	struct link kept;
};

struct pledges *pledges_new(struct loop *loop)
{
	struct pledges *all = mem_new_of(struct pledges);

	all->loop = loop;
	all->by_key = map_new();
	link_init(&all->kept);
	return all;
}

static void pledge_forget(struct pledge *pledge)
{
	free(pledge->key);
	free(pledge->made);
	free(pledge->place);
	free(pledge->body);
	free(pledge);
}

static void pledge_unlist(struct pledge *pledge)
{
	if (!pledge->listed)
		return;
	pledge->listed = false;
	map_take(pledge->all->by_key, str_of(pledge->key));
	if (pledge->status)
		link_drop(&pledge->link);
	if (!pledge->holds)
		pledge_forget(pledge);
}

void pledges_free(struct pledges *all)
{
	if (!all)
		return;
	list_each (at, &all->kept)
		pledge_unlist(link_of(at, struct pledge, link));
	map_free(all->by_key);
	free(all);
}

static void expire(struct pledges *all)
{
	int64_t oldest = loop_now(all->loop) - PLEDGE_AGE_MS;

	list_each (at, &all->kept) {
		struct pledge *pledge = link_of(at, struct pledge, link);

		if (pledge->kept_at > oldest && map_count(all->by_key) <= PLEDGE_MAX)
			break;
		pledge_unlist(pledge);
	}
}

static bool pledge_is_key(struct str key)
{
	for (size_t i = 0; i < key.len; i++)
		if (key.at[i] <= ' ' || key.at[i] > '~')
			return false;
	return key.len && key.len <= KEY_MAX;
}

static struct pledge *pledge_make(struct pledges *all, struct str key,
				  const uint8_t hash[SECRET_HASH])
{
	struct pledge *pledge = mem_new_of(struct pledge);

	pledge->all = all;
	pledge->key = mem_dup(key.at, key.len);
	memcpy(pledge->hash, hash, SECRET_HASH);
	pledge->listed = true;
	bell_init(&pledge->settled);
	map_put(all->by_key, key, pledge);
	return pledge;
}

static void let_go(struct pledge **pledge)
{
	if (*pledge && !--(*pledge)->holds && !(*pledge)->listed)
		pledge_forget(*pledge);
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

// Who has no slash.
static void name_key(const char *who, struct str key, char out[2 * SECRET_HASH + 1])
{
	auto_free char *text = mem_fmt("%s/" STR_FMT, who, STR_ARG(key));
	uint8_t hash[SECRET_HASH];

	secret_sha256(text, strlen(text), hash);
	to_hex(hash, out);
}

fallible pledge_claim(struct pledges *all, struct str key, const uint8_t hash[SECRET_HASH],
		      struct pledge **out, bool *out_first)
{
	return pledge_claim_of(all, "", key, hash, out, out_first);
}

fallible pledge_claim_of(struct pledges *all, const char *who, struct str plain,
			 const uint8_t hash[SECRET_HASH], struct pledge **out, bool *out_first)
{
	int64_t deadline = loop_now(all->loop) + PLEDGE_WAIT_MS;
	char name[2 * SECRET_HASH + 1];
	struct str key;

	if (!pledge_is_key(plain))
		return err_new(INVALID, "bad_key",
			       "Idempotency-Key must be 1 to %d printable characters", KEY_MAX);
	name_key(who, plain, name);
	key = str_of(name);
	expire(all);
	for (;;) {
		on_exit_call(let_go) struct pledge *pledge = map_get(all->by_key, key);

		if (!pledge) {
			*out = pledge_make(all, key, hash);
			(*out)->holds++;
			*out_first = true;
			return OK;
		}
		pledge->holds++;
		if (memcmp(pledge->hash, hash, SECRET_HASH) != 0)
			return err_hint(err_new(CONFLICT, "idempotency_mismatch",
						"this key was used with another request"),
					"use a new Idempotency-Key for a new request");
		if (pledge->status || pledge->made) {
			*out = take_ptr(pledge);
			*out_first = false;
			return OK;
		}
		TRY(bell_wait(&pledge->settled, deadline), "wait for the first of that key");
	}
}

static void store_down(const struct pledge *pledge)
{
	struct store_pledge row = {
		.key = pledge->key,
		.status = pledge->status,
		.place = pledge->place,
		.body = {pledge->body, pledge->body_len},
		.kept_ms = clock_steady_ms(),
	};

	memcpy(row.hash, pledge->hash, sizeof(row.hash));
	store_pledges_put(pledge->all->store, &row);
}

void pledge_keep(struct pledge *pledge, int status, struct str place, struct str body)
{
	pledge->status = status;
	pledge->place = mem_dup(place.at, place.len);
	pledge->body = mem_dup(body.at, body.len);
	pledge->body_len = body.len;
	pledge->kept_at = loop_now(pledge->all->loop);
	link_add(&pledge->all->kept, &pledge->link);
	if (pledge->all->store)
		store_down(pledge);
	bell_ring(&pledge->settled);
}

void pledge_mark(const struct pledge *pledge, char out[PLEDGE_MARK])
{
	char hash[2 * SECRET_HASH + 1];

	to_hex(pledge->hash, hash);
	snprintf(out, PLEDGE_MARK, "%s:%s", pledge->key, hash);
}

const char *pledge_made(const struct pledge *pledge)
{
	return pledge->status ? NULL : pledge->made;
}

void pledge_void(struct pledge *pledge)
{
	free(take_ptr(pledge->made));
	pledge_drop(pledge);
}

void pledges_made(struct pledges *all, const char *mark, const char *made)
{
	uint8_t hash[SECRET_HASH] = {0};
	struct str key = {mark, 2 * SECRET_HASH};

	if (strlen(mark) != PLEDGE_MARK - 1 || !from_hex(mark + key.len + 1, hash) ||
	    map_get(all->by_key, key))
		return;
	pledge_make(all, key, hash)->made = mem_str(made);
}

fallible pledges_load(struct pledges *all, struct store *store)
{
	auto_arena arena = arena_new();
	int64_t wall = clock_steady_ms();
	struct store_pledge *kept = NULL;
	size_t count = 0;

	all->store = store;
	TRY(store_pledges_load(store, wall - PLEDGE_AGE_MS, arena, &kept, &count));
	for (size_t i = 0; i < count; i++) {
		struct pledge *pledge = pledge_make(all, str_of(kept[i].key), kept[i].hash);

		pledge->status = kept[i].status;
		pledge->place = mem_str(kept[i].place);
		pledge->body = mem_dup(kept[i].body.at, kept[i].body.len);
		pledge->body_len = kept[i].body.len;
		// A clock that was set back makes it no younger than new.
		pledge->kept_at = loop_now(all->loop) -
				  (kept[i].kept_ms < wall ? wall - kept[i].kept_ms : 0);
		link_add(&all->kept, &pledge->link);
	}
	return OK;
}

// The first claimer lets go without an answer when its work failed; whoever waited tries next.
void pledge_drop(struct pledge *pledge)
{
	if (!pledge->status && !pledge->made && pledge->listed) {
		pledge->listed = false;
		map_take(pledge->all->by_key, str_of(pledge->key));
		bell_ring(&pledge->settled);
	}
	let_go(&pledge);
}

int pledge_status(const struct pledge *pledge)
{
	return pledge->status;
}

struct str pledge_place(const struct pledge *pledge)
{
	return str_of(pledge->place);
}

struct str pledge_body(const struct pledge *pledge)
{
	return (struct str){pledge->body, pledge->body_len};
}
