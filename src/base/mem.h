// Memory. Allocation never returns NULL: out of memory aborts, and state that must survive is in
// another process. A size from a peer is checked against a limit before it gets here.
#pragma once

#include <stddef.h>

#include "base/auto.h"

void *mem_new(size_t size);			      // zeroed
void *mem_grow(void *old, size_t count, size_t size); // realloc of count*size, overflow checked
char *mem_dup(const void *bytes, size_t len);	      // with a NUL behind it
char *mem_str(const char *text);		      // strdup
void mem_free_list(char **list); // NULL-terminated, its texts too; accepts NULL
char *mem_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define mem_new_of(type) ((type *)mem_new(sizeof(type)))

// An arena: many small allocations, freed together. A request has one; nothing in it is freed
// alone.
struct arena;
struct arena *arena_new(void);
void *arena_take(struct arena *arena, size_t size);		     // zeroed, aligned for anything
char *arena_dup(struct arena *arena, const void *bytes, size_t len); // with a NUL behind it
char *arena_fmt(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_reset(struct arena *arena); // empty again, keeps one block
void arena_free(struct arena *arena);

static inline void auto_arena_(struct arena **arena)
{
	arena_free(*arena);
}
#define auto_arena on_exit_call(auto_arena_) struct arena *
