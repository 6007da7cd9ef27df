// Tapes: every reader gets all output, in order, whenever it reads.
#include "box/tape.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/clock.h"
#include "loop/offload.h"
#include "tap.h"

static struct loop *loop;
static int dir = -1;
static void (*body)(void);

static void task_body(void *arg)
{
	(void)arg;
	body();
	loop_stop(loop);
}

static void in_task(void (*fn)(void))
{
	body = fn;
	task_start(loop, "test", task_body, NULL);
	loop_run(loop);
}

#define TASK_TEST(fn, sentence)                                                                    \
	static void fn##_body(void);                                                               \
	TEST(fn, sentence)                                                                         \
	{                                                                                          \
		in_task(fn##_body);                                                                \
	}                                                                                          \
	static void fn##_body(void)

static char got[2][1 << 20];
static size_t got_len[2];

// Reads all of it in pieces of `size`. Fails unless the tape has ended.
static fallible read_all(struct tape *tape, size_t size)
{
	static char room[70000];
	enum tape_stream stream;
	uint64_t offset = 0;
	size_t len;

	memset(got_len, 0, sizeof(got_len));
	for (;;) {
		TRY(tape_read(tape, &offset, &stream, room, size, &len, loop_now(loop) + 1000));
		if (len == 0)
			return OK;
		memcpy(got[stream] + got_len[stream], room, len);
		got_len[stream] += len;
	}
}

static void fill(char *bytes, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)('a' + (i * 7 + seed) % 26);
}

TEST(opens, "a loop with workers")
{
	CHECK_OK(loop_new(&loop));
	CHECK_OK(offload_open(loop, 2));
	dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
}

TASK_TEST(order, "runs of the two streams are read in order of arrival")
{
	struct tape *tape = tape_new(loop, dir, 1000);
	enum tape_stream stream;
	uint64_t offset = 0;
	char room[64];
	size_t len;

	CHECK_OK(tape_add(tape, TAPE_STDOUT, "one ", 4));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "two", 3));
	CHECK_OK(tape_add(tape, TAPE_STDERR, "three", 5));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "four", 4));
	tape_end(tape);
	CHECK_OK(tape_read(tape, &offset, &stream, room, sizeof(room), &len, 0));
	CHECK(len == 7 && stream == TAPE_STDOUT && memcmp(room, "one two", 7) == 0);
	CHECK_OK(tape_read(tape, &offset, &stream, room, 2, &len, 0));
	CHECK(len == 2 && stream == TAPE_STDERR && memcmp(room, "th", 2) == 0);
	CHECK_OK(tape_read(tape, &offset, &stream, room, sizeof(room), &len, 0));
	CHECK(len == 3 && memcmp(room, "ree", 3) == 0);
	CHECK_OK(tape_read(tape, &offset, &stream, room, sizeof(room), &len, 0));
	CHECK(len == 4 && stream == TAPE_STDOUT);
	CHECK_OK(tape_read(tape, &offset, &stream, room, sizeof(room), &len, 0));
	CHECK(len == 0 && tape_is_utf8(tape) && !tape_truncated(tape, TAPE_STDOUT));
	tape_unref(tape);
}

TASK_TEST(spills, "output past memory goes to disk and is read back unchanged")
{
	static char bytes[2][400000];
	static const size_t sizes[] = {1, 100, 4096, 32767, 32768, 65536, 70000};
	struct tape *tape = tape_new(loop, dir, 1 << 20);
	size_t at[2] = {0};

	fill(bytes[0], sizeof(bytes[0]), 1);
	fill(bytes[1], sizeof(bytes[1]), 2);
	for (unsigned i = 0;; i++) {
		size_t len = sizes[i % 7];
		int stream = i % 3 == 2;

		if (at[stream] + len > sizeof(bytes[0]))
			break;
		CHECK_OK(tape_add(tape, (enum tape_stream)stream, bytes[stream] + at[stream], len));
		at[stream] += len;
	}
	tape_end(tape);
	for (size_t size = 1000; size <= 70000; size += 23000) {
		CHECK_OK(read_all(tape, size));
		CHECK(got_len[0] == at[0] && memcmp(got[0], bytes[0], at[0]) == 0);
		CHECK(got_len[1] == at[1] && memcmp(got[1], bytes[1], at[1]) == 0);
	}
	tape_unref(tape);
}

