// Named tapes: what is on disk, and what comes back after a crash.
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "box/tape.h"
#include "loop/offload.h"
#include "tap.h"

static const struct stall_at nobody;

#define LABEL_IS(label)                                                                            \
	(str_is((label).id, "proc_1") && str_is((label).session, "s1") &&                          \
	 str_is((label).command, "echo hi") && (label).started_ms == 1234567890123 &&              \
	 (label).cap == 1 << 20 && (label).pid == 7 && (label).conn == 42)

static struct loop *loop;
static char path[] = "/tmp/cove-tape-XXXXXX"; // mkdtemp fills it
static int dir = -1;
static void (*body)(void);

static void task_body(void *arg)
{
	(void)arg;
	task_shield(true);
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

static struct tape *make(const char *name)
{
	struct tape_label label = {
		.id = STR("proc_1"),
		.session = STR("s1"),
		.command = STR("echo hi"),
		.started_ms = 1234567890123,
		.cap = 1 << 20,
	};
	struct tape *tape = tape_new_named(loop, dir, name);

	tape_set_label(tape, &label);
	tape_started(tape, 7, 42);
	return tape;
}

static off_t size_of(const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, 0) ? -1 : st.st_size;
}

static char got[2][1 << 20];
static size_t got_len[2];

static fallible read_from(struct tape *tape, uint64_t offset, size_t size)
{
	static char room[70000];
	enum tape_stream stream = TAPE_STDOUT;
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

static bool await_gone(const char *name)
{
	for (int i = 0; i < 6000 && size_of(name) >= 0; i++)
		err_free(task_sleep_until(loop_now(loop) + 5));
	return size_of(name) < 0;
}

TEST(opens, "a loop with workers and a folder")
{
	CHECK_OK(loop_new(&loop));
	CHECK_OK(offload_open(loop, 2));
	CHECK(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
}

TASK_TEST(written, "bytes are on disk before a reader sees them")
{
	struct tape *tape = make("box/1");

	CHECK(!tape_fits(tape, 1));
	CHECK(size_of("box/1") < 0);
	tape_begin(tape);
	off_t label = size_of("box/1");

	CHECK(label > 0);
	for (int i = 1; i <= 10; i++) {
		CHECK_OK(tape_add(tape, TAPE_STDOUT, "0123456789", 10));
		CHECK(size_of("box/1") == label + i * 18);
		CHECK(tape_kept(tape) == (uint64_t)i * 10);
	}
	tape_end(tape);
	CHECK_OK(read_from(tape, 95, 100));
	CHECK(got_len[0] == 5 && !memcmp(got[0], "56789", 5));
	tape_unref(tape);
	CHECK(await_gone("box/1"));
}

TASK_TEST(comes_back, "a finished tape is opened again with its label, bytes and end record")
{
	struct tape *tape = make("box/2"), *again;
	struct tape_ending ending = {.ended_ms = 99, .exit_code = 143, .signal = 15, .ending = 5};
	struct tape_label label;
	static char bytes[200000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)('a' + i % 26);
	CHECK_OK(tape_add(tape, TAPE_STDERR, "warn", 4));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK_OK(tape_add(tape, TAPE_STDERR, "\xff", 1));
	tape_end(tape);
	CHECK_OK(tape_seal(tape, &ending));
	tape_leave(tape);
	tape_unref(tape);
	CHECK_OK(tape_open(loop, dir, "box/2", &again, &label));
	CHECK(LABEL_IS(label));
	CHECK(tape_has_ended(again) && tape_kept(again) == sizeof(bytes) + 5);
	CHECK(tape_bytes(again, TAPE_STDERR) == 5 && !tape_is_utf8(again));
	ending = (struct tape_ending){0};
	CHECK(tape_ending_of(again, &ending));
	CHECK(ending.ended_ms == 99 && ending.exit_code == 143 && ending.signal == 15 &&
	      ending.ending == 5);
	for (uint64_t from = 0; from < sizeof(bytes); from += 37777) {
		CHECK_OK(read_from(again, from, 5000));
		CHECK(got_len[0] + got_len[1] == sizeof(bytes) + 5 - from);
		CHECK(!memcmp(got[0], bytes + sizeof(bytes) - got_len[0], got_len[0]));
	}
	tape_unref(again);
	CHECK(await_gone("box/2"));
}

TASK_TEST(torn, "a record that is cut at any byte keeps the bytes that are there")
{
	struct tape *tape = make("box/3"), *again;
	struct tape_label label;
	off_t whole, torn;

	CHECK_OK(tape_add(tape, TAPE_STDOUT, "first", 5));
	CHECK_OK(tape_add(tape, TAPE_STDERR, "second", 6));
	whole = size_of("box/3");
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "third", 5));
	torn = size_of("box/3");
	tape_leave(tape);
	tape_unref(tape);
	for (off_t size = torn - 1; size >= whole; size--) {
		auto_fd fd = openat(dir, "box/3", O_RDWR | O_CLOEXEC);
		size_t there = size > whole + 8 ? (size_t)(size - whole - 8) : 0;

		CHECK(fd >= 0 && ftruncate(fd, size) == 0);
		CHECK_OK(tape_open(loop, dir, "box/3", &again, &label));
		CHECK(!tape_has_ended(again) && tape_kept(again) == 11 + there && LABEL_IS(label));
		CHECK(size_of("box/3") == (there ? size : whole));
		// It is written on from there.
		CHECK_OK(tape_add(again, TAPE_STDOUT, &"third"[there], 5 - there));
		CHECK(size_of("box/3") == torn + (there ? 8 : 0));
		tape_end(again);
		CHECK_OK(read_from(again, 0, 100));
		CHECK(got_len[0] == 10 && !memcmp(got[0], "firstthird", 10) && got_len[1] == 6);
		tape_leave(again);
		tape_unref(again);
		// The one that was torn stands whole again, for the next one to tear.
		CHECK(ftruncate(fd, whole) == 0);
		CHECK_OK(tape_open(loop, dir, "box/3", &again, &label));
		CHECK_OK(tape_add(again, TAPE_STDOUT, "third", 5));
		tape_leave(again);
		tape_unref(again);
	}
}

