// Results of executions: blobs by content and tenant, logs with secrets masked, what is removed and
// what a kill leaves. Files of a real box are in test/e2e/execution_results.t.
#include "agent/results.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/artifacts.h"
#include "agent/log_reader.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "tap.h"

static struct loop *loop;
static struct store *store;
static struct results *results;
static struct tape_quota quota;
static char place[] = "/tmp/cove-results-XXXXXX";
static int dir = -1;
static struct arena *arena;
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

static struct tape_quota *output_of(void *arg, const char *tenant)
{
	(void)arg;
	return strcmp(tenant, "acme") == 0 ? &quota : NULL;
}

static void start_results(uint64_t max)
{
	CHECK_OK(results_open(&(struct results_options){.loop = loop,
							.store = store,
							.dir = dir,
							.output_of = output_of,
							.max = max},
			      &results));
	results_start(results);
	results_stop(results);
}

static size_t count_files(const char *folder)
{
	auto_free char *path = mem_fmt("%s/%s", place, folder);
	DIR *list = opendir(path);
	struct dirent *entry;
	size_t count = 0;

	while (list && (entry = readdir(list)))
		count += entry->d_name[0] != '.';
	if (list)
		closedir(list);
	return count;
}

static bool tape_put(struct tape *tape, enum tape_stream stream, const char *text)
{
	auto_err err = tape_add(tape, stream, text, strlen(text));

	return !err;
}

static struct tape *tape_of(const char *out, const char *err)
{
	struct tape *tape = tape_new_named(loop, dir, "source/1");

	tape_set_label(tape,
		       &(struct tape_label){.id = STR("x"), .command = STR("y"), .cap = 4096});
	if (tape_put(tape, TAPE_STDOUT, out) && tape_put(tape, TAPE_STDERR, err) &&
	    tape_put(tape, TAPE_STDOUT, out))
		tape_end(tape);
	return tape;
}

static struct results_attempt attempt_of(const char *tenant, const char *id, uint32_t number)
{
	return (struct results_attempt){tenant, id, number};
}

static struct err *put_in(struct db *db, void *arg)
{
	return store_results_put_in(db, arg);
}

static fallible put(const struct store_result *result, const struct store_file *files, size_t count)
{
	return store_do(store, put_in, &(struct store_result_rows){result, files, count});
}

static void collect(const char *tenant, const char *id, uint32_t number, struct tape *log,
		    struct store_result *out)
{
	struct results_attempt attempt = attempt_of(tenant, id, number);
	static const char *const globs[] = {"*.txt", NULL};

	struct results_found found;

	CHECK_OK(results_collect(results, &attempt, NULL, log,
				 &(struct results_spec){.globs = globs}, arena, &found));
	CHECK_OK(put(&found.result, found.artifacts.files, found.artifacts.count));
	results_settle(results, &attempt, &found, true);
	*out = found.result;
}

static void expect_log(const struct store_result *result, const char *expected)
{
	auto_buf text = BUF_INIT(1 << 16);
	auto_log_reader reader = {0};
	enum tape_stream stream;
	struct tape *tape = NULL;
	struct str bytes;

	CHECK_OK(results_open_log(results, result, &tape));
	CHECK_OK(log_reader_begin(&reader, tape, NULL, 0, false));
	do {
		CHECK_OK(log_reader_next(&reader, &stream, &bytes, CLOCK_NEVER));
		if (bytes.len)
			buf_fmt(&text, "%d[%.*s]", stream, STR_ARG(bytes));
	} while (bytes.len);
	log_reader_end(&reader);
	results_close_log(results, result, tape);
	CHECK_STR(text.at ? text.at : "", expected);
}

TEST(opens, "a store, and a directory without blobs")
{
	CHECK(mkdtemp(place) != NULL);
	dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	arena = arena_new();
	CHECK_OK(loop_new(&loop));
	CHECK_OK(offload_open(loop, 2));
	CHECK_OK(store_open(&(struct store_options){.loop = loop, .dir = -1}, &store));
}

