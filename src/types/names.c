// A list of entries in LRU order, indexed by name and by number. Numbers are assigned in turn
// through the whole range, so that a freed number is reused last: a box that still has an old
// answer connects to nothing rather than to another name.
#include "types/names.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"

#define FIRST 0xc6120000u // 198.18.0.0
#define COUNT 0x20000u	  // /15

struct entry {
	struct link link; // least recently used first
	uint32_t number;  // within the range
	char name[];
};

struct names {
	struct map *by_name, *by_number;
	struct link used;
	size_t max;
	uint32_t next;
};

struct names *names_new(size_t max)
{
	struct names *names = mem_new_of(struct names);

	names->by_name = map_new();
	names->by_number = map_new();
	names->max = max < 1 ? 1 : max > NAMES_MAX ? NAMES_MAX : max;
	names->next = 1; // some software takes 198.18.0.0 for a network address
	link_init(&names->used);
	return names;
}

static struct str number_key(const uint32_t *number)
{
	return (struct str){(const char *)number, sizeof(*number)};
}

static void names_forget(struct names *names, struct entry *entry)
{
	map_take(names->by_name, str_of(entry->name));
	map_take(names->by_number, number_key(&entry->number));
	link_drop(&entry->link);
	free(entry);
}

void names_free(struct names *names)
{
	if (!names)
		return;
	list_each (at, &names->used)
		names_forget(names, link_of(at, struct entry, link));
	map_free(names->by_name);
	map_free(names->by_number);
	free(names);
}

static void touch(struct names *names, struct entry *entry)
{
	link_drop(&entry->link);
	link_add(&names->used, &entry->link);
}

// The last two and the first of the range are never used. There is always a free number: the range
// has sixteen times as many numbers as the table has entries.
static uint32_t free_number(struct names *names)
{
	uint32_t number;

	do {
		number = names->next;
		names->next = number + 1 < COUNT - 1 ? number + 1 : 1;
	} while (map_get(names->by_number, number_key(&number)));
	return number;
}

static struct entry *names_enter(struct names *names, const char *name)
{
	size_t len = strlen(name);
	struct entry *entry;

	if (map_count(names->by_name) >= names->max)
		names_forget(names, link_of(names->used.next, struct entry, link));
	entry = mem_new(sizeof(*entry) + len + 1);
	memcpy(entry->name, name, len + 1);
	entry->number = free_number(names);
	link_init(&entry->link);
	map_put(names->by_name, str_of(entry->name), entry);
	map_put(names->by_number, number_key(&entry->number), entry);
	return entry;
}

void names_give(struct names *names, const char *name, struct address *out)
{
	struct entry *entry = map_get(names->by_name, str_of(name));
	uint32_t number;

	if (!entry)
		entry = names_enter(names, name);
	touch(names, entry);
	number = FIRST + entry->number;
	*out = (struct address){.at = {(uint8_t)(number >> 24), (uint8_t)(number >> 16),
				       (uint8_t)(number >> 8), (uint8_t)number}};
}

// A prefix of RFC 4193: "cove" in ASCII.
static const uint8_t six[12] = {0xfd, 0x63, 0x6f, 0x76, 0x65};

void names_six(const struct address *given, struct address *out)
{
	struct address address = {.is_v6 = true};

	memcpy(address.at, six, sizeof(six));
	memcpy(address.at + sizeof(six), given->at, 4);
	*out = address;
}

static bool names_number_of(const struct address *address, uint32_t *out)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *at = address->at;
	uint32_t number;

	if (address->is_v6) {
		if (memcmp(at, mapped, sizeof(mapped)) != 0 && memcmp(at, six, sizeof(six)) != 0)
			return false;
		at += sizeof(mapped);
	}
	number = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	*out = number - FIRST;
	return number >= FIRST && *out < COUNT;
}

const char *names_find(struct names *names, const struct address *address)
{
	struct entry *entry;
	uint32_t number;

	if (!names_number_of(address, &number))
		return NULL;
	entry = map_get(names->by_number, number_key(&number));
	if (!entry)
		return NULL;
	touch(names, entry);
	return entry->name;
}

size_t names_count(const struct names *names)
{
	return map_count(names->by_name);
}

bool names_is_synthetic(const struct address *address)
{
	uint32_t number;

	return names_number_of(address, &number);
}