TASK_TEST(garbage, "zeros and old blocks after the last record are not taken for frames")
{
	static const char *const tails[] = {"\0\0\0\0\0\0\0\0\0\0\0\0", "\5\0\0\0\0\0\0\0hello",
					    "\377\377\377\377\377\377\377\377"};
	static const size_t lens[] = {12, 13, 8};

	for (int i = 0; i < 3; i++) {
		struct tape *tape = make("box/4"), *again;
		struct tape_label label;

		CHECK_OK(tape_add(tape, TAPE_STDOUT, "kept", 4));
		off_t whole = size_of("box/4");

		tape_leave(tape);
		tape_unref(tape);
		auto_fd fd = openat(dir, "box/4", O_WRONLY | O_APPEND | O_CLOEXEC);

		CHECK(write(fd, tails[i], lens[i]) == (ssize_t)lens[i]);
		CHECK_OK(tape_open(loop, dir, "box/4", &again, &label));
		CHECK(tape_kept(again) == 4 && size_of("box/4") == whole);
		tape_unref(again);
		CHECK(await_gone("box/4"));
	}
}

TASK_TEST(strangers, "a file that is no tape is refused and left unchanged")
{
	static const char *const texts[] = {"", "COVETAPE",
					    "hello, this is no tape at all, really"};
	struct tape *tape;
	struct tape_label label;

	CHECK_ERR(tape_open(loop, dir, "box/none", &tape, &label), NOT_FOUND);
	for (int i = 0; i < 3; i++) {
		auto_fd fd = openat(dir, "stranger", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				    0600);

		CHECK(write(fd, texts[i], strlen(texts[i])) == (ssize_t)strlen(texts[i]));
		CHECK_ERR(tape_open(loop, dir, "stranger", &tape, &label), INVALID);
		CHECK(size_of("stranger") == (off_t)strlen(texts[i]));
	}
	// A label that is torn in the middle.
	tape = make("box/5");
	tape_begin(tape);
	tape_leave(tape);
	tape_unref(tape);
	for (off_t size = size_of("box/5") - 1; size >= 0; size--) {
		auto_fd fd = openat(dir, "box/5", O_RDWR | O_CLOEXEC);

		CHECK(ftruncate(fd, size) == 0);
		CHECK_ERR(tape_open(loop, dir, "box/5", &tape, &label), INVALID);
	}
}