TASK_TEST(stores, "a log is stored once, in order, with values masked, also across writes")
{
	struct policy policy = POLICY_INIT(POLICY_ALL);
	char value[] = "outout", name[] = "TOKEN";
	struct policy_secret secret = {.name = name, .value = value};
	struct results_attempt attempt = attempt_of("acme", "one", 1);
	struct store_result result = {0}, again = {0};
	struct tape *tape = tape_of("out", "err");

	start_results(0);
	policy.secrets = &secret;
	policy.secret_count = 1;
	results_hide(results, &attempt, &policy);
	collect("acme", "one", 1, tape, &result);
	CHECK(result.stdout_bytes == 6 && result.stderr_bytes == 3 && !result.stdout_truncated);
	CHECK(result.partial && !strcmp(result.missing, "[\"*.txt\"]"));
	expect_log(&result, "0[***]1[err]0[***]");
	CHECK(results_mask(results, &attempt) == NULL);
	CHECK_OK(results_get(results, &attempt, arena, &again));
	CHECK_STR(again.log, result.log);
	CHECK(again.stdout_written == 6 && again.times.len >= 16);
	CHECK(count_files("t-acme") == 1 && count_files("new") == 0);
	CHECK(quota.used == 4096);
	tape_unref(tape);
}

TASK_TEST(live, "a reader of a running command gets what the stored log will have")
{
	struct tape *tape = tape_new_named(loop, dir, "source/2");
	struct mask *mask = mask_new(&STR("secret"), 1);
	auto_log_reader reader = {0};
	enum tape_stream stream;
	struct str bytes;

	tape_set_label(tape,
		       &(struct tape_label){.id = STR("x"), .command = STR("y"), .cap = 4096});
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "a sec", 5));
	CHECK_OK(tape_add(tape, TAPE_STDERR, "other", 5));
	CHECK_OK(log_reader_begin(&reader, tape, mask, 1, true));
	CHECK_OK(log_reader_next(&reader, &stream, &bytes, CLOCK_NEVER));
	CHECK(str_is(bytes, " ") && reader.offset == 2);
	CHECK_ERR(log_reader_next(&reader, &stream, &bytes, loop_now(loop)), TIMEOUT);
	CHECK_OK(tape_add(tape, TAPE_STDOUT, "ret b", 5));
	CHECK_OK(log_reader_next(&reader, &stream, &bytes, CLOCK_NEVER));
	CHECK(str_is(bytes, "***") && stream == TAPE_STDOUT && reader.offset == 5);
	CHECK_OK(log_reader_next(&reader, &stream, &bytes, CLOCK_NEVER));
	CHECK(str_is(bytes, "other") && stream == TAPE_STDERR && reader.offset == 10);
	CHECK_OK(log_reader_next(&reader, &stream, &bytes, CLOCK_NEVER));
	CHECK(str_is(bytes, "*** b") && reader.offset == 15);
	tape_end(tape);
	CHECK_OK(log_reader_next(&reader, &stream, &bytes, CLOCK_NEVER));
	CHECK(bytes.len == 0);
	log_reader_end(&reader);
	mask_free(mask);
	tape_unref(tape);
}

static void put_blob(const char *tenant, const char *text, char out[SHA256_HEX + 1])
{
	struct blobs *blobs = results_blobs(results);
	struct blob_upload *upload = NULL;
	uint64_t bytes = 0;

	CHECK_OK(blob_begin(blobs, true, &upload));
	CHECK(write(blob_fd(upload), text, strlen(text)) == (ssize_t)strlen(text));
	CHECK_OK(blob_finish(upload, tenant, out, &bytes));
	CHECK(bytes == strlen(text));
}

