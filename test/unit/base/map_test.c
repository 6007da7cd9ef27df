#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>

#include "tap.h"

struct item {
	int n;
	struct link link;
};

TEST(lists, "a list keeps its order, and items may leave while it is walked")
{
	struct link head = LINK_INIT(head);
	struct item items[4] = {0};
	int seen = 0;

	CHECK(link_empty(&head));
	for (int i = 0; i < 3; i++) {
		items[i].n = i + 1;
		link_add(&head, &items[i].link);
	}
	link_push(&head, &items[3].link);
	list_each (at, &head) {
		struct item *item = link_of(at, struct item, link);

		seen = seen * 10 + item->n;
		link_drop(at);
	}
	CHECK(seen == 123 && link_empty(&head));
}

TEST(drops, "dropping is harmless for an item that is in no list, or was dropped already")
{
	struct link head = LINK_INIT(head), never = {0}, item;

	link_drop(&never);
	link_add(&head, &item);
	link_drop(&item);
	link_drop(&item);
	CHECK(link_empty(&head));
}

static struct str key_of(char room[16], unsigned int n)
{
	return (struct str){room, (size_t)snprintf(room, 16, "key-%u", n)};
}

TEST(table, "a table agrees with a plain array over many puts and takes")
{
	enum { N = 3000 };
	static bool model[N];
	struct map *map = map_new();
	size_t count = 0;
	char room[16];

	srand(7);
	for (int round = 0; round < 60000; round++) {
		// First it fills, then it empties, so that it grows and shrinks.
		bool put = rand() % 10 < (round < 30000 ? 7 : 3);
		unsigned int n = (unsigned int)rand() % N;
		struct str key = key_of(room, n);
		void *value = (void *)(uintptr_t)(n + 1);

		if (put) {
			CHECK(map_put(map, key, value) == !model[n]);
			count += !model[n];
			model[n] = true;
		} else {
			CHECK(map_take(map, key) == (model[n] ? value : NULL));
			count -= model[n];
			model[n] = false;
		}
		CHECK(map_count(map) == count);
	}
	for (unsigned int n = 0; n < N; n++)
		CHECK((map_get(map, key_of(room, n)) != NULL) == model[n]);
	map_free(map);
}

TEST(steps, "stepping gives every entry once")
{
	struct map *map = map_new();
	size_t at = 0, seen = 0;
	uintptr_t sum = 0;
	char room[16];
	struct str key;
	void *value;

	for (unsigned int n = 1; n <= 100; n++)
		map_put(map, key_of(room, n), (void *)(uintptr_t)n);
	for (; map_next(map, &at, &key, &value); seen++)
		sum += (uintptr_t)value;
	CHECK(seen == 100 && sum == 5050);
	map_free(map);
}

TEST(bytes, "keys are bytes: empty, with a NUL inside, or a prefix of another")
{
	struct map *map = map_new();
	int a, b, c;

	CHECK(map_put(map, STR(""), &a) && map_put(map, STR("x\0y"), &b));
	CHECK(map_put(map, STR("x"), &c) && !map_put(map, STR("x"), &a));
	CHECK(map_get(map, STR("")) == &a && map_get(map, STR("x\0y")) == &b);
	CHECK(map_get(map, STR("x")) == &c && map_get(map, STR("x\0z")) == NULL);
	map_free(map);
	map_free(NULL);
}