TASK_TEST(rests, "an ended tape keeps no fd, and is still readable")
{
	struct tape *tape = make("box/6");
	struct tape_ending ending = {.exit_code = 0};

	CHECK_OK(tape_add(tape, TAPE_STDOUT, "sleep", 5));
	tape_end(tape);
	CHECK_OK(tape_seal(tape, &ending));
	for (int i = 0; i < 3; i++) {
		tape_ref(tape);
		CHECK_OK(read_from(tape, 0, 100));
		CHECK(got_len[0] == 5 && !memcmp(got[0], "sleep", 5));
		tape_unref(tape);
	}
	tape_unref(tape);
	CHECK(await_gone("box/6"));
}

TASK_TEST(seals_again, "a failed end record is reported, and can be written again")
{
	struct tape *tape = make("box/9"), *again;
	struct tape_ending ending = {.exit_code = 5};
	struct tape_label label;
	struct rlimit old, none;

	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = 3;
	tape_end(tape);
	setrlimit(RLIMIT_NOFILE, &none);
	CHECK_ERR(tape_seal(tape, &ending), INTERNAL);
	setrlimit(RLIMIT_NOFILE, &old);
	CHECK(!tape_ending_of(tape, &ending));
	CHECK_OK(tape_seal(tape, &ending));
	tape_leave(tape);
	tape_unref(tape);
	CHECK_OK(tape_open(loop, dir, "box/9", &again, &label));
	CHECK(tape_ending_of(again, &ending) && ending.exit_code == 5);
	tape_unref(again);
	CHECK(await_gone("box/9"));
}

static struct tape *oldest;

static bool let_go(void *arg)
{
	struct tape *tape = take_ptr(oldest);

	++*(int *)arg;
	tape_unref(tape);
	return tape != NULL;
}

TASK_TEST(lack, "when the budget is used up an old tape is dropped; then there is none left")
{
	static char bytes[60000];
	struct tape_budget *budget = tape_budget_new(104096); // with the block of a label
	struct tape *tape = make("box/8");
	int asked = 0;

	memset(bytes, 'x', sizeof(bytes));
	oldest = make("box/7");
	tape_bound(oldest, budget);
	tape_bound(tape, budget);
	tape_budget_on_lack(budget, let_go, &asked);
	CHECK_OK(tape_add(oldest, TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK(asked == 1 && !tape_truncated(tape, TAPE_STDOUT) && await_gone("box/7"));
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK(asked == 2 && tape_truncated(tape, TAPE_STDOUT));
	CHECK(tape_kept(tape) == sizeof(bytes) && size_of("box/8") < 100100);
	tape_unref(tape);
	tape_budget_drop(budget);
	CHECK(await_gone("box/8"));
}

// In a namespace of this test's own.
static bool mount_small(const char *where)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("x", where, "tmpfs", 0, "size=8m") == 0;
}

TASK_TEST(brim, "output does not fill the host's disk")
{
	static char bytes[65536];
	struct statfs fs;
	struct tape *tape;
	int small;

	if (!mount_small("/mnt")) {
		printf("# no rights to mount a tmpfs\n");
		return;
	}
	small = open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tape = tape_new(loop, small, 1 << 30);
	for (int i = 0; i < 200; i++)
		err_free(tape_add(tape, TAPE_STDOUT, bytes, sizeof(bytes)));
	CHECK(tape_truncated(tape, TAPE_STDOUT) && tape_kept(tape) > 7 << 20);
	CHECK(fstatfs(small, &fs) == 0 && fs.f_bavail * (uint64_t)fs.f_bsize > 100000);
	tape_unref(tape);
	close(small);
}

static char live[2 << 20];
static size_t live_len;

static void live_reader(void *arg)
{
	struct tape_reader reader;
	enum tape_stream stream;
	size_t len = 1;

	tape_attach(&reader, arg, 0);
	while (len && live_len < sizeof(live)) {
		auto_err err = tape_read_on(&reader, &stream, live + live_len,
					    sizeof(live) - live_len, &len, CLOCK_NEVER);

		if (err)
			break;
		live_len += len;
	}
	tape_detach(&reader);
}

TASK_TEST(full, "without room output goes to live readers, is marked, and is kept again with room")
{
	static char bytes[3][100000], all[3 * 100000];
	int small = open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC), filler;
	struct tape *tape;

	if (umount2("/mnt", MNT_DETACH) || !mount_small("/mnt")) {
		printf("# no rights to mount a tmpfs\n");
		return;
	}
	close(small);
	small = open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	tape = tape_new_named(loop, small, "box/1");
	tape_set_label(tape,
		       &(struct tape_label){.id = STR("x"), .command = STR("y"), .cap = 1 << 20});
	task_start(loop, "reader", live_reader, tape);
	for (int i = 0; i < 3; i++) {
		memset(bytes[i], 'a' + i, sizeof(bytes[i]));
		memcpy(all + i * sizeof(bytes[i]), bytes[i], sizeof(bytes[i]));
	}
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes[0], sizeof(bytes[0])));
	filler = openat(small, "filler", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(filler >= 0 && fallocate(filler, 0, 0, (8 << 20) - (300 << 10)) == 0);
	CHECK_OK(task_sleep_until(loop_now(loop) + 50)); // until the disk is looked at again
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes[1], sizeof(bytes[1])));
	CHECK(tape_lacks_room(tape) && tape_truncated(tape, TAPE_STDOUT));
	CHECK(tape_kept(tape) == sizeof(bytes[0]) && tape_bytes(tape, TAPE_STDOUT) == 200000);
	unlinkat(small, "filler", 0);
	close(filler);
	CHECK_OK(task_sleep_until(loop_now(loop) + 300)); // until it is tried again
	CHECK_OK(tape_add(tape, TAPE_STDOUT, bytes[2], sizeof(bytes[2])));
	CHECK(!tape_lacks_room(tape) && tape_kept(tape) == 200000);
	tape_end(tape);
	for (int i = 0; i < 100 && task_count() > 1; i++)
		CHECK_OK(task_sleep_until(loop_now(loop) + 10));
	CHECK(live_len == sizeof(all) && !memcmp(live, all, sizeof(all)));
	CHECK_OK(read_from(tape, 0, 70000));
	CHECK(got_len[0] == 200000 && got[0][99999] == 'a' && got[0][100000] == 'c');
	tape_unref(tape);
	close(small);
}

