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
#include <stdint.h>
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

// What is held now, without what the library would give back. Asked in a child: it does so only
// once, and leaves things behind that look lost. `unknown` when that child could not tell.
static size_t tap_held(size_t unknown)
{
	size_t held = unknown;
	int ends[2];
	pid_t child;

	if (pipe(ends))
		return unknown;
	child = fork();
	if (child == 0) {
		alarm(5);
		__libc_freeres();
		held = __sanitizer_get_current_allocated_bytes();
		_exit(write(ends[1], &held, sizeof(held)) != sizeof(held));
	}
	close(ends[1]);
	if (read(ends[0], &held, sizeof(held)) != sizeof(held))
		held = unknown;
	close(ends[0]);
	waitpid(child, NULL, 0);
	return held;
}

static void tap_find_leaks(size_t before)
{
	fflush(stdout);
	if (tap_held(SIZE_MAX) > before)
		__lsan_do_leak_check();
}
#else
static size_t tap_held(size_t unknown)
{
	return unknown;
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
	size_t before = tap_held(0);

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
