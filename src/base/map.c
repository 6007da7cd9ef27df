// An intrusive list, and a hash table with open addressing, linear probing and SipHash-1-3 with a
// random seed, because tenants choose keys. Keys are copied, values are borrowed.
#include "base/map.h"

#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/secret.h"

void link_init(struct link *head)
{
	head->prev = head->next = head;
}

void link_add(struct link *head, struct link *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

void link_push(struct link *head, struct link *item)
{
	link_add(head->next, item);
}

void link_drop(struct link *item)
{
	if (!item->next)
		return; // zeroed: not in a list
	item->prev->next = item->next;
	item->next->prev = item->prev;
	link_init(item);
}

bool link_empty(const struct link *head)
{
	return head->next == head;
}

// The table is at most three quarters full. Removal leaves no tombstone: later entries move up
// (Knuth 6.4, algorithm R).
struct slot {
	uint64_t hash;
	char *key; // NULL: free
	size_t len;
	void *value;
};

struct map {
	struct slot *slots;
	size_t room, count; // room is a power of two
	uint64_t seed[2];
};

#define ROOM_FIRST 16

static uint64_t turn(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void map_stir(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = turn(v[1], 13) ^ v[0];
	v[0] = turn(v[0], 32);
	v[2] += v[3];
	v[3] = turn(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = turn(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = turn(v[1], 17) ^ v[2];
	v[2] = turn(v[2], 32);
}

// SipHash-1-3 (Aumasson and Bernstein): tenants choose keys, but not the seed.
static uint64_t hash_of(const struct map *map, struct str key)
{
	uint64_t v[4] = {map->seed[0] ^ 0x736f6d6570736575, map->seed[1] ^ 0x646f72616e646f6d,
			 map->seed[0] ^ 0x6c7967656e657261, map->seed[1] ^ 0x7465646279746573};
	uint64_t word = 0;
	size_t i = 0;

	for (; i + 8 <= key.len; i += 8) {
		memcpy(&word, key.at + i, 8);
		v[3] ^= word;
		map_stir(v);
		v[0] ^= word;
	}
	word = (uint64_t)key.len << 56;
	for (size_t j = 0; i + j < key.len; j++)
		word |= (uint64_t)(uint8_t)key.at[i + j] << (8 * j);
	v[3] ^= word;
	map_stir(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	for (int round = 0; round < 3; round++)
		map_stir(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct map *map_new(void)
{
	struct map *map = mem_new_of(struct map);

	secret_random(map->seed, sizeof(map->seed));
	map->room = ROOM_FIRST;
	map->slots = mem_new(map->room * sizeof(struct slot));
	return map;
}

void map_free(struct map *map)
{
	if (!map)
		return;
	for (size_t i = 0; i < map->room; i++)
		free(map->slots[i].key);
	free(map->slots);
	free(map);
}

// The key's slot, or the free one where it would go.
static struct slot *map_find(const struct map *map, struct str key, uint64_t hash)
{
	size_t mask = map->room - 1;

	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		struct slot *slot = &map->slots[i];

		if (!slot->key)
			return slot;
		if (slot->hash == hash && str_eq(key, (struct str){slot->key, slot->len}))
			return slot;
	}
}

void *map_get(const struct map *map, struct str key)
{
	return map_find(map, key, hash_of(map, key))->value;
}

static void map_resize(struct map *map, size_t room)
{
	struct slot *old = map->slots;
	size_t old_room = map->room;

	map->slots = mem_new(room * sizeof(struct slot));
	map->room = room;
	for (size_t i = 0; i < old_room; i++)
		if (old[i].key)
			*map_find(map, (struct str){old[i].key, old[i].len}, old[i].hash) = old[i];
	free(old);
}

bool map_put(struct map *map, struct str key, void *value)
{
	uint64_t hash = hash_of(map, key);
	struct slot *slot = map_find(map, key, hash);

	assert(value);
	if (slot->key)
		return false;
	if ((map->count + 1) * 4 > map->room * 3) {
		map_resize(map, map->room * 2);
		slot = map_find(map, key, hash);
	}
	*slot = (struct slot){hash, mem_dup(key.at, key.len), key.len, value};
	map->count++;
	return true;
}

void *map_take(struct map *map, struct str key)
{
	struct slot *slot = map_find(map, key, hash_of(map, key));
	size_t mask = map->room - 1, hole = (size_t)(slot - map->slots);
	void *value = slot->value;

	if (!slot->key)
		return NULL;
	free(slot->key);
	for (size_t i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
		size_t home = map->slots[i].hash & mask;

		// Its home slot is after the hole: moving it would put it before its home.
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		map->slots[hole] = map->slots[i];
		hole = i;
	}
	map->slots[hole] = (struct slot){0};
	map->count--;
	if (map->room > ROOM_FIRST && map->count * 8 < map->room)
		map_resize(map, map->room / 2);
	return value;
}

size_t map_count(const struct map *map)
{
	return map->count;
}

bool map_next(const struct map *map, size_t *at, struct str *key, void **value)
{
	for (; *at < map->room; (*at)++) {
		const struct slot *slot = &map->slots[*at];

		if (!slot->key)
			continue;
		*key = (struct str){slot->key, slot->len};
		*value = slot->value;
		(*at)++;
		return true;
	}
	return false;
}
