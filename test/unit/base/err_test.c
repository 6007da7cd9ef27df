#include "base/err.h"

#include <errno.h>

#include "tap.h"

TEST(faces, "a kind has its word, status, exit and retry")
{
	auto_err err = err_new(EXHAUSTED, "class_full", "class %s is full", "gold");

	CHECK(err_kind(err) == ERR_EXHAUSTED && err_http(err) == 429 && err_exit(err) == 6);
	CHECK(err_may_retry(err));
	CHECK_STR(err_word(err), "exhausted");
	CHECK_STR(err_reason(err), "class_full");
	CHECK_STR(err_message(err), "class gold is full");
	CHECK(err_hint_of(err) == NULL);
	CHECK(strstr(err_trail(err), "err_test.c:") != NULL);
}

TEST(neutral, "the tenant sees nothing of a system error, the operator all of it")
{
	auto_err err = err_sys(ENOENT, "open '%s'", "/host/secret");
	auto_err zero = err_sys(0, "short read of '%s'", "/host/secret");

	CHECK(err_kind(err) == ERR_INTERNAL);
	CHECK_STR(err_message(err), "an internal error; the operator's log has the details");
	CHECK_STR(err_message(zero), "an internal error; the operator's log has the details");
	CHECK(strstr(err_trail(err), "/host/secret") && strstr(err_trail(err), "ENOENT"));
	CHECK(strstr(zero ? err_trail(zero) : "", "/host/secret") != NULL);
}

static fallible low(void)
{
	return err_hint(err_sys(EIO, "read"), "try %s", "again");
}

static fallible middle(void)
{
	TRY(low(), "read the map of %s", "box-1");
	return OK;
}

static fallible high(void)
{
	TRY(middle());
	return OK;
}

TEST(trail, "an error gathers what was under way on its way up")
{
	auto_err err = high();

	CHECK(strstr(err_trail(err), "; while: read the map of box-1") != NULL);
	CHECK_STR(err_hint_of(err), "try again");
}

TEST(recast, "a recast error has a new face, no old hint, and the same trail")
{
	auto_err err = err_recast(low(), ERR_NOT_FOUND, "no_box", "there is no box '%s'", "x");

	CHECK(err_kind(err) == ERR_NOT_FOUND && err_hint_of(err) == NULL);
	CHECK_STR(err_message(err), "there is no box 'x'");
	CHECK(strstr(err_trail(err), "EIO") && strstr(err_trail(err), "no_box"));
}

TEST(rebuilt, "an error from a wire owns copies of its words")
{
	char reason[] = "bad_peer_word", message[] = "words", hint[] = "do this";
	auto_err err = err_from(ERR_CONFLICT, reason, message, hint);
	auto_err bare = err_from(ERR_CONFLICT, reason, message, "");

	memset(reason, 'x', sizeof(reason) - 1);
	memset(message, 'x', sizeof(message) - 1);
	memset(hint, 'x', sizeof(hint) - 1);
	CHECK_STR(err_reason(err), "bad_peer_word");
	CHECK_STR(err_message(err), "words");
	CHECK_STR(err_hint_of(err), "do this");
	CHECK(err_hint_of(bare) == NULL);
}

TEST(bounded, "neither a message nor a trail grows without bound, and no character is halved")
{
	static char text[5001];
	struct err *err;

	for (size_t i = 0; i < 5000; i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	err = err_new(INVALID, "long", "x%s", text);
	for (int i = 0; i < 100; i++)
		err = err_while(err, "%s", text);
	CHECK(strlen(err_message(err)) < 1024 && strlen(err_trail(err)) <= 4096);
	CHECK(strlen(err_message(err)) % 2 == 1);
	err_free(err);
	err_free(NULL);
}

TEST(absent, "what is absent is named, unless its name is long or not printable")
{
	static const struct {
		const char *name, *message;
	} rows[] = {
		{"web", "there is no tenant 'web'"},
		{"", "there is no such tenant"},
		{"a\nb", "there is no such tenant"},
		{"a b", "there is no such tenant"},
		{"it's", "there is no such tenant"},
		{"\xc3\xa9", "there is no such tenant"},
		{"0123456789012345678901234567890123456789012345678901234567890123x",
		 "there is no such tenant"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_err err = err_absent("no_tenant", "tenant", str_of(rows[i].name));

		CHECK_STR(err_message(err), rows[i].message);
		CHECK(err_kind(err) == ERR_NOT_FOUND);
	}
}