TASK_TEST(equal, "equal contents of a tenant are one file, of two tenants two")
{
	char first[SHA256_HEX + 1], second[SHA256_HEX + 1], third[SHA256_HEX + 1];
	struct store_blob found[2] = {{"acme", first, false}, {"", third, false}};
	struct blobs *blobs = results_blobs(results);

	put_blob("acme", "abc", first);
	put_blob("acme", "abc", second);
	put_blob("", "abc", third);
	CHECK_STR(first, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	CHECK_STR(first, second);
	CHECK(count_files("t-acme") == 2 && count_files("t-") == 1);
	CHECK(quota.used == 2 * 4096);
	blobs_collect(blobs, found, 2);
	CHECK(count_files("t-acme") == 2); // both are held
	blob_release(blobs, "acme", first);
	blobs_collect(blobs, found, 2);
	CHECK(count_files("t-acme") == 2);
	blob_release(blobs, "acme", first);
	blob_release(blobs, "", third);
	blobs_collect(blobs, found, 2);
	CHECK(count_files("t-acme") == 1 && count_files("t-") == 0);
	CHECK(quota.used == 4096);
}

TASK_TEST(killed, "what a killed daemon left is removed at the next start, what has a row stays")
{
	struct store_result result = {0};
	char name[SHA256_HEX + 1];

	put_blob("acme", "left behind", name);
	results_free(results);
	CHECK(quota.used == 0);
	close(openat(dir, "new/123", O_WRONLY | O_CREAT, 0600));
	start_results(0);
	CHECK(count_files("t-acme") == 1 && count_files("new") == 0);
	CHECK(quota.used == 4096);
	CHECK_OK(results_get(results, &(struct results_attempt){"acme", "one", 1}, arena, &result));
	expect_log(&result, "0[***]1[err]0[***]");
}

TASK_TEST(dropped, "the last reference removes the file, not an earlier one")
{
	struct results_attempt attempt = attempt_of("acme", "two", 1);
	struct store_file file = {.path = STR("a"), .target = STR(""), .size = 3};
	struct store_result row = {.tenant = "acme",
				   .execution = "two",
				   .attempt = 1,
				   .missing = "[]",
				   .log = "",
				   .times = STR(""),
				   .stdout_sha256 = "",
				   .stderr_sha256 = ""};
	char name[SHA256_HEX + 1];

	put_blob("acme", "abc", name);
	file.sha256 = name;
	CHECK_OK(put(&row, &file, 1));
	row.execution = "three";
	CHECK_OK(put(&row, &file, 1));
	CHECK_ERR(put(&row, &file, 1), CONFLICT);
	blob_release(results_blobs(results), "acme", name);
	CHECK_OK(results_drop(results, "acme", "two"));
	CHECK(count_files("t-acme") == 2);
	CHECK_OK(results_drop(results, "acme", "three"));
	CHECK_OK(results_drop(results, "acme", "three"));
	CHECK(count_files("t-acme") == 1);
	CHECK_ERR(results_get(results, &attempt, arena, &row), NOT_FOUND);
}

TASK_TEST(capped, "past the cap the oldest contents are removed, and rows stay")
{
	struct store_result old, young;
	struct results_attempt attempt = attempt_of("acme", "one", 1);
	struct tape *tape = tape_of("more", "of it"), *log = NULL;

	results_configure(results, 6000);
	collect("acme", "four", 1, tape, &young);
	CHECK_OK(results_get(results, &attempt, arena, &old));
	CHECK(old.removed && old.stdout_bytes == 6);
	CHECK_ERR(results_open_log(results, &old, &log), GONE);
	expect_log(&young, "0[more]1[of it]0[more]");
	CHECK(count_files("t-acme") == 1 && blobs_bytes(results_blobs(results)) == 4096);
	tape_unref(tape);
}

TEST(globs, "globs with a part '..' are refused")
{
	CHECK_OK(artifacts_check_glob(STR("out/**/*.txt")));
	CHECK_OK(artifacts_check_glob(STR("/tmp/..x")));
	CHECK_ERR(artifacts_check_glob(STR("../x")), INVALID);
	CHECK_ERR(artifacts_check_glob(STR("a/../x")), INVALID);
	CHECK_ERR(artifacts_check_glob(STR("")), INVALID);
}

TASK_TEST(idle, "files that were closed are removed")
{
	tape_await_removals();
}

static void remove_folder(const char *name)
{
	auto_free char *path = mem_fmt("%s/%s", place, name);
	DIR *list = opendir(path);
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
	rmdir(path);
}

TEST(closes, "nothing is left")
{
	static const char *const folders[] = {"t-", "t-acme", "new", "source"};

	results_free(results);
	store_close(store);
	offload_close();
	loop_free(loop);
	arena_free(arena);
	close(dir);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		remove_folder(folders[i]);
	CHECK(rmdir(place) == 0);
}
