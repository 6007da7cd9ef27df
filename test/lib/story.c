// libcove against a real cove, as a program of somebody else would use it: COVE_URL and COVE_TOKEN
// say where it is. The connection may be cut at any time (COVE_FLAKY): streams are read on.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cove.h"
#include "tap.h"

static struct cove *cove;
static struct cove_box *box;
static struct cove_error error;

static bool is_flaky(void)
{
	return getenv("COVE_FLAKY") != NULL;
}

// Tells of a failure and passes it on.
static bool fine(enum cove_kind kind)
{
	if (kind)
		printf("# %s: %s %s\n", cove_kind_word(kind), error.message, error.code);
	return kind == COVE_OK;
}

// A client and a box for each test.
static bool begin(void)
{
	return fine(cove_open(NULL, &cove, &error)) &&
	       fine(cove_box_create(cove, NULL, &box, &error));
}

static void end(void)
{
	if (!cove)
		return;
	if (box && cove_box_delete(box, &error))
		printf("# %s\n", error.message);
	cove_box_free(box);
	cove_close(cove);
	box = NULL;
	cove = NULL;
}

#define SAY(expr)                                                                                  \
	do {                                                                                       \
		if (!(expr)) {                                                                     \
			printf("# line %d: %s\n", __LINE__, #expr);                                \
			return false;                                                              \
		}                                                                                  \
	} while (0)
static bool is_wanted(const char *name, bool scaled)
{
	const char *only = getenv("COVE_STORY");

	return scaled == (getenv("COVE_SCALED") != NULL) && (!only || strcmp(only, name) == 0);
}

// A story in a box of its own. COVE_STORY names the only one that is wanted.
#define STORY_OF(fn, sentence, scaled)                                                             \
	static bool tell_##fn(void);                                                               \
	TEST(fn, sentence)                                                                         \
	{                                                                                          \
		bool good = !is_wanted(#fn, scaled) || (begin() && tell_##fn());                   \
		end();                                                                             \
		CHECK(good);                                                                       \
	}                                                                                          \
	static bool tell_##fn(void)
#define STORY(fn, sentence) STORY_OF(fn, sentence, false)
// One that waits for timers: for a cove that scales them (COVE_SCALED).
#define SCALED_STORY(fn, sentence) STORY_OF(fn, sentence, true)

STORY(by_name, "a sandbox is got or created by name, found, listed and deleted")
{
	struct cove_box *one = NULL, *two = NULL, *three = NULL;
	struct cove_box_spec spec = {.memory_mb = 64};
	struct cove_box_info info;
	bool same;

	SAY(fine(cove_box_ensure(cove, "story", &spec, &one, &error)));
	SAY(fine(cove_box_ensure(cove, "story", NULL, &two, &error)));
	same = strcmp(cove_box_id(one), cove_box_id(two)) == 0;
	SAY(same && fine(cove_box_find(cove, "story", &three, &error)));
	SAY(fine(cove_box_info(three, &info, &error)));
	SAY(!strcmp(info.name, "story") && !strcmp(info.state, "running") &&
	    strstr(info.json, "\"memoryMB\":64"));
	SAY(fine(cove_box_delete(one, &error)));
	SAY(cove_box_info(two, &info, &error) == COVE_NOT_FOUND && error.status == 404);
	cove_box_free(one);
	cove_box_free(two);
	cove_box_free(three);
	return true;
}

STORY(secrets, "a secret is set, a sandbox refers to it, and it is removed")
{
	static const char *const hosts[] = {"api.example.com", NULL}, *const names[] = {"TOKEN",
											NULL};
	struct cove_secret_spec secret = {.value = "some-value", .hosts = hosts, .header = "X-Key"};
	struct cove_box_spec spec = {.secrets = names};
	struct cove_output out = {0};
	struct cove_box *one = NULL;

	SAY(fine(cove_secret_set(cove, "TOKEN", &secret, &error)));
	secret.value = NULL;
	SAY(fine(cove_secret_set(cove, "TOKEN", &secret, &error)));
	SAY(fine(cove_box_create(cove, &spec, &one, &error)));
	SAY(fine(cove_exec_line(one, "printf %s \"${TOKEN%%-*}\"", &out, &error)));
	SAY(out.out && !strcmp(out.out, "cove"));
	cove_output_free(&out);
	SAY(fine(cove_box_delete(one, &error)));
	cove_box_free(one);
	SAY(fine(cove_secret_remove(cove, "TOKEN", &error)));
	return cove_secret_remove(cove, "TOKEN", &error) == COVE_NOT_FOUND;
}

STORY(volumes, "a volume outlives its sandbox, and is deleted when none has it")
{
	static const char *const rw[] = {"cache:/data", NULL}, *const ro[] = {"cache:/v:ro", NULL},
				 *const bad[] = {"cache", NULL};
	struct cove_box_spec spec = {.volumes = rw};
	struct cove_output out = {0};
	struct cove_box *one = NULL, *two = NULL, *none = NULL;

	SAY(fine(cove_volume_create(cove, "cache", 0, &error)));
	SAY(cove_volume_create(cove, "cache", 0, &error) == COVE_CONFLICT);
	SAY(fine(cove_box_create(cove, &spec, &one, &error)));
	SAY(fine(cove_exec_line(one, "echo kept >/data/f", &out, &error)));
	cove_output_free(&out);
	SAY(fine(cove_box_delete(one, &error)));
	cove_box_free(one);
	spec.volumes = ro;
	SAY(fine(cove_box_create(cove, &spec, &two, &error)));
	SAY(fine(cove_exec_line(two, "cat /v/f; touch /v/g || true", &out, &error)));
	SAY(out.out && !strcmp(out.out, "kept\n"));
	cove_output_free(&out);
	SAY(cove_volume_delete(cove, "cache", &error) == COVE_CONFLICT);
	SAY(fine(cove_box_delete(two, &error)));
	cove_box_free(two);
	spec.volumes = bad;
	SAY(cove_box_create(cove, &spec, &none, &error) == COVE_INVALID);
	SAY(fine(cove_volume_delete(cove, "cache", &error)));
	return cove_volume_delete(cove, "cache", &error) == COVE_NOT_FOUND;
}

static int count_usage(void *arg, const struct cove_usage *usage)
{
	*(bool *)arg |= usage->cpu_seconds > 0 && usage->requests == 0 && *usage->cost;
	return 0;
}

STORY(usage, "a sandbox has stats and usage, and a budget is set and removed")
{
	struct cove_budget_spec budget = {.label = "team=red", .daily = true, .requests = 7};
	struct cove_output out = {0};
	struct cove_stats stats;
	struct cove_box *one = NULL;
	bool used = false;

	SAY(fine(cove_box_create(cove, NULL, &one, &error)));
	SAY(fine(cove_exec_line(one, "i=0; while ((i++ < 20000)); do :; done", &out, &error)));
	cove_output_free(&out);
	SAY(fine(cove_box_stats(one, &stats, &error)));
	SAY(stats.epoch == 1 && stats.cpu_us > 0 && stats.memory > 0 && stats.pids > 0);
	SAY((stats.inodes < 0) == (stats.inode_limit < 0));
	SAY(fine(cove_usage(cove, NULL, NULL, NULL, count_usage, &used, &error)) && used);
	SAY(cove_usage(cove, "cheese", NULL, NULL, count_usage, &used, &error) == COVE_INVALID);
	SAY(fine(cove_box_delete(one, &error)));
	SAY(cove_box_stats(one, &stats, &error) == COVE_NOT_FOUND);
	cove_box_free(one);
	SAY(fine(cove_budget_set(cove, "reds", &budget, &error)));
	SAY(fine(cove_budget_remove(cove, "reds", &error)));
	budget.tenant = "both";
	SAY(cove_budget_set(cove, "reds", &budget, &error) == COVE_INVALID);
	return cove_budget_remove(cove, "reds", &error) == COVE_NOT_FOUND;
}

static int count_points(void *arg, const struct cove_point *point)
{
	int *seen = arg;

	if (strcmp(point->metric, "sandboxes") != 0 || !(point->covered > 0))
		return 0;
	*seen += point->step_ms > 0 && point->time_ms > 0 && point->max >= point->avg;
	return 0;
}

SCALED_STORY(host, "the host has stats and a history")
{
	static const char *const metrics[] = {"sandboxes", NULL};
	struct cove_history_query query = {.metrics = metrics};
	struct cove_host_stats stats;
	int seen = 0;

	SAY(fine(cove_stats(cove, &stats, &error)));
	SAY(stats.running == 1 && stats.memory_available > 0 && stats.disk_free > 0);
	for (int i = 0; i < 600 && !seen; i++) { // a point is of ten seconds
		SAY(fine(cove_history(cove, &query, count_points, &seen, &error)));
		usleep(seen ? 0 : 100000);
	}
	SAY(seen);
	query.scope = "moon";
	return cove_history(cove, &query, count_points, &seen, &error) == COVE_INVALID;
}

static int look_for_alert(void *arg, const struct cove_alert *alert)
{
	struct cove_alert *want = arg;

	if (strcmp(alert->id, want->id) != 0)
		return 0;
	want->value = alert->value;
	want->silenced_until = *alert->silenced_until ? "later" : "";
	want->acknowledged_by = *alert->acknowledged_by ? "somebody" : "";
	return strcmp(alert->severity, "warning") == 0;
}

SCALED_STORY(alerts, "an alert fires, is acknowledged, silenced and resolved")
{
	struct cove_alert many = {.id = "sandboxes_many"};
	struct cove_alert_rule rule = {.threshold = &(double){0}, .for_seconds = &(uint64_t){0}};
	enum cove_kind kind = COVE_OK;

	SAY(fine(cove_alert_rule_set(cove, many.id, &rule, &error)));
	for (int i = 0; i < 600 && kind == COVE_OK; i++) { // evaluated every 15 s
		kind = cove_alerts(cove, "firing", look_for_alert, &many, &error);
		usleep(kind ? 0 : 100000);
	}
	SAY(kind == COVE_CANCELLED && many.value >= 1);
	SAY(fine(cove_alert_acknowledge(cove, many.id, &error)));
	SAY(fine(cove_alert_silence(cove, many.id, 3600, "known", &error)));
	SAY(cove_alerts(cove, NULL, look_for_alert, &many, &error) == COVE_CANCELLED);
	SAY(*many.silenced_until && *many.acknowledged_by);
	SAY(fine(cove_alert_silence(cove, many.id, 0, NULL, &error)));
	SAY(cove_alerts(cove, NULL, look_for_alert, &many, &error) == COVE_CANCELLED);
	SAY(!*many.silenced_until);
	rule = (struct cove_alert_rule){.enabled = &(bool){false}};
	SAY(fine(cove_alert_rule_set(cove, many.id, &rule, &error)));
	rule.enabled = &(bool){true};
	rule.threshold = &(double){50};
	SAY(fine(cove_alert_rule_set(cove, many.id, &rule, &error)));
	SAY(cove_alert_rule_set(cove, "no_such", &rule, &error) == COVE_NOT_FOUND);
	SAY(cove_alert_acknowledge(cove, "no_such", &error) == COVE_NOT_FOUND);
	return cove_alert_test(cove, "no_such", &error) == COVE_NOT_FOUND;
}

STORY(statuses, "statuses and endings are told as they are")
{
	static const struct {
		const char *line;
		int code, signal;
	} rows[] = {{"true", 0, 0}, {"exit 3", 3, 0}, {"kill -9 $$", 137, 9}};
	const char *const none[] = {"nonesuch", NULL};
	struct cove_command command = {.argv = none};
	struct cove_output out = {0};

	for (size_t i = 0; i < 3; i++) {
		SAY(fine(cove_exec_line(box, rows[i].line, &out, &error)));
		SAY(out.result.exit_code == rows[i].code && out.result.signal == rows[i].signal);
		cove_output_free(&out);
	}
	SAY(cove_exec_output(box, &command, &out, &error) == COVE_NOT_FOUND);
	SAY(!strcmp(error.code, "COMMAND_NOT_FOUND") && *error.hint);
	command = (struct cove_command){.line = "sleep 30", .timeout_ms = 200};
	SAY(fine(cove_exec_output(box, &command, &out, &error)));
	SAY(out.result.exit_code == 124 && !strcmp(out.result.ended, "wall_limit"));
	cove_output_free(&out);
	return true;
}

STORY(one_form, "a time-out and a missing directory are told in one form, in a session and without")
{
	struct cove_session *session = cove_session_at(box, "forms");
	struct cove_command late = {.line = "echo before; sleep 30", .timeout_ms = 300};
	struct cove_command away = {.line = "true", .cwd = "/nowhere"};
	struct cove_output one = {0}, two = {0};
	struct cove_error other;

	SAY(fine(cove_exec_output(box, &late, &one, &error)));
	SAY(fine(cove_session_exec(session, &late, &two, &error)));
	SAY(one.result.exit_code == 124 && two.result.exit_code == 124);
	SAY(!strcmp(one.result.ended, "wall_limit") && !strcmp(two.result.ended, "wall_limit"));
	SAY(!strcmp(one.err, "Command timed out after 300ms") && !strcmp(one.err, two.err));
	SAY(strstr(one.out, "before") && strstr(two.out, "before"));
	cove_output_free(&one);
	cove_output_free(&two);
	SAY(cove_exec_output(box, &away, &one, &error) == COVE_INVALID);
	SAY(cove_session_exec(session, &away, &one, &other) == COVE_INVALID);
	SAY(!strcmp(error.reason, "no_cwd") && !strcmp(other.reason, "no_cwd"));
	SAY(!strcmp(error.message, other.message) && error.status == other.status);
	cove_session_free(session);
	return true;
}

STORY(every_byte, "every byte of input and output arrives, stdout and stderr apart")
{
	char bytes[256 * 64];
	struct cove_command command = {
		.line = "tee /dev/stderr", .input = bytes, .input_len = sizeof(bytes)};
	struct cove_output out = {0};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7);
	SAY(fine(cove_exec_output(box, &command, &out, &error)));
	SAY(out.out_len == sizeof(bytes) && !memcmp(out.out, bytes, sizeof(bytes)));
	SAY(out.err_len == sizeof(bytes) && !memcmp(out.err, bytes, sizeof(bytes)));
	cove_output_free(&out);
	return true;
}

static uint64_t sum_of(const void *bytes, size_t len, uint64_t sum)
{
	for (size_t i = 0; i < len; i++)
		sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
	return sum;
}

STORY(streamed, "a long stream is the same over and over, however often the connection breaks")
{
	int runs = is_flaky() ? 20 : 3;
	uint64_t want = 0;

	for (int i = 0; i < runs; i++) {
		struct cove_output out = {0};
		uint64_t sum;

		SAY(fine(cove_exec_line(box, "seq 1 20000; seq 1 5000 >&2; exit 9", &out, &error)));
		sum = sum_of(out.err, out.err_len, sum_of(out.out, out.out_len, 1));
		SAY(out.result.exit_code == 9 && out.out_len == 108894 && out.err_len == 23893);
		SAY(i == 0 || sum == want);
		want = sum;
		cove_output_free(&out);
	}
	return true;
}

STORY(process, "a process is started, fed, read, signalled, listed and waited for")
{
	struct cove_process_options options = {
		.command.line = "while read x; do echo got $x; done; "
				"exit 6",
		.open_stdin = true};
	struct cove_process *process = NULL;
	struct cove_process_info info;
	struct cove_result result;
	char *line = NULL;

	SAY(fine(cove_process_start(box, &options, &process, &error)));
	SAY(fine(cove_process_write(process, "a\nb\n", 4, &error)));
	SAY(fine(cove_process_wait_log(process, "got b$", 10000, &line, &error)));
	SAY(line && !strcmp(line, "got b"));
	cove_free(line);
	SAY(cove_process_wait(process, 50, &result, &error) == COVE_TIMEOUT);
	SAY(fine(cove_process_info(process, &info, &error)) && !info.ended && info.pid > 0);
	SAY(fine(cove_process_close_stdin(process, &error)));
	SAY(fine(cove_process_wait(process, 10000, &result, &error)) && result.exit_code == 6);
	SAY(cove_process_wait_log(process, "never", 10000, NULL, &error) == COVE_GONE);
	cove_process_free(process);
	options = (struct cove_process_options){.command.line = "sleep 100 & sleep 100; wait"};
	SAY(fine(cove_process_start(box, &options, &process, &error)));
	SAY(fine(cove_process_signal(process, SIGKILL, &error)));
	SAY(fine(cove_process_wait(process, 10000, &result, &error)) && result.exit_code == 137);
	cove_process_free(process);
	return true;
}

STORY(session, "a session keeps its state, and is gone when it is deleted")
{
	struct cove_session_options options = {.id = "s1", .cwd = "/tmp"};
	struct cove_command command = {.line = "A=1; f() { echo f$A; }; cd /usr"};
	struct cove_session *session = NULL;
	struct cove_output out = {0};

	SAY(fine(cove_session_create(box, &options, &session, &error)));
	SAY(fine(cove_session_exec(session, &command, &out, &error)));
	cove_output_free(&out);
	command.line = "f; pwd; false";
	SAY(fine(cove_session_exec(session, &command, &out, &error)));
	SAY(!strcmp(out.out, "f1\n/usr") && out.result.exit_code == 1);
	cove_output_free(&out);
	SAY(cove_session_create(box, &options, &session, &error) == COVE_CONFLICT);
	SAY(fine(cove_session_delete(session, &error)));
	cove_session_free(session);
	return true;
}

static int count_entry(void *arg, const struct cove_entry *entry)
{
	*(int *)arg += !strcmp(entry->type, "file") && entry->size == 3;
	return 0;
}

STORY(files, "files are written, read, listed, renamed and removed, and failures have their kinds")
{
	int count = 0;
	bool there = true;
	char *bytes = NULL;
	size_t len = 0;
	struct cove_file *file = NULL;

	SAY(fine(cove_write_file(box, "d/one", "on\0", 3, &error)));
	SAY(fine(cove_write_file(box, "/workspace/d/two words", "two", 3, &error)));
	SAY(fine(cove_read_file(box, "d/one", &bytes, &len, &error)));
	SAY(len == 3 && !memcmp(bytes, "on\0", 3));
	cove_free(bytes);
	SAY(fine(cove_list(box, "d", false, false, count_entry, &count, &error)) && count == 2);
	SAY(fine(cove_stat(box, "d/two words", count_entry, &count, &error)) && count == 3);
	SAY(fine(cove_rename(box, "d/one", "d/uno", &error)));
	SAY(fine(cove_exists(box, "d/one", &there, &error)) && !there);
	SAY(fine(cove_chmod(box, "d/uno", 0600, &error)));
	SAY(cove_read_file(box, "d/one", &bytes, &len, &error) == COVE_NOT_FOUND);
	SAY(!strcmp(error.code, "FILE_NOT_FOUND"));
	SAY(cove_remove(box, "d", false, &error) == COVE_INVALID);
	SAY(fine(cove_file_create(box, "d/uno", 0, &file, &error))); // never committed
	SAY(fine(cove_file_write(file, "half", 4, &error)));
	cove_file_free(file);
	SAY(fine(cove_read_file(box, "d/uno", &bytes, &len, &error)) && len == 3);
	cove_free(bytes);
	SAY(fine(cove_remove(box, "d", true, &error)));
	SAY(cove_mkdir(box, "/a/b/c", false, &error) != COVE_OK);
	SAY(fine(cove_mkdir(box, "/a/b/c", true, &error)));
	return true;
}

static int find_odd(void *arg, const struct cove_entry *entry)
{
	*(bool *)arg |= !strcmp(entry->name, "b\xff") && !strcmp(entry->relative, "a\xfe/b\xff");
	return 0;
}

STORY(odd_names, "names that are no text are bytes, wherever they go")
{
	bool found = false, there = false;
	char *bytes = NULL;
	size_t len = 0;

	SAY(fine(cove_write_file(box, "d/a\xfe/b\xff", "odd", 3, &error)));
	SAY(fine(cove_exists(box, "d/a\xfe/b\xff", &there, &error)) && there);
	SAY(fine(cove_list(box, "d", true, false, find_odd, &found, &error)) && found);
	SAY(fine(cove_rename(box, "d/a\xfe/b\xff", "d/c\xfd", &error)));
	SAY(fine(cove_read_file(box, "/workspace/d/c\xfd", &bytes, &len, &error)) && len == 3);
	cove_free(bytes);
	SAY(fine(cove_remove(box, "d/c\xfd", false, &error)));
	return true;
}

STORY(large, "a large file in pieces is the same when it comes back, and from an offset on")
{
	static char piece[100000];
	struct cove_file *file = NULL;
	uint64_t sent = 1, got = 1, bytes = 0;
	size_t len = 1;

	SAY(fine(cove_file_create(box, "big", 0640, &file, &error)));
	for (int i = 0; i < 200; i++) {
		memset(piece, i, sizeof(piece));
		sent = sum_of(piece, sizeof(piece), sent);
		SAY(fine(cove_file_write(file, piece, sizeof(piece), &error)));
	}
	SAY(fine(cove_file_commit(file, &error)));
	cove_file_free(file);
	SAY(fine(cove_file_open(box, "big", 0, &file, &error)));
	SAY(cove_file_size(file) == 200 * sizeof(piece));
	while (len > 0) {
		SAY(fine(cove_file_read(file, piece, sizeof(piece), &len, &error)));
		got = sum_of(piece, len, got);
		bytes += len;
	}
	cove_file_free(file);
	SAY(bytes == 200 * sizeof(piece) && got == sent);
	SAY(fine(cove_file_open(box, "big", bytes - 10, &file, &error)));
	SAY(fine(cove_file_read(file, piece, sizeof(piece), &len, &error)));
	SAY(len == 10 && piece[0] == (char)199);
	cove_file_free(file);
	return true;
}

STORY(watch, "what changes in a watched directory is told")
{
	struct cove_watch_options options = {.path = "/workspace"};
	struct cove_watch_event event = {0};
	struct cove_watch *watch = NULL;

	SAY(fine(cove_watch_open(box, &options, &watch, &error)));
	SAY(cove_watch_next(watch, 50, &event, &error) == COVE_TIMEOUT);
	SAY(fine(cove_write_file(box, "new", "x", 1, &error)));
	do {
		SAY(fine(cove_watch_next(watch, 5000, &event, &error)));
	} while (strcmp(event.path, "/workspace/new") != 0);
	cove_watch_close(watch);
	return true;
}

// Reads until the text has come.
static bool see(struct cove_terminal *terminal, const char *want)
{
	char room[8192] = "";
	size_t len = 0, n = 1;

	while (n > 0 && len < sizeof(room) - 1 && !strstr(room, want)) {
		SAY(fine(cove_terminal_read(terminal, room + len, sizeof(room) - 1 - len, 5000, &n,
					    &error)));
		len += n;
		room[len] = 0;
	}
	SAY(strstr(room, want));
	return true;
}

STORY(terminal, "a terminal has a size, outlives its connection, and ends with a code")
{
	const char *const argv[] = {"bash", "--norc", NULL};
	struct cove_terminal_options options = {.argv = argv, .cols = 91, .rows = 17};
	struct cove_terminal *terminal = NULL;
	struct cove_file *cast = NULL;
	char room[256];
	size_t len = 1;
	int code = 0;

	SAY(fine(cove_terminal_open(box, &options, &terminal, &error)));
	SAY(fine(cove_terminal_write(terminal, "stty size; x=4\r", 15, &error)));
	SAY(see(terminal, "17 91"));
	SAY(fine(cove_terminal_resize(terminal, 40, 10, &error)));
	SAY(fine(cove_terminal_reattach(terminal, &error)));
	SAY(see(terminal, "17 91")); // shown again
	SAY(fine(cove_terminal_write(terminal, "stty size; echo x$x\r", 20, &error)));
	SAY(see(terminal, "x4"));
	SAY(fine(cove_terminal_cast(box, cove_terminal_id(terminal), &cast, &error)));
	SAY(fine(cove_file_read(cast, room, sizeof(room), &len, &error)));
	SAY(len > 2 && !memcmp(room, "{\"", 2));
	cove_file_free(cast);
	SAY(fine(cove_terminal_write(terminal, "exit 7\r", 7, &error)));
	while (len > 0)
		SAY(fine(cove_terminal_read(terminal, room, sizeof(room), 5000, &len, &error)));
	SAY(cove_terminal_ended(terminal, &code) && code == 7);
	cove_terminal_close(terminal);
	return true;
}

static int see_port(void *arg, const struct cove_port_info *info)
{
	if (info->port == 8123 && info->exposed)
		snprintf(arg, 512, "%s|%s|%d", info->name, info->url, info->listening);
	return 0;
}

STORY(ports, "a port that opens is waited for, exposed at a real address, listed and hidden again")
{
	struct cove_process_options options = {
		.command.line = "sleep 0.3; exec python3 -m http.server 8123"};
	struct cove_port_wait wait = {.port = 8123, .timeout_ms = 20000};
	struct cove_port_options named = {.name = "web", .token = "abc_1", .expires_ms = 60000};
	struct cove_process *process = NULL;
	char seen[512] = "", want[512];
	char *url = NULL;

	SAY(fine(cove_process_start(box, &options, &process, &error)));
	SAY(fine(cove_port_ready(box, &wait, process, &error)));
	SAY(fine(cove_port_expose(box, 8123, &named, &url, &error)));
	SAY(!strncmp(url, "http", 4) && strstr(url, "abc_1"));
	SAY(fine(cove_port_list(box, see_port, seen, &error)));
	snprintf(want, sizeof(want), "web|%s|1", url);
	SAY(!strcmp(seen, want));
	SAY(fine(cove_port_unexpose(box, 8123, &error)));
	SAY(fine(cove_port_expose(box, 8123, NULL, NULL, &error)));
	SAY(fine(cove_port_unexpose(box, 8123, &error)));
	SAY(fine(cove_process_kill(process, &error)));
	wait = (struct cove_port_wait){.port = 8124, .timeout_ms = 300};
	SAY(cove_port_ready(box, &wait, NULL, &error) == COVE_TIMEOUT);
	cove_process_free(process);
	cove_free(url);
	return true;
}

static int join_text(void *arg, const char *json)
{
	strncat(arg, json, 4095 - strlen(arg));
	return 0;
}

STORY(code, "cells keep the state of their context, which is interrupted and deleted")
{
	struct cove_code cell = {.code = "x = 6 * 7"};
	char told[4096] = "";
	char *context = NULL;
	bool failed = true;

	SAY(fine(cove_code_context(box, "python", "/tmp", NULL, &context, &error)));
	cell.context = context;
	SAY(fine(cove_code_run(box, &cell, NULL, NULL, &failed, &error)) && !failed);
	cell.code = "print('cell says', x)";
	SAY(fine(cove_code_run(box, &cell, join_text, told, &failed, &error)) && !failed);
	SAY(strstr(told, "cell says 42") && strstr(told, "execution_complete"));
	cell.code = "1 / 0";
	SAY(fine(cove_code_run(box, &cell, NULL, NULL, &failed, &error)) && failed);
	SAY(fine(cove_code_interrupt(box, context, &error)));
	SAY(fine(cove_code_delete(box, context, &error)));
	SAY(cove_code_run(box, &cell, NULL, NULL, &failed, &error) == COVE_NOT_FOUND);
	cove_free(context);
	return true;
}

STORY(git, "a repository is cloned, and one that is not there is refused")
{
	struct cove_git_clone clone = {.url = "file:///workspace/src",
				       .directory = "/workspace/copy"};
	struct cove_output out = {0};
	bool there = false;

	SAY(fine(cove_exec_line(
		box,
		"command -v git && git init -q src && cd src && echo a > a && git add a && "
		"git -c user.name=a -c user.email=a@b.c commit -qm a",
		&out, &error)));
	cove_output_free(&out);
	if (out.result.exit_code) // no git in the template
		return true;
	SAY(fine(cove_git_clone(box, &clone, &error)));
	SAY(fine(cove_exists(box, "/workspace/copy/a", &there, &error)) && there);
	clone = (struct cove_git_clone){.url = "file:///nowhere/at/all"};
	SAY(cove_git_clone(box, &clone, &error) != COVE_OK);
	return true;
}

STORY(limits, "limits of a sandbox change while it runs, and one that cannot be kept is refused")
{
	struct cove_box_spec limits = {.memory_mb = 321, .pids = 123};
	struct cove_box_info info;

	SAY(fine(cove_box_limit(box, &limits, &error)));
	SAY(fine(cove_box_info(box, &info, &error)) && strstr(info.json, "321") &&
	    strstr(info.json, "123"));
	limits = (struct cove_box_spec){.memory_mb = 1};
	SAY(cove_box_limit(box, &limits, &error) == COVE_INVALID);
	return true;
}

STORY(network, "the network policy is replaced, and the change is an event that a stream tells")
{
	static const char *const names[] = {"example.com", NULL};
	struct cove_network network = {.mode = "allow", .allow = names};
	struct cove_events *events = NULL;
	char path[256], told[4096] = "";
	struct cove_box_info info;
	struct cove_event event;

	SAY(fine(cove_box_network(box, &network, &error)));
	SAY(fine(cove_box_info(box, &info, &error)) && strstr(info.json, "example.com"));
	snprintf(path, sizeof(path), "/v1/events?after=0&limit=1&sandbox=%s", info.id);
	SAY(fine(cove_items(cove, path, join_text, told, &error)) && strstr(told, info.id));
	snprintf(path, sizeof(path), "/v1/events?sandbox=%s", info.id);
	SAY(fine(cove_events_open(cove, path, "0", &events, &error)));
	SAY(fine(cove_events_next(events, 30000, &event, &error)));
	SAY(event.id[0] >= '1' && event.id[0] <= '9' && !strncmp(event.type, "sandbox.", 8) &&
	    strstr(event.json, info.id));
	SAY(cove_events_fd(events) >= 0);
	while (!cove_events_next(events, 500, &event, &error))
		;
	SAY(error.kind == COVE_TIMEOUT);
	cove_events_close(events);
	return true;
}

static int take_out(void *arg, const void *bytes, size_t len)
{
	strncat(arg, bytes, len);
	return 0;
}

STORY(execution,
      "an execution is submitted, followed, read when its sandbox is gone, repeated, removed")
{
	static const char *const globs[] = {"out/**", NULL}, *const labels[] = {"team=a", NULL};
	struct cove_execution_file file = {.path = "data/in", .bytes = "a\0b", .len = 3};
	struct cove_execution_spec spec = {
		.task_id = "story",
		.agent_type = "VALIDATION",
		.line = "wc -c < data/in; cat \"$COVE_CONTEXT\" >&2; mkdir out; cp data/in out/x; "
			"exit 3",
		.context = "{\"n\": 12345678901234567890}",
		.files = &file,
		.file_count = 1,
		.artifacts = globs,
		.labels = labels,
		.memory_mb = 64,
		.wall_time_ms = 60000,
	};
	char out[256] = "", listed[4096] = "", room[16], path[256];
	struct cove_sink sink = {.on_stdout = take_out, .arg = out};
	struct cove_execution *execution = NULL, *again = NULL;
	struct cove_execution_info info;
	struct cove_events *events = NULL;
	struct cove_file *artifact = NULL;
	struct cove_event event;
	char *diff = NULL;
	size_t len = 0;

	SAY(fine(cove_execution_submit(cove, &spec, &execution, &error)));
	SAY(fine(cove_execution_logs(execution, 0, true, &sink, &error)));
	SAY(!strcmp(out, "3\n"));
	SAY(fine(cove_execution_wait(execution, "done", -1, &info, &error)));
	SAY(info.ended && !strcmp(info.state, "failed") && !strcmp(info.outcome, "exit_nonzero"));
	SAY(info.exit_code == 3 && !strcmp(info.task_id, "story") && strstr(info.json, "\"team\""));
	*out = 0;
	sink = (struct cove_sink){.on_stderr = take_out, .arg = out};
	SAY(fine(cove_execution_logs(execution, 1, false, &sink, &error)));
	SAY(!strcmp(out, spec.context));
	SAY(fine(cove_execution_artifacts(execution, join_text, listed, &error)));
	SAY(strstr(listed, "out/x") && strstr(listed, "sha256"));
	SAY(fine(cove_execution_artifact(execution, "out/x", 1, &artifact, &error)));
	SAY(fine(cove_file_read(artifact, room, sizeof(room), &len, &error)));
	SAY(len == 2 && !memcmp(room, "\0b", 2));
	cove_file_free(artifact);
	artifact = NULL;
	SAY(cove_execution_artifact(execution, "nothing", 0, &artifact, &error) == COVE_NOT_FOUND);
	snprintf(path, sizeof(path), "/v1/executions/%s/events", info.id);
	SAY(fine(cove_events_open(cove, path, NULL, &events, &error)));
	SAY(fine(cove_events_next(events, 30000, &event, &error)) && !strcmp(event.type, "state"));
	while (!cove_events_next(events, 30000, &event, &error))
		;
	SAY(error.kind == COVE_GONE);
	cove_events_close(events);

	SAY(fine(cove_execution_cast(execution, &artifact, &error)));
	SAY(fine(cove_file_read(artifact, room, sizeof(room), &len, &error)));
	SAY(len > 2 && !memcmp(room, "{\"", 2));
	cove_file_free(artifact);
	artifact = NULL;
	SAY(fine(cove_execution_suggestion(execution, &diff, &error)) && *diff == '{');
	cove_free(diff);
	diff = NULL;
	SAY(fine(cove_execution_replay(execution, &again, &error)));
	SAY(fine(cove_execution_wait(again, "done", -1, &info, &error)) && info.exit_code == 3);
	SAY(fine(cove_execution_diff(execution, cove_execution_id(again), &diff, &error)) &&
	    *diff == '{');
	cove_free(diff);
	SAY(fine(cove_execution_delete(again, &error)));
	SAY(cove_execution_info(again, &info, &error) == COVE_NOT_FOUND);
	cove_execution_free(again);
	SAY(fine(cove_execution_retry(execution, &again, &error)));
	SAY(cove_execution_delete(again, &error) == COVE_CONFLICT ||
	    fine(cove_execution_wait(again, "done", -1, NULL, &error)));
	cove_execution_free(again);
	cove_execution_free(execution);
	return true;
}

STORY(steps, "an execution without a command is driven step by step, and ended by its client")
{
	struct cove_command command = {.line = "echo in; exit 4"};
	struct cove_execution_spec spec = {.agent_type = "VALIDATION"};
	struct cove_execution *execution = NULL;
	struct cove_execution_info info;
	struct cove_output out = {0};

	SAY(fine(cove_execution_submit(cove, &spec, &execution, &error)));
	SAY(fine(cove_execution_wait(execution, "ready", 60000, &info, &error)));
	SAY(cove_execution_wait(execution, "done", 200, &info, &error) == COVE_TIMEOUT);
	SAY(fine(cove_execution_exec(execution, &command, &out, &error)));
	SAY(out.result.exit_code == 4 && !strcmp(out.out, "in\n"));
	cove_output_free(&out);
	SAY(fine(cove_execution_complete(execution, "{\"passed\": 1}", &error)));
	SAY(fine(cove_execution_wait(execution, "done", 60000, &info, &error)));
	SAY(!strcmp(info.state, "completed") && strstr(info.json, "passed"));
	SAY(cove_execution_fail(execution, "late", &error) == COVE_CONFLICT);
	cove_execution_free(execution);
	execution = NULL;
	SAY(fine(cove_execution_submit(cove, &spec, &execution, &error)));
	SAY(fine(cove_execution_cancel(execution, &error)));
	SAY(fine(cove_execution_wait(execution, "done", 60000, &info, &error)));
	SAY(!strcmp(info.outcome, "cancelled"));
	cove_execution_free(execution);
	spec.agent_type = "NOPE";
	SAY(cove_execution_submit(cove, &spec, &execution, &error) == COVE_INVALID);
	return true;
}

STORY(agent, "an agent session takes a run, tells its events, and ends")
{
	const char *const argv[] = {"python3", "-c", getenv("COVE_RUNNER"), NULL};
	struct cove_agent_spec spec = {.user = "story", .argv = argv};
	char *json = NULL, *run = NULL, *log = NULL;
	struct cove_events *events = NULL;
	struct cove_agent *agent = NULL;
	struct cove_event event;

	if (!argv[2])
		return true;
	SAY(fine(cove_agent_create(cove, &spec, &agent, &error)));
	SAY(fine(cove_agent_run(agent, "{\"command\": \"echo from the runner\"}", 60000, &run,
				&error)));
	SAY(fine(cove_agent_events(agent, run, NULL, &events, &error)));
	do
		SAY(fine(cove_events_next(events, 60000, &event, &error)));
	while (strcmp(event.type, "end") != 0);
	SAY(strstr(event.json, "completed"));
	SAY(cove_events_next(events, 60000, &event, &error) == COVE_GONE);
	cove_events_close(events);
	SAY(fine(cove_agent_info(agent, run, &json, &error)) && strstr(json, "completed"));
	cove_free(json);
	SAY(fine(cove_agent_info(agent, NULL, &json, &error)) &&
	    strstr(json, cove_agent_id(agent)));
	cove_free(json);
	SAY(fine(cove_agent_logs(agent, &log, &error)));
	cove_free(log);
	SAY(cove_agent_answer(agent, NULL, "1", &error) != COVE_OK);
	SAY(cove_agent_interrupt(agent, &error) != COVE_INTERNAL);
	SAY(fine(cove_agent_delete(agent, &error)));
	cove_agent_free(agent);
	cove_free(run);
	return true;
}

static void *cancel_soon(void *arg)
{
	usleep(200000);
	cove_cancel(arg);
	return NULL;
}

static int count_running(void *arg, const struct cove_process_info *info)
{
	*(int *)arg += !info->ended;
	return 0;
}

STORY(cancelled, "a cancelled command is killed, and the client is as good as before")
{
	pthread_t thread;
	struct cove_output out = {0};
	int running = 0;

	pthread_create(&thread, NULL, cancel_soon, cove);
	SAY(cove_exec_line(box, "sleep 100", &out, &error) == COVE_CANCELLED);
	pthread_join(thread, NULL);
	SAY(fine(cove_process_list(box, count_running, &running, &error)) && running == 0);
	SAY(fine(cove_exec_line(box, "echo ok", &out, &error)) && !strcmp(out.out, "ok\n"));
	cove_output_free(&out);
	return true;
}

static void *work(void *arg)
{
	struct cove *own = NULL;
	struct cove_box *mine;
	long done = 0;

	if (cove_open(NULL, &own, NULL))
		return NULL;
	mine = cove_box_at(own, arg);
	for (int i = 0; i < 25; i++) {
		struct cove_output out = {0};

		if (cove_exec_line(mine, "echo $((6*7))", &out, NULL) == COVE_OK)
			done += !strcmp(out.out, "42\n");
		cove_output_free(&out);
	}
	cove_box_free(mine);
	cove_close(own);
	return (void *)done;
}

STORY(threads, "several clients in several threads do not disturb each other")
{
	pthread_t threads[4];
	long done = 0;

	for (int i = 0; i < 4; i++)
		SAY(!pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)cove_box_id(box)));
	for (int i = 0; i < 4; i++) {
		void *one = NULL;

		pthread_join(threads[i], &one);
		done += (long)one;
	}
	SAY(done == 100);
	return true;
}
