// The writer: batches, order, and what happens when the disk says no.
#include "store/store.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "loop/offload.h"
#include "loop/task.h"
#include "scratch.h"
#include "store/agent.h"
#include "store/events.h"
#include "store/kv.h"
#include "store/schema.h"
#include "tap.h"
#include "unit/store/writes.h"

static struct loop *loop;
static struct store *store;
static int dir = -1;

static void end(void *unused)
{
	(void)unused;
	store_close(take_ptr(store));
	loop_free(take_ptr(loop));
	if (dir >= 0)
		close(dir);
	dir = -1;
}
#define auto_end __attribute__((unused)) on_exit_call(end) int ended = 0

static struct err *begin(int at)
{
	if (!loop)
		TRY(loop_new(&loop));
	return store_open(&(struct store_options){.loop = loop, .dir = at}, &store);
}

static int subdir(const char *name)
{
	mkdirat(scratch, name, 0700);
	dir = openat(scratch, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir;
}

// Turns the loop for a while: pokes and told deeds come home.
static void on_due(struct timer *timer)
{
	(void)timer;
	loop_stop(loop);
}

static void turn_for(int64_t ms)
{
	struct timer timer = {.due = on_due};

	loop_set_timer(loop, &timer, clock_ms() + ms);
	loop_run(loop);
}

static int live, failed;

static void one_write(void *arg)
{
	char name[32];

	snprintf(name, sizeof(name), "n/%d", (int)(intptr_t)arg);
	auto_err err = store_kv_put(store, name, STR("v"));

	failed += err != NULL;
	if (--live == 0)
		loop_stop(loop);
}

#ifdef __SANITIZE_THREAD__
#define MANY 64 // it has few fibers to give
#else
#define MANY 1000
#endif

TEST(group, "a thousand concurrent writes need few commits")
{
	auto_end;
	struct store_stats stats;

	CHECK_OK(begin(subdir("group")));
	live = MANY;
	failed = 0;
	for (int i = 0; i < MANY; i++)
		task_start(loop, "write", one_write, (void *)(intptr_t)i);
	loop_run(loop);
	task_trim();
	stats = store_stats(store);
	printf("# %llu deeds, %llu commits\n", (unsigned long long)stats.deeds,
	       (unsigned long long)stats.commits);
	CHECK(failed == 0 && stats.deeds == MANY);
	CHECK(stats.commits <= MANY / 5); // how many depends on the host: without groups it is MANY
}

static int order[8], orders, dropped;

static struct err *note(struct db *db, void *arg)
{
	(void)db;
	order[orders++] = (int)(intptr_t)arg;
	return OK;
}

static void on_drop(void *arg)
{
	(void)arg;
	dropped++;
}

static struct err *refuse(struct db *db, void *arg)
{
	(void)arg;
	TRY(store_kv_put_in(db, "undone", STR("x")));
	return err_new(CONFLICT, "no", "no");
}

TEST(told, "asynchronous writes are done in order with synchronous ones, and freed on the loop")
{
	auto_end;

	CHECK_OK(begin(-1));
	orders = dropped = 0;
	store_queue(store, note, (void *)1, on_drop);
	store_queue(store, note, (void *)2, on_drop);
	CHECK_OK(store_do(store, note, (void *)3));
	store_queue(store, note, (void *)4, on_drop);
	CHECK(orders == 3 && order[0] == 1 && order[1] == 2 && order[2] == 3);
	turn_for(100);
	CHECK(dropped == 3);
	CHECK_OK(store_flush(store));
	CHECK(orders == 4);
}

TEST(alone, "a write that fails is rolled back alone")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 9;

	CHECK_OK(begin(-1));
	store_kv_queue(store, "a", STR("1"));
	CHECK_ERR(store_do(store, refuse, NULL), CONFLICT);
	store_kv_queue(store, "b", STR("1"));
	CHECK_OK(store_kv_load(store, "", arena, &kv, &count));
	CHECK(count == 2);
	CHECK(store_health(store) == STORE_FINE);
}

TEST(last_words, "asynchronous writes are committed before the store closes")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 9;

	CHECK_OK(begin(subdir("last")));
	store_kv_queue(store, "a", STR("1"));
	store_close(store);
	CHECK_OK(begin(dir));
	CHECK_OK(store_kv_load(store, "", arena, &kv, &count));
	CHECK(count == 1);
}

