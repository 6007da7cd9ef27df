// A pledge is in one of two states: open (status 0: its first claimer is at work) or kept. Kept
// ones stand in a list by age; the oldest go when there are too many or they are a day old. An open
// one that is dropped without an answer leaves at once, and its waiters race to be the next first.
#include "door/pledge.h"

#include "base/map.h"
#include "base/mem.h"

#define KEY_MAX 255

struct pledge {
	struct pledges *all;
	char *key;
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

static void forget(struct pledge *pledge)
{
	free(pledge->key);
	free(pledge->place);
	free(pledge->body);
	free(pledge);
}

static void unlist(struct pledge *pledge)
{
	if (!pledge->listed)
		return;
	pledge->listed = false;
	map_take(pledge->all->by_key, str_of(pledge->key));
	if (pledge->status)
		link_drop(&pledge->link);
	if (!pledge->holds)
		forget(pledge);
}

void pledges_free(struct pledges *all)
{
	if (!all)
		return;
	list_each (at, &all->kept)
		unlist(link_of(at, struct pledge, link));
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
		unlist(pledge);
	}
}

static bool is_key(struct str key)
{
	for (size_t i = 0; i < key.len; i++)
		if (key.at[i] <= ' ' || key.at[i] > '~')
			return false;
	return key.len && key.len <= KEY_MAX;
}

static struct pledge *make(struct pledges *all, struct str key, const uint8_t hash[SECRET_HASH])
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
		forget(*pledge);
}

fallible pledge_claim(struct pledges *all, struct str key, const uint8_t hash[SECRET_HASH],
		      struct pledge **out, bool *out_first)
{
	int64_t deadline = loop_now(all->loop) + PLEDGE_WAIT_MS;

	if (!is_key(key))
		return err_new(INVALID, "bad_key",
			       "Idempotency-Key must be 1 to %d printable characters", KEY_MAX);
	expire(all);
	for (;;) {
		on_exit_call(let_go) struct pledge *pledge = map_get(all->by_key, key);

		if (!pledge) {
			*out = make(all, key, hash);
			(*out)->holds++;
			*out_first = true;
			return OK;
		}
		pledge->holds++;
		if (memcmp(pledge->hash, hash, SECRET_HASH) != 0)
			return err_hint(err_new(CONFLICT, "idempotency_mismatch",
						"this key was used with another request"),
					"use a new Idempotency-Key for a new request");
		if (pledge->status) {
			*out = take_ptr(pledge);
			*out_first = false;
			return OK;
		}
		TRY(bell_wait(&pledge->settled, deadline), "wait for the first of that key");
	}
}

void pledge_keep(struct pledge *pledge, int status, struct str place, struct str body)
{
	pledge->status = status;
	pledge->place = mem_dup(place.at, place.len);
	pledge->body = mem_dup(body.at, body.len);
	pledge->body_len = body.len;
	pledge->kept_at = loop_now(pledge->all->loop);
	link_add(&pledge->all->kept, &pledge->link);
	bell_ring(&pledge->settled);
}

// The first claimer lets go without an answer when its work failed; whoever waited tries next.
void pledge_drop(struct pledge *pledge)
{
	if (!pledge->status && pledge->listed) {
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