TASK_TEST(fits, "tape_fits() tells whether an append would wait")
{
	static char bytes[60000];
	struct tape *tape = tape_new(loop, dir, 70000);

	CHECK(tape_fits(tape, 60000) && !tape_fits(tape, 65536));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, 60000));
	CHECK(tape_fits(tape, 5000) && !tape_fits(tape, 6000));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, 6000)); // to the disk
	CHECK(!tape_fits(tape, 1));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, 6000)); // past the cap
	CHECK(tape_fits(tape, 1 << 30));
	CHECK(tape_truncated(tape, TAPE_STDOUT) && !tape_truncated(tape, TAPE_STDERR));
	CHECK(tape_bytes(tape, TAPE_STDOUT) == 72000);
	tape_end(tape);
	CHECK_OK(read_all(tape, 65536));
	CHECK(got_len[0] == 70000);
	tape_unref(tape);
}

static struct tape *shared;
static size_t heard;

static void reader(void *arg)
{
	char room[4096];
	enum tape_stream stream;
	uint64_t offset = 0;
	size_t len = 1;

	(void)arg;
	while (len > 0) {
		auto_err err = tape_read(shared, &offset, &stream, room, sizeof(room), &len,
					 loop_now(loop) + 5000);

		if (err)
			break;
		heard += len;
	}
	tape_unref(shared);
}

static bool refuse_more(void *arg)
{
	++*(int *)arg;
	return false;
}

