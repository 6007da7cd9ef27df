// The table of inotify watches: an open-addressing hash table by watch descriptor. A removed entry
// stays marked until the table is rebuilt. Paths are on the heap; a failed allocation ends the
// watch.
#include "init/watched.h"

#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#define FREE 0 // watch descriptors start at 1
#define GIVEN_UP (-1)

struct place {
	int wd;
	char *path;
};

static struct {
	struct place *places;
	uint32_t size; // a power of two
	uint32_t used; // with removed entries
	uint32_t count;
} table;

static struct place *watched_find(int wd)
{
	if (table.size == 0)
		return NULL;
	for (uint32_t i = (uint32_t)wd * 2654435761u;; i++) {
		struct place *place = &table.places[i & (table.size - 1)];

		if (place->wd == wd)
			return place;
		if (place->wd == FREE)
			return NULL;
	}
}

static void watched_put(struct place what)
{
	int wd = what.wd;
	uint32_t i = (uint32_t)wd * 2654435761u;

	while (table.places[i & (table.size - 1)].wd != FREE)
		i++;
	table.places[i & (table.size - 1)] = what;
	table.used++;
	table.count++;
}

static bool watched_make_room(void)
{
	struct place *old = table.places;
	uint32_t old_size = table.size;
	struct place *places;

	if (table.used + 1 <= table.size / 2)
		return true;
	while (table.size < 64 || table.count + 1 > table.size / 4)
		table.size = table.size ? table.size * 2 : 64;
	places = calloc(table.size, sizeof(*places));
	if (!places) {
		table.size = old_size;
		return false;
	}
	table.places = places;
	table.used = table.count = 0;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i].wd > 0)
			watched_put(old[i]);
	free(old);
	return true;
}

bool watched_add(int wd, const char *path)
{
	char *own = strdup(path);
	struct place *place = watched_find(wd);

	if (!own || (!place && !watched_make_room())) {
		free(own);
		return false;
	}
	if (place) {
		free(place->path);
		place->path = own;
	} else {
		watched_put((struct place){wd, own});
	}
	return true;
}

const char *watched_path(int wd)
{
	struct place *place = wd > 0 ? watched_find(wd) : NULL;

	return place ? place->path : NULL;
}

static void give_up(struct place *place)
{
	free(place->path);
	*place = (struct place){.wd = GIVEN_UP};
	table.count--;
}

void watched_drop(int wd)
{
	struct place *place = wd > 0 ? watched_find(wd) : NULL;

	if (place)
		give_up(place);
}

static bool is_in(const struct place *place, const char *path, size_t len)
{
	return place->wd > 0 && strncmp(place->path, path, len) == 0 &&
	       (!place->path[len] || place->path[len] == '/');
}

void watched_rename(const char *path, const char *to)
{
	size_t len = strlen(path), to_len = strlen(to);

	for (uint32_t i = 0; i < table.size; i++) {
		struct place *place = &table.places[i];
		size_t rest;
		char *moved;

		if (!is_in(place, path, len))
			continue;
		rest = strlen(place->path + len);
		moved = malloc(to_len + rest + 1);
		if (!moved)
			continue;
		memcpy(moved, to, to_len);
		memcpy(moved + to_len, place->path + len, rest + 1);
		free(place->path);
		place->path = moved;
	}
}

void watched_drop_tree(int inotify, const char *path)
{
	size_t len = strlen(path);

	for (uint32_t i = 0; i < table.size; i++) {
		struct place *place = &table.places[i];

		if (!is_in(place, path, len))
			continue;
		inotify_rm_watch(inotify, place->wd);
		give_up(place);
	}
}

void watched_clear(void)
{
	for (uint32_t i = 0; i < table.size; i++)
		if (table.places[i].wd > 0)
			free(table.places[i].path);
	free(table.places);
	memset(&table, 0, sizeof(table));
}

uint64_t watched_count(void)
{
	return table.count;
}