TASK_TEST(seeks, "the offset of a count of bytes of one stream is found")
{
	struct tape *tape = make("box/9");
	static char bytes[3000];
	uint64_t before;

	memset(bytes, 'y', sizeof(bytes));
	for (int i = 0; i < 100; i++)
		CHECK_OK(tape_add(tape, (enum tape_stream)(i & 1), bytes, sizeof(bytes)));
	for (uint64_t want = 0; want <= 150000; want += 7777) {
		for (int i = 0; i < TAPE_STREAMS; i++) {
			uint64_t offset = tape_seek(tape, (enum tape_stream)i, want, &before);

			CHECK(before <= want && want - before < 20000 && offset <= 2 * want + 3000);
		}
	}
	tape_unref(tape);
	CHECK(await_gone("box/9"));
}

// What a killed daemon had done of a draw: after the head, and after some of the bytes.
TASK_TEST(drawn, "bytes move from a pipe to the tape, and each is in one of the two")
{
	static char room[65536], much[50000];
	struct tape *tape = make("box/20"), *again;
	struct tape_label label;
	int ends[2];
	size_t len = 0;

	CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	CHECK_OK(tape_pipe(tape, TAPE_STDOUT, &nobody, ends[0], room, sizeof(room), &len));
	CHECK(len == 0 && tape_kept(tape) == 0);
	CHECK(write(ends[1], "hello \xe2\x82", 8) == 8);
	CHECK_OK(tape_pipe(tape, TAPE_STDOUT, &nobody, ends[0], room, sizeof(room), &len));
	CHECK(len == 8 && tape_is_text(tape) && !tape_is_utf8(tape));
	memset(much, 'm', sizeof(much));
	CHECK(write(ends[1], much, sizeof(much)) == sizeof(much));
	CHECK_OK(tape_pipe(tape, TAPE_STDERR, &nobody, ends[0], room, 20000, &len));
	CHECK(len == 20000);
	CHECK_OK(tape_pipe(tape, TAPE_STDOUT, &nobody, ends[0], room, sizeof(room), &len));
	CHECK(len == 30000 && tape_kept(tape) == 50008);
	CHECK(size_of("box/20") > 50008);
	tape_leave(tape);
	tape_unref(tape);
	CHECK_OK(tape_open(loop, dir, "box/20", &again, &label));
	CHECK(tape_kept(again) == 50008 && tape_bytes(again, TAPE_STDERR) == 20000);
	CHECK(write(ends[1], "more", 4) == 4);
	CHECK_OK(tape_pipe(again, TAPE_STDOUT, &nobody, ends[0], room, sizeof(room), &len));
	tape_end(again);
	CHECK_OK(read_from(again, 50006, 100));
	CHECK(got_len[0] == 6 && !memcmp(got[0], "mmmore", 6));
	tape_leave(again);
	tape_unref(again);
	close(ends[0]);
	close(ends[1]);
}

