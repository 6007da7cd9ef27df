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

int main(void)
{
	int n = 0, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0); // a child that a test forks must not say it all again
	for (struct tap_test *t = tap_first; t; t = t->next) {
		tap_bad = false;
		t->run();
		failed += tap_bad;
		printf("%sok %d - %s\n", tap_bad ? "not " : "", ++n, t->name);
	}
	printf("1..%d\n", n);
	return failed != 0;
}