TEST(killed, "a synchronous write survives kill -9")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 9;
	int status, pid;

	subdir("killed");
	pid = fork();
	if (pid == 0) {
		err_free(begin(dir));
		for (int i = 0; i < 20; i++) {
			char name[16];

			snprintf(name, sizeof(name), "k%02d", i);
			err_free(store_kv_put(store, name, STR("v")));
		}
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	CHECK_OK(begin(dir));
	CHECK_OK(store_kv_load(store, "k", arena, &kv, &count));
	CHECK(count == 20);
}

static int healths, last_health;

static void on_health(enum store_health health, void *arg)
{
	(void)arg;
	healths++;
	last_health = (int)health;
}

static int full_fs(const char *name)
{
	char command[256];

	snprintf(command, sizeof(command), "mkdir %s && mount -t tmpfs -o size=4m none %s", name,
		 name);
	if (scratch_run(command))
		return -1;
	dir = openat(scratch, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir;
}

TEST(full, "on a full disk writes are refused, reads succeed, asynchronous writes are kept, and "
	   "the store resumes")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 0;

	CHECK(full_fs("full") >= 0);
	CHECK_OK(begin(dir));
	healths = 0;
	store_on_health(store, on_health, NULL);
	CHECK_OK(store_kv_put(store, "before", STR("1")));
	CHECK(scratch_run("head -c 8m /dev/zero > full/fill 2>/dev/null; true") == 0);
	// Until the journal needs another page.
	for (int i = 0; i < 200 && store_health(store) == STORE_FINE; i++) {
		char name[16];

		snprintf(name, sizeof(name), "x%d", i);
		err_free(store_kv_put(store, name, STR("v")));
	}
	auto_err err = store_kv_put(store, "refused", STR("1"));
	CHECK(err && db_is_unwritable(err) && err_http(err) == 503);
	CHECK(store_health(store) == STORE_UNWRITABLE);
	CHECK_ERR(store_ready(store), UNAVAILABLE);
	store_kv_queue(store, "told", STR("1"));
	CHECK_OK(store_kv_load(store, "before", arena, &kv, &count));
	CHECK(count == 1);
	turn_for(50);
	CHECK(healths == 1 && last_health == STORE_UNWRITABLE);
	// What ends something has a reserve, and the older words go before it.
	CHECK_OK(store_kv_drop(store, "before"));
	CHECK_OK(store_kv_load(store, "told", arena, &kv, &count));
	CHECK(count == 1);
	CHECK(scratch_run("rm full/fill") == 0);
	for (int i = 0; i < 30 && store_health(store) != STORE_FINE; i++)
		turn_for(100);
	CHECK(store_health(store) == STORE_FINE);
	CHECK_OK(store_kv_put(store, "after", STR("1")));
	turn_for(50);
	CHECK(last_health == STORE_FINE);
	CHECK_OK(store_kv_load(store, "refused", arena, &kv, &count));
	CHECK(count == 0);
}

TEST(born_full, "on a disk that is full at the start records are read, and the store resumes")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 0;

	CHECK(full_fs("bornfull") >= 0);
	CHECK_OK(begin(dir));
	CHECK_OK(store_kv_put(store, "before", STR("1")));
	store_close(take_ptr(store));
	CHECK(scratch_run("rm -f bornfull/reserve; head -c 8m /dev/zero > bornfull/fill"
			  " 2>/dev/null; true") == 0);
	CHECK_OK(begin(dir));
	CHECK_OK(store_kv_load(store, "before", arena, &kv, &count));
	CHECK(count == 1);
	CHECK(scratch_run("rm bornfull/fill") == 0);
	for (int i = 0; i < 30 && store_health(store) != STORE_FINE; i++)
		turn_for(100);
	CHECK_OK(store_kv_put(store, "after", STR("1")));
}

