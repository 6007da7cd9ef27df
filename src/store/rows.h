// A growing array in an arena, for results of unknown length.
#pragma once

#include "base/mem.h"

struct rows {
	struct arena *arena;
	size_t count, room;
};

// Space for one more element after `at`, zeroed; *at may move.
static inline void *rows_next(struct rows *rows, void **at, size_t size)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 16;
		char *grown = arena_take(rows->arena, room * size);

		if (rows->count)
			__builtin_memcpy(grown, *at, rows->count * size);
		*at = grown;
		rows->room = room;
	}
	return (char *)*at + rows->count++ * size;
}