TASK_TEST(budget, "tapes share a disk budget, and return their bytes")
{
	static char bytes[100000];
	struct tape_budget *budget = tape_budget_new(150048);
	struct tape *tapes[3];

	for (int i = 0; i < 3; i++) {
		tapes[i] = tape_new(loop, dir, 1 << 20);
		tape_bound(tapes[i], budget);
	}
	CHECK_OK(tape_add(tapes[0], TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK_OK(tape_add(tapes[1], TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK(!tape_truncated(tapes[0], TAPE_STDOUT) && tape_truncated(tapes[1], TAPE_STDOUT));
	CHECK(tape_fits(tapes[1], sizeof(bytes))); // nothing more is kept
	tape_end(tapes[1]);
	CHECK_OK(read_all(tapes[1], 70000));
	CHECK(got_len[0] == 50016);
	tape_unref(tapes[0]);
	CHECK_OK(tape_add(tapes[2], TAPE_STDERR, bytes, sizeof(bytes)));
	CHECK(!tape_truncated(tapes[2], TAPE_STDERR));
	tape_budget_drop(budget); // before the tapes that hold it
	tape_unref(tapes[1]);
	tape_unref(tapes[2]);
}

static uint64_t left_of(const struct tape_quota *quota)
{
	return quota->used < 50000 ? 50000 - quota->used : 0;
}

TASK_TEST(quota, "budgets share a quota beyond their floors, and return their bytes")
{
	static char bytes[100000];
	struct tape_quota quota = {.left = left_of};
	struct tape_budget *budgets[2];
	struct tape *tapes[2];

	for (int i = 0; i < 2; i++) {
		budgets[i] = tape_budget_new(UINT64_MAX);
		tapes[i] = tape_new(loop, dir, 1 << 20);
		tape_bound(tapes[i], budgets[i]);
		tape_budget_set(budgets[i], 1 << 20, 70000, &quota);
	}
	CHECK_OK(tape_add(tapes[0], TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK(!tape_truncated(tapes[0], TAPE_STDOUT) && quota.used > 30000 && quota.used < 30100);
	CHECK_OK(tape_add(tapes[1], TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK(tape_truncated(tapes[1], TAPE_STDOUT) && quota.used > 49900 && quota.used <= 50000);
	CHECK(tape_kept(tapes[1]) > 89800 && tape_kept(tapes[1]) < 90000);
	tape_budget_leave(budgets[1]); // its tape still holds it
	CHECK(quota.used > 30000 && quota.used < 30100);
	tape_unref(tapes[0]);
	CHECK(quota.used == 0);
	tape_unref(tapes[1]);
	for (int i = 0; i < 2; i++)
		tape_budget_drop(budgets[i]);
	CHECK(quota.used == 0);
}

TASK_TEST(shrinks, "a smaller budget drops old tapes")
{
	struct tape_budget *budget = tape_budget_new(UINT64_MAX);
	int asked = 0;

	tape_budget_on_lack(budget, refuse_more, &asked);
	tape_budget_charge(budget, 5000);
	tape_budget_set(budget, 6000, 0, NULL);
	CHECK(asked == 0);
	tape_budget_set(budget, 4000, 0, NULL);
	CHECK(asked == 1 && tape_budget_used(budget) == 5000);
	tape_budget_refund(budget, 6000); // more than there is
	CHECK(tape_budget_used(budget) == 0);
	tape_budget_drop(budget);
}

TASK_TEST(follows, "readers follow a writer across memory and disk, and outlive it")
{
	static char bytes[5000];

	shared = tape_new(loop, dir, 1 << 20);
	heard = 0;
	for (int i = 0; i < 3; i++) {
		tape_ref(shared);
		task_start(loop, "reader", reader, NULL);
	}
	for (int i = 0; i < 40; i++) {
		CHECK_OK(tape_add(shared, (enum tape_stream)(i & 1), bytes, sizeof(bytes)));
		if (i % 5 == 0)
			CHECK_OK(task_sleep_until(loop_now(loop) + 1));
	}
	tape_end(shared);
	tape_unref(shared);
	for (int i = 0; i < 100 && heard < 600000; i++)
		CHECK_OK(task_sleep_until(loop_now(loop) + 10));
	CHECK(heard == 600000);
}

TASK_TEST(text, "UTF-8 is recognized, also when characters are split")
{
	static const char word[] = "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80";
	struct tape *tape = tape_new(loop, dir, 1000);

	for (size_t i = 0; i < sizeof(word) - 1; i++)
		CHECK_OK(tape_add(tape, TAPE_STDOUT, word + i, 1));
	CHECK(tape_is_utf8(tape));
	CHECK_OK(tape_add(tape, TAPE_STDERR, "\xc3", 1));
	CHECK(!tape_is_utf8(tape));
	tape_unref(tape);

	tape = tape_new(loop, dir, 4); // the cap falls into a character, which then goes as a whole
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "ab\xe2\x82\xac", 5));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "x", 1));
	tape_end(tape);
	CHECK(tape_is_utf8(tape) && tape_truncated(tape, TAPE_STDOUT));
	CHECK_OK(read_all(tape, 100));
	CHECK(got_len[0] == 2);
	tape_unref(tape);

	tape = tape_new(loop, dir, 100);
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "\xff\0x", 3));
	CHECK(!tape_is_utf8(tape));
	tape_unref(tape);
}

TASK_TEST(offsets, "every count of bytes is an offset; past the end there is none")
{
	struct tape *tape = tape_new(loop, dir, 1000);
	enum tape_stream stream;
	char room[16];
	size_t len;

	CHECK_OK(tape_add(tape, TAPE_STDOUT, "hello", 5));
	CHECK_OK(tape_add(tape, TAPE_STDERR, "world", 5));
	tape_end(tape);
	for (uint64_t from = 0; from <= 10; from++) {
		uint64_t offset = from;

		CHECK_OK(tape_read(tape, &offset, &stream, room, sizeof(room), &len, 0));
		CHECK(len == (from < 10 ? 5 - from % 5 : 0) && offset == from + len);
		CHECK(!len || !memcmp(room, &"helloworld"[from], len));
	}
	CHECK_ERR(tape_read(tape, &(uint64_t){11}, &stream, room, sizeof(room), &len, 0), INVALID);
	CHECK_ERR(tape_read(tape, &(uint64_t){UINT64_MAX}, &stream, room, sizeof(room), &len, 0),
		  INVALID);
	tape_unref(tape);
}

TASK_TEST(grows, "a reader at the end of a growing run continues where it was")
{
	struct tape *tape = tape_new(loop, dir, 1000);
	enum tape_stream stream;
	uint64_t offset = 0;
	char room[16];
	size_t len;

	for (int i = 0; i < 5; i++) {
		CHECK_OK(tape_add(tape, TAPE_STDOUT, "abc", 3));
		CHECK_OK(tape_read(tape, &offset, &stream, room, sizeof(room), &len, 0));
		CHECK(len == 3 && !memcmp(room, "abc", 3));
	}
	tape_unref(tape);
}

TASK_TEST(bad_disk, "a disk error marks the tape as cut, and the rest is dropped")
{
	static char bytes[65536];
	int nowhere = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct tape *tape = tape_new(loop, nowhere, 1 << 20);

	CHECK_OK(tape_add(tape, TAPE_STDOUT, "kept", 4));
	CHECK_ERR(tape_add(tape, TAPE_STDOUT, bytes, sizeof(bytes)), INTERNAL);
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, sizeof(bytes)));
	tape_end(tape);
	CHECK(tape_truncated(tape, TAPE_STDOUT));
	CHECK_OK(read_all(tape, 100));
	CHECK(got_len[0] == 4);
	tape_unref(tape);
	close(nowhere);
}

TEST(closes, "nothing is left")
{
	CHECK(task_count() == 0);
	offload_close();
	loop_free(loop);
	close(dir);
}