TEST(read_only, "a read-only database is read, not written, and resumes when it becomes writable")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 0;

	CHECK(full_fs("ro") >= 0);
	CHECK_OK(begin(dir));
	CHECK_OK(store_kv_put(store, "before", STR("1")));
	end(NULL);
	CHECK(scratch_run("mount -o remount,ro ro") == 0);
	dir = openat(scratch, "ro", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(begin(dir));
	CHECK(store_health(store) == STORE_UNWRITABLE);
	CHECK_OK(store_kv_load(store, "before", arena, &kv, &count));
	CHECK(count == 1);
	CHECK_ERR(store_kv_put(store, "new", STR("1")), UNAVAILABLE);
	store_kv_queue(store, "told", STR("1"));
	CHECK(scratch_run("mount -o remount,rw ro") == 0);
	for (int i = 0; i < 30 && store_health(store) != STORE_FINE; i++)
		turn_for(100);
	CHECK_OK(store_kv_put(store, "new", STR("1")));
	CHECK_OK(store_kv_load(store, "told", arena, &kv, &count));
	CHECK(count == 1);
}

TEST(read_only_journal, "a read-only database is read with the rows that are only in its journal")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	size_t count = 0;
	int status, pid;

	CHECK(full_fs("rowal") >= 0);
	pid = fork();
	if (pid == 0) {
		err_free(begin(dir));
		err_free(store_kv_put(store, "a", STR("1")));
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	end(NULL);
	CHECK(scratch_run("test -s rowal/cove.db-wal && mount -o remount,ro rowal") == 0);
	dir = openat(scratch, "rowal", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(begin(dir));
	CHECK(store_health(store) == STORE_UNWRITABLE);
	CHECK_OK(store_kv_load(store, "a", arena, &kv, &count));
	CHECK(count == 1);
}

static void spoil(const char *name, off_t at, size_t len)
{
	auto_fd fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	auto_free char *junk = mem_new(len);

	memset(junk, 0x5a, len);
	if (pwrite(fd, junk, len, at) != (ssize_t)len)
		perror("spoil");
}

TEST(corrupt,
     "a corrupt database is opened, refuses every call with the reason, and is not changed")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_kv *kv;
	struct stat before, after;
	size_t count;

	CHECK_OK(begin(subdir("corrupt")));
	CHECK_OK(store_kv_put(store, "a", STR("1")));
	store_close(take_ptr(store));
	spoil("cove.db", 0, 100);
	CHECK(fstatat(dir, "cove.db", &before, 0) == 0);
	CHECK_OK(begin(dir));
	CHECK(store_health(store) == STORE_CORRUPT);
	auto_err err = store_kv_put(store, "b", STR("1"));
	CHECK(err && db_is_corrupt(err) && err_http(err) == 503);
	CHECK_ERR(store_kv_load(store, "", arena, &kv, &count), UNAVAILABLE);
	store_kv_queue(store, "c", STR("1"));
	for (int i = 0; i < 100 && !store_stats(store).lost; i++)
		turn_for(60);
	CHECK(store_stats(store).lost == 1);
	CHECK(fstatat(dir, "cove.db", &after, 0) == 0);
	CHECK(before.st_size == after.st_size && before.st_ino == after.st_ino);
}

TEST(corrupt_inside, "a corrupt page in the middle is found at the start")
{
	auto_end;

	CHECK_OK(begin(subdir("inside")));
	for (int i = 0; i < 200; i++) {
		char name[16];

		snprintf(name, sizeof(name), "key%d", i);
		store_kv_queue(store, name,
			       STR("a value that takes some space of the page it is in"));
	}
	store_close(take_ptr(store));
	scratch_run(
		"sqlite3 inside/cove.db 'pragma wal_checkpoint(truncate)' >/dev/null 2>&1; true");
	struct stat at;
	CHECK(fstatat(dir, "cove.db", &at, 0) == 0);
	spoil("cove.db", at.st_size / 4096 / 2 * 4096, 3 * 4096);
	CHECK_OK(begin(dir));
	CHECK(store_health(store) == STORE_CORRUPT);
}

