#include "base/mem.h"

#include <stdalign.h>
#include <stdint.h>
#include <sys/wait.h>

#include "tap.h"

TEST(copies, "copies end in a NUL and formats have any length")
{
	auto_free char *dup = mem_dup("abc", 2);
	auto_free char *fmt = mem_fmt("%0500d", 7);
	auto_free char *none = mem_dup(NULL, 0);

	CHECK_STR(dup, "ab");
	CHECK(strlen(fmt) == 500);
	CHECK_STR(none, "");
}

TEST(zeroed, "new memory is zero, of size 0 too")
{
	auto_free char *at = mem_new(1000);
	auto_free char *none = mem_new(0);

	for (int i = 0; i < 1000; i++)
		CHECK(at[i] == 0);
	CHECK(none != NULL);
}

// In a child, whose abort is the proof.
static bool dies(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status);
}

static void overflow(void)
{
	free(mem_grow(NULL, SIZE_MAX / 2, 3));
}

TEST(overflows, "a product that overflows aborts")
{
	CHECK(dies(overflow));
}

TEST(arena_pieces, "pieces of an arena are zeroed, aligned and apart, whatever their size")
{
	auto_arena arena = arena_new();

	for (int round = 0; round < 3; round++) {
		char *last = NULL;

		for (size_t size = 0; size < 9000; size = size * 2 + 3) {
			char *at = arena_take(arena, size);

			CHECK((uintptr_t)at % alignof(max_align_t) == 0 && at != last);
			for (size_t i = 0; i < size; i++)
				CHECK(at[i] == 0);
			memset(at, 0xaa, size);
			last = at;
		}
		arena_reset(arena);
	}
}

TEST(arena_texts, "texts of an arena stay until it is reset")
{
	auto_arena arena = arena_new();
	const char *first = arena_fmt(arena, "box %d", 7);

	for (int i = 0; i < 10000; i++)
		arena_dup(arena, "filling", 7);
	CHECK_STR(first, "box 7");
	CHECK_STR(arena_dup(arena, "abc", 2), "ab");
	CHECK(strlen(arena_fmt(arena, "%05000d", 1)) == 5000);
}

TEST(arena_fits, "a text that fills the rest of a block, or is a byte too long for it, is whole")
{
	for (int len = 3900; len < 4200; len++) {
		auto_arena arena = arena_new();
		const char *text, *behind;

		CHECK_STR(arena_fmt(arena, "%s", "before"), "before");
		text = arena_fmt(arena, "%0*d", len, 1);
		behind = arena_fmt(arena, "%s", "behind");
		CHECK(strlen(text) == (size_t)len && text[0] == '0' && text[len - 1] == '1');
		CHECK_STR(behind, "behind");
	}
}
