// Allocation that aborts when out of memory, and arenas: chains of blocks that are freed together.
// Sizes are checked for overflow.
//
// syscalls: brk mmap munmap mremap mprotect madvise futex write rt_sigprocmask gettid getpid tgkill
#include "base/mem.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Must not allocate, as stdio would.
__attribute__((noreturn, cold)) static void die(const char *words)
{
	if (write(STDERR_FILENO, words, strlen(words)) < 0)
		abort();
	abort();
}

static void *sure(void *got)
{
	if (!got)
		die("cove: out of memory\n");
	return got;
}

void *mem_new(size_t size)
{
	return sure(calloc(1, size ? size : 1));
}

void *mem_grow(void *old, size_t count, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(count, size, &total))
		die("cove: a size overflowed\n");
	return sure(realloc(old, total ? total : 1));
}

char *mem_dup(const void *bytes, size_t len)
{
	char *copy;

	if (len == SIZE_MAX)
		die("cove: a size overflowed\n");
	copy = sure(malloc(len + 1));
	if (len)
		memcpy(copy, bytes, len);
	copy[len] = 0;
	return copy;
}

char *mem_str(const char *text)
{
	return mem_dup(text, strlen(text));
}

void mem_free_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

char *mem_fmt(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		die("cove: out of memory\n");
	va_end(args);
	return text;
}

// The arena: a chain of blocks, the newest first. An allocation larger than a block gets its own
// block behind the newest, so that the rest of that one stays usable.
#define BLOCK_ROOM ((size_t)4096 - sizeof(struct block))

struct block {
	struct block *next;
	size_t room, used;
	alignas(max_align_t) char at[];
};

struct arena {
	struct block *newest;
};

static struct block *block_new(size_t room)
{
	struct block *block;

	if (room > SIZE_MAX - sizeof(*block))
		die("cove: a size overflowed\n");
	block = sure(malloc(sizeof(*block) + room));
	block->next = NULL;
	block->room = room;
	block->used = 0;
	return block;
}

struct arena *arena_new(void)
{
	struct arena *arena = mem_new_of(struct arena);

	arena->newest = block_new(BLOCK_ROOM);
	return arena;
}

// `size` bytes, not zeroed.
static void *piece(struct arena *arena, size_t size)
{
	struct block *block = arena->newest;
	size_t align = alignof(max_align_t);

	if (size > SIZE_MAX - align)
		die("cove: a size overflowed\n");
	size = ((size ? size : 1) + align - 1) & ~(align - 1);
	if (block->room - block->used < size) {
		if (size > BLOCK_ROOM / 4) {
			struct block *own = block_new(size);

			own->next = block->next;
			block->next = own;
			block = own;
		} else {
			arena->newest = block_new(BLOCK_ROOM);
			arena->newest->next = block;
			block = arena->newest;
		}
	}
	block->used += size;
	return block->at + block->used - size;
}

void *arena_take(struct arena *arena, size_t size)
{
	return memset(piece(arena, size), 0, size);
}

char *arena_dup(struct arena *arena, const void *bytes, size_t len)
{
	char *copy;

	if (len == SIZE_MAX)
		die("cove: a size overflowed\n");
	copy = piece(arena, len + 1);
	if (len)
		memcpy(copy, bytes, len);
	copy[len] = 0;
	return copy;
}

// Tries the rest of the newest block first. `room` is a multiple of the alignment: what fits there
// is where piece() puts it.
char *arena_fmt(struct arena *arena, const char *fmt, ...)
{
	struct block *block = arena->newest;
	size_t room = block->room - block->used;
	char *at = block->at + block->used;
	va_list args, again;
	int len;

	va_start(args, fmt);
	va_copy(again, args);
	len = vsnprintf(at, room, fmt, args);
	if (len < 0)
		die("cove: a text cannot be formatted\n");
	if ((size_t)len >= room) {
		explicit_bzero(at, room); // block_wipe() knows only what is used
		at = piece(arena, (size_t)len + 1);
		vsnprintf(at, (size_t)len + 1, fmt, again);
	} else {
		at = piece(arena, (size_t)len + 1);
	}
	va_end(again);
	va_end(args);
	return at;
}

// Requests have bodies in their arenas, and some have secrets in their bodies.
static void block_wipe(struct block *block)
{
	explicit_bzero(block->at, block->used);
}

static void free_chain(struct block *block)
{
	while (block) {
		struct block *next = block->next;

		block_wipe(block);
		free(block);
		block = next;
	}
}

void arena_reset(struct arena *arena)
{
	free_chain(arena->newest->next);
	arena->newest->next = NULL;
	block_wipe(arena->newest);
	arena->newest->used = 0;
}

void arena_free(struct arena *arena)
{
	if (!arena)
		return;
	free_chain(arena->newest);
	free(arena);
}