TEST(too_new, "the database of a newer cove is refused and not changed")
{
	auto_end;
	sqlite3 *raw = NULL;
	char path[128];

	CHECK_OK(begin(subdir("new")));
	store_close(take_ptr(store));
	snprintf(path, sizeof(path), "%s/new/cove.db", scratch_path);
	CHECK(sqlite3_open(path, &raw) == SQLITE_OK);
	CHECK(sqlite3_exec(raw, "UPDATE schema SET version = 999", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(raw);
	auto_err err = begin(dir);
	CHECK(err != NULL);
	CHECK_STR(err_reason(err), "state_too_new");
}

#define FIRST_AGENTS(name)                                                                         \
	"CREATE TABLE " name " (id TEXT PRIMARY KEY, session TEXT NOT NULL, tenant TEXT NOT NULL," \
	" box TEXT NOT NULL, state TEXT NOT NULL, deadline BIGINT NOT NULL,"                       \
	" generation BIGINT NOT NULL, version BIGINT NOT NULL, body BYTEA NOT NULL);"

// As the first cove that kept a state wrote it: its tables, with a row in each that changes.
static const char first_state[] =
	"CREATE TABLE schema (version BIGINT NOT NULL); INSERT INTO schema VALUES (1);"
	"CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);"
	"INSERT INTO counters VALUES ('event', 7), ('audit', 0);"
	"CREATE TABLE boxes (id TEXT PRIMARY KEY, seq BIGINT NOT NULL, tenant TEXT NOT NULL,"
	" name TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL);"
	"CREATE TABLE kv (name TEXT PRIMARY KEY, value BYTEA NOT NULL, time BIGINT NOT NULL);"
	"INSERT INTO kv VALUES ('kept', x'31', 5);"
	"CREATE TABLE events (id BIGINT PRIMARY KEY, time BIGINT NOT NULL, tenant TEXT NOT NULL,"
	" kind TEXT NOT NULL, sandbox TEXT NOT NULL, session TEXT NOT NULL, fields TEXT NOT NULL);"
	"CREATE INDEX events_of_tenant ON events (tenant, id);"
	"INSERT INTO events VALUES (6, 1, 'a', 'k', '', '', '{}'), (7, 1, 'b', 'k', '', '', '{}');"
	"CREATE TABLE audit (id BIGINT PRIMARY KEY, time BIGINT NOT NULL, tenant TEXT NOT NULL,"
	" who TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL, outcome TEXT NOT NULL,"
	" fields TEXT NOT NULL, hash BYTEA NOT NULL);"
	"CREATE INDEX audit_of_tenant ON audit (tenant, id);" FIRST_AGENTS("sessions")
		FIRST_AGENTS("leases")
			FIRST_AGENTS("runs") "CREATE TABLE session_ids (id TEXT PRIMARY KEY); "
					     "INSERT INTO session_ids VALUES ('s'), ('t');"
					     "INSERT INTO sessions VALUES ('s', 's', '', '', "
					     "'live', 0, 0, 1, x'7b7d'),"
					     " ('t', 't', 'acme', '', 'live', 0, 0, 1, x'7b7d');"
					     "INSERT INTO leases VALUES ('t', 't', 'acme', '', "
					     "'none', 0, 0, 1, x'7b7d');"
					     "INSERT INTO runs VALUES ('run_1', 't', 'acme', '', "
					     "'queued', 0, 0, 1, x'7b7d');"
					     "CREATE TABLE tapes (sandbox TEXT NOT NULL, id TEXT "
					     "NOT NULL, PRIMARY KEY (sandbox, id));"
					     "CREATE TABLE pledges (key TEXT PRIMARY KEY, kept "
					     "BIGINT NOT NULL);"
					     "CREATE INDEX pledges_by_age ON pledges (kept);"
					     "CREATE TABLE usage (tenant TEXT NOT NULL);";

static bool run_raw(const char *place, const char *sql)
{
	sqlite3 *raw = NULL;
	char path[128];
	int code;

	snprintf(path, sizeof(path), "%s/%s/cove.db", scratch_path, place);
	code = sqlite3_open(path, &raw);
	if (code == SQLITE_OK)
		code = sqlite3_exec(raw, sql, NULL, NULL, NULL);
	sqlite3_close(raw);
	return code == SQLITE_OK;
}

TEST(older, "the database of the first version is migrated with its rows")
{
	auto_end;
	auto_arena arena = arena_new();
	struct store_events_ask ask = {.tenant = "a", .own = true, .max = 9};
	struct store_event event = {.tenant = "a", .kind = "k"};
	struct store_events page;
	struct store_agent *row = NULL;
	struct store_kv *kv;
	uint64_t first = 0;
	size_t count = 0;

	subdir("older");
	CHECK(run_raw("older", first_state));
	CHECK_OK(begin(dir));
	CHECK(store_health(store) == STORE_FINE && store_stats(store).schema == SCHEMA_NOW);
	CHECK_OK(store_kv_load(store, "kept", arena, &kv, &count));
	CHECK(count == 1 && str_is(kv[0].value, "1"));
	CHECK_OK(store_events_page(store, &ask, arena, &page));
	CHECK(page.count == 1 && page.at[0].id == 6);
	CHECK_OK(add_events(store, &event, 1, &first));
	CHECK(first == 8);
	ask.after = 6;
	CHECK_OK(store_events_page(store, &ask, arena, &page));
	CHECK(page.count == 1 && page.at[0].id == 7 && !page.missed);
	CHECK_OK(store_agent_get(store, STORE_SESSION, "s", arena, &row));
	CHECK(row && !row->tenant[0]);
	CHECK_OK(store_agent_get(store, STORE_SESSION, "acme__t", arena, &row));
	CHECK(row && !strcmp(row->tenant, "acme"));
	CHECK_OK(store_agent_get(store, STORE_LEASE, "acme__t", arena, &row));
	CHECK(row != NULL);
	CHECK_OK(store_agent_runs(store, "acme__t", arena, &row, &count));
	CHECK(count == 1 && !strcmp(row->id, "run_1"));
	CHECK(is_session_used(store, "acme__t"));
	store_close(take_ptr(store));
	CHECK(run_raw("older", "SELECT own FROM audit; SELECT own FROM events"));
	CHECK(!run_raw("older", "SELECT 1 FROM tapes"));
	CHECK_OK(begin(dir));
	CHECK(store_health(store) == STORE_FINE);
}

TEST(half_step, "a migration that fails leaves the database unchanged")
{
	auto_end;

	subdir("half");
	CHECK(run_raw("half", first_state));
	CHECK(run_raw("half", "DROP TABLE audit")); // so that a later part of the step fails
	auto_err err = begin(dir);
	CHECK(err != NULL);
	CHECK(run_raw("half", "SELECT 1 FROM tapes; SELECT time FROM events"));
	CHECK(!run_raw("half", "SELECT own FROM events"));
}

static struct err *read_slowly(struct db *db, void *arg)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT count(*) FROM kv", &query));
	TRY(query_step(&query, &found));
	usleep(400000); // in the middle of its look
	*(int64_t *)arg = query_take_int(&query);
	return OK;
}

static int64_t wrote_ms;

static void write_beside(void *arg)
{
	int64_t began = clock_ms();

	(void)arg;
	for (int i = 0; i < 20; i++)
		failed += store_kv_put(store, "beside", STR("v")) != NULL;
	wrote_ms = clock_ms() - began;
	if (--live == 0)
		loop_stop(loop);
}

static void look_beside(void *arg)
{
	failed += store_look(store, read_slowly, arg) != NULL;
	if (--live == 0)
		loop_stop(loop);
}

TEST(beside, "a long read does not block a commit")
{
	auto_end;
	int64_t seen = -1;

	CHECK_OK(begin(subdir("beside")));
	CHECK_OK(offload_open(loop, 2));
	CHECK_OK(store_kv_put(store, "a", STR("1")));
	live = 2;
	failed = 0;
	task_start(loop, "look", look_beside, &seen);
	task_start(loop, "write", write_beside, NULL);
	loop_run(loop);
	task_trim();
	offload_close();
	CHECK(failed == 0);
	CHECK(seen >= 1);
	printf("# 20 commits in %lld ms beside it\n", (long long)wrote_ms);
	CHECK(wrote_ms < 350);
}

TEST(no_room_for_files, "the store works when no file descriptor is left")
{
	auto_end;
	int held[64], count = 0;
	struct rlimit before, few;

	CHECK_OK(begin(subdir("nofiles")));
	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = 64;
	setrlimit(RLIMIT_NOFILE, &few);
	while (count < 64 && (held[count] = dup(0)) >= 0)
		count++;
	for (int i = 0; i < 50; i++)
		CHECK_OK(store_kv_put(store, "x", STR("1")));
	while (count > 0)
		close(held[--count]);
	setrlimit(RLIMIT_NOFILE, &before);
}
