// Containers: an intrusive list, and a hash table from byte strings to pointers.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct link {
	struct link *prev, *next;
};

#define LINK_INIT(head) ((struct link){&(head), &(head)})
void link_init(struct link *head);
void link_add(struct link *head, struct link *item);  // at the tail
void link_push(struct link *head, struct link *item); // at the front
void link_drop(struct link *item);		      // harmless when in no list
bool link_empty(const struct link *head);
#define link_of(item, type, member) ((type *)((char *)(item)-offsetof(type, member)))
#define list_each(var, head)                                                                       \
	for (struct link *var = (head)->next, *var##_next = var->next; var != (head);              \
	     var = var##_next, var##_next = var->next)

// The table owns copies of its keys, not the values. Seeded per process against collision attacks.
struct map;
struct map *map_new(void);
void map_free(struct map *map);
void *map_get(const struct map *map, struct str key);	    // NULL: absent
bool map_put(struct map *map, struct str key, void *value); // false: the key was there; unchanged
void *map_take(struct map *map, struct str key);	    // removes; NULL: absent
size_t map_count(const struct map *map);
// Iterates: start with *at = 0. The table must not change meanwhile.
bool map_next(const struct map *map, size_t *at, struct str *key, void **value);