static int window_pipe[2];

// Writes `len` bytes to the pipe, and draws them.
static bool pump_window(struct tape *tape, const char *bytes, size_t len)
{
	static char room[65536];
	size_t drawn = 0, n = 1;

	if (write(window_pipe[1], bytes, len) != (ssize_t)len)
		return false;
	while (drawn < len && n > 0) {
		auto_err err = tape_pipe(tape, TAPE_STDOUT, &nobody, window_pipe[0], room,
					 sizeof(room), &n);

		drawn += err ? 0 : n;
	}
	return drawn == len;
}

static bool read_window(struct tape_reader *reader, const char *want, size_t len)
{
	static char room[65536];
	enum tape_stream stream;
	size_t n;

	while (len > 0) {
		auto_err err = tape_read_on(reader, &stream, room,
					    len < sizeof(room) ? len : sizeof(room), &n, 0);

		if (err || !n || memcmp(room, want, n) != 0)
			return false;
		want += n;
		len -= n;
	}
	return true;
}

TASK_TEST(window,
	  "a reader that follows gets all output past the cap, also from another tape object")
{
	static char block[65536];
	struct tape *tape = tape_new_named(loop, dir, "box/30"), *again;
	struct tape_label label = {.id = STR("x"), .command = STR("y"), .cap = 10};
	struct tape_reader reader;
	struct stat st;

	tape_set_label(tape, &label);
	CHECK(pipe2(window_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
	tape_attach(&reader, tape, 0);
	CHECK(pump_window(tape, "12345678\xe2\x82\xac and more", 19));
	CHECK(tape_kept(tape) == 8 && tape_is_utf8(tape) && tape_truncated(tape, TAPE_STDOUT));
	CHECK(read_window(&reader, "12345678\xe2\x82\xac and more", 19) && !reader.cut);
	for (int i = 0; i < 400; i++) { // 25 MiB
		memset(block, 'a' + i % 26, sizeof(block));
		CHECK(pump_window(tape, block, sizeof(block)));
		CHECK(read_window(&reader, block, sizeof(block)));
	}
	CHECK(!reader.cut && !reader.missed && tape_reached(tape) == 19 + 400 * 65536ull);
	CHECK(fstatat(dir, "box/30", &st, 0) == 0 && st.st_blocks * 512 < 10 << 20);
	CHECK(pump_window(tape, "the last", 8));
	tape_leave(tape); // as a daemon that is killed
	tape_detach(&reader);
	tape_unref(tape);

	CHECK_OK(tape_open(loop, dir, "box/30", &again, &label));
	CHECK(tape_kept(again) == 8 && tape_is_utf8(again) && tape_truncated(again, TAPE_STDOUT));
	CHECK(tape_reached(again) == 19 + 400 * 65536ull + 8);
	tape_attach(&reader, again, 19 + 399 * 65536ull);
	CHECK(pump_window(again, "and more", 8));
	CHECK(read_window(&reader, block, sizeof(block)) &&
	      read_window(&reader, "the lastand more", 16));
	CHECK(!reader.cut);
	tape_detach(&reader);
	tape_attach(&reader, again, 0); // late: from the start
	CHECK(read_window(&reader, "12345678", 8));
	CHECK(read_window(&reader, "\xe2\x82", 2)); // of the frame that the kept part ends in
	while (!reader.missed) {
		enum tape_stream stream;
		size_t n;

		CHECK_OK(tape_read_on(&reader, &stream, block, sizeof(block), &n, 0));
	}
	CHECK(reader.cut && reader.missed > 15 << 20 && reader.missed < 25 << 20);
	tape_detach(&reader);
	tape_leave(again);
	tape_unref(again);
	close(window_pipe[0]);
	close(window_pipe[1]);
}

static uint64_t window_quota_max;

static uint64_t window_quota_left(const struct tape_quota *quota)
{
	return quota->used < window_quota_max ? window_quota_max - quota->used : 0;
}

// `count` more blocks of 64 KiB, which the reader takes.
static bool fill_window(struct tape *tape, struct tape_reader *reader, int count)
{
	static char block[65536];

	for (int i = 0; i < count; i++)
		if (!pump_window(tape, block, sizeof(block)) ||
		    !read_window(reader, block, sizeof(block)))
			return false;
	return true;
}

TASK_TEST(window_quota,
	  "the window counts in the quota, not in the budget, and is small without it")
{
	struct tape *tape = tape_new_named(loop, dir, "box/31"), *again;
	struct tape_label label = {.id = STR("x"), .command = STR("y"), .cap = 10};
	struct tape_quota quota = {.left = window_quota_left};
	struct tape_budget *budget = tape_budget_new(1 << 20);
	struct tape_reader reader;
	uint64_t kept;

	window_quota_max = 100 << 20;
	tape_set_label(tape, &label);
	tape_bound(tape, budget);
	tape_budget_set(budget, 1 << 20, 0, &quota);
	CHECK(pipe2(window_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
	tape_attach(&reader, tape, 0);
	CHECK(fill_window(tape, &reader, 1));
	kept = tape_budget_used(budget);
	CHECK(fill_window(tape, &reader, 200)); // 12 MiB
	CHECK(quota.used > 6 << 20 && quota.used < 9 << 20 && tape_budget_used(budget) == kept);
	window_quota_max = 4 << 20;
	CHECK(fill_window(tape, &reader, 100));
	CHECK(quota.used < 5 << 20 && !reader.cut && !reader.missed);
	tape_leave(tape); // as a daemon that is killed
	tape_detach(&reader);
	tape_unref(tape);
	tape_budget_drop(budget);
	CHECK(quota.used == 0);

	budget = tape_budget_new(1 << 20);
	tape_budget_set(budget, 1 << 20, 0, &quota);
	CHECK_OK(tape_open(loop, dir, "box/31", &again, &label));
	tape_bound(again, budget);
	tape_attach(&reader, again, tape_reached(again));
	CHECK(fill_window(again, &reader, 1));
	CHECK(quota.used > 1 << 19 && quota.used < 5 << 20);
	tape_detach(&reader);
	tape_unref(again);
	tape_budget_drop(budget);
	CHECK(quota.used == 0);
	close(window_pipe[0]);
	close(window_pipe[1]);
}

TASK_TEST(drawn_full, "a full tape is cut between characters, and its label says so")
{
	static char room[65536];
	struct tape *tape = tape_new_named(loop, dir, "box/21"), *again;
	struct tape_label label = {.id = STR("x"), .command = STR("y"), .cap = 10};
	int ends[2];
	size_t len = 0;

	tape_set_label(tape, &label);
	CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	CHECK(write(ends[1], "12345678\xe2\x82\xac and more", 19) == 19);
	CHECK_OK(tape_pipe(tape, TAPE_STDOUT, &nobody, ends[0], room, sizeof(room), &len));
	CHECK(len == 10 && tape_kept(tape) == 8 && tape_truncated(tape, TAPE_STDOUT));
	CHECK(tape_fits(tape, 100) && tape_is_utf8(tape));
	tape_leave(tape);
	tape_unref(tape);
	CHECK_OK(tape_open(loop, dir, "box/21", &again, &label));
	CHECK(label.cap == 8 && tape_truncated(again, TAPE_STDOUT) && tape_fits(again, 1));
	CHECK(!tape_truncated(again, TAPE_STDERR) && tape_kept(again) == 8);
	tape_leave(again);
	tape_unref(again);
	close(ends[0]);
	close(ends[1]);
}

TASK_TEST(folders, "folders without an owner are removed")
{
	uint32_t tasks = task_count();

	CHECK(mkdirat(dir, "old", 0700) == 0);
	for (int i = 0; i < 3; i++) {
		char name[] = "old/0";

		name[4] = (char)('0' + i);
		close(openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	tape_remove_folder(loop, dir, "old");
	CHECK(await_gone("old"));
	tape_remove_leaked_all(loop, dir, NULL, NULL);
	CHECK(await_gone("box") && await_gone("stranger"));
	while (task_count() > tasks) // they free what they know
		err_free(task_sleep_until(loop_now(loop) + 5));
}

TEST(closes, "nothing is left")
{
	offload_close();
	loop_free(loop);
	close(dir);
	CHECK(rmdir(path) == 0);
}
