// A test is a function. A test file is a program. The output is TAP.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

struct tap_test {
	const char *name;
	void (*run)(void);
	struct tap_test *next;
};

static struct tap_test *tap_first, **tap_tail = &tap_first;
static bool tap_bad;

#define TEST(fn, sentence)                                                                         \
	static void fn(void);                                                                      \
	static struct tap_test tap_of_##fn = {sentence, fn, NULL};                                 \
	__attribute__((constructor)) static void tap_add_##fn(void)                                \
	{                                                                                          \
		*tap_tail = &tap_of_##fn;                                                          \
		tap_tail = &tap_of_##fn.next;                                                      \
	}                                                                                          \
	static void fn(void)

#define CHECK(expr)                                                                                \
	do {                                                                                       \
		if (!(expr)) {                                                                     \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #expr);                        \
			tap_bad = true;                                                            \
			return;                                                                    \
		}                                                                                  \
	} while (0)

#define CHECK_STR(got, want)                                                                       \
	do {                                                                                       \
		const char *got_ = (got), *want_ = (want);                                         \
		if (strcmp(got_, want_) != 0) {                                                    \
			printf("# %s:%d: got '%s', want '%s'\n", __FILE__, __LINE__, got_, want_); \
			tap_bad = true;                                                            \
			return;                                                                    \
		}                                                                                  \
	} while (0)

#define CHECK_OK(call)                                                                             \
	do {                                                                                       \
		auto_err err_ = (call);                                                            \
		if (err_)                                                                          \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, err_trail(err_));              \
		CHECK(!err_);                                                                      \
	} while (0)

#define CHECK_ERR(call, want)                                                                      \
	do {                                                                                       \
		auto_err err_ = (call);                                                            \
		CHECK(err_ != NULL);                                                               \
		CHECK(err_kind(err_) == ERR_##want);                                               \
	} while (0)

// On aarch64 the search for leaks takes three seconds, whatever there is. Where as much has been
// given back as was taken there is none to find.
#ifdef __SANITIZE_ADDRESS__
#include <sys/wait.h>
#include <unistd.h>

size_t __sanitizer_get_current_allocated_bytes(void);
void __lsan_do_leak_check(void);
void __libc_freeres(void); // what the library keeps for itself: time zone, threads' tables
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "leak_check_at_exit=0";
}

static size_t tap_held(void)
{
	fflush(stdout);
	__libc_freeres();
	return __sanitizer_get_current_allocated_bytes();
}

// What is held before anything was done, asked in a child: the library gives back only once.
static size_t tap_held_first(void)
{
	size_t held = 0;
	int ends[2];

	if (pipe(ends))
		return 0;
	if (fork() == 0) {
		held = tap_held();
		_exit(write(ends[1], &held, sizeof(held)) != sizeof(held));
	}
	close(ends[1]);
	wait(NULL);
	if (read(ends[0], &held, sizeof(held)) != sizeof(held))
		held = 0;
	close(ends[0]);
	return held;
}

static void tap_find_leaks(size_t before)
{
	if (tap_held() > before)
		__lsan_do_leak_check();
}
#else
static size_t tap_held_first(void)
{
	return 0;
}

static void tap_find_leaks(size_t before)
{
	(void)before;
}
#endif

int main(void)
{
	static char line[BUFSIZ];
	int n = 0, failed = 0;
	size_t before = tap_held_first();

	// A child that a test forks must not say it all again.
	setvbuf(stdout, line, _IOLBF, sizeof(line));
	for (struct tap_test *t = tap_first; t; t = t->next) {
		tap_bad = false;
		t->run();
		failed += tap_bad;
		printf("%sok %d - %s\n", tap_bad ? "not " : "", ++n, t->name);
	}
	printf("1..%d\n", n);
	tap_find_leaks(before);
	return failed != 0;
}
