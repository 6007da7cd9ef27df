// The verbs sync in, out, status and gc: a worktree of this host and the sandbox that belongs to
// it. A sandbox is found by its name, a hash of this machine and of the real path, which the server
// keeps unique. The server keeps the manifest of the last sync; nothing is kept on this host. A
// lock on the worktree's directory lets one sync run at a time.
//
// Events are lines "[sandbox:EVENT] …" on stderr, or objects on stdout with --json.
#include "cli/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/agent_config.h"
#include "cli/body.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/provider.h"
#include "cli/status.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "os/fd.h"
#include "sync/apply.h"
#include "sync/scan.h"

#define FILE_MAX_DEFAULT (100ull << 20)
#define FILES_MAX_DEFAULT 200000
#define TEXT_MAX ((size_t)1 << 20)
#define RETRY_MS 250 // before the second try; doubled before each further one

static void sync_forget(struct sync *sync)
{
	sync_state_done(&sync->state);
	file_list_done(&sync->host);
	file_list_done(&sync->found);
	fd_drop(&sync->to.spool);
	sync->to.spooled = 0;
}

void sync_done(struct sync *sync)
{
	sync_forget(sync);
	sync_box_done(&sync->to);
	free(sync->to.api);
	free(sync->to.name);
	free(sync->to.email);
	remote_close(&sync->remote);
	free(sync->path);
	fd_drop(&sync->root);
}

// ------------------------------------------------------------------------------------- events

void sync_put_path(struct json_out *out, const char *path)
{
	auto_buf coded = BUF_INIT(2 * FILE_LIST_PATH_MAX);

	if (text_is_utf8(str_of(path))) {
		json_put_text(out, "path", path);
		return;
	}
	text_base64(&coded, path, strlen(path));
	json_put_str(out, "pathBase64", buf_view(&coded));
}

void sync_tell(const struct sync *sync, const char *event, const char *key, const char *text)
{
	auto_buf line = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&line);

	if (sync->is_silent)
		return;
	if (call_has(sync->call, OPT_JSON)) {
		json_begin(&out, '{');
		json_put_text(&out, "event", event);
		if (!strcmp(key, "path"))
			sync_put_path(&out, text);
		else
			json_put_text(&out, key, text);
		json_end(&out, '}');
		print_json_line(buf_view(&line));
		fflush(stdout);
		return;
	}
	if (call_has(sync->call, OPT_QUIET))
		return;
	print_escape(str_of(text), &line);
	fprintf(stderr, "[sandbox:%s] %s\n", event, line.at ? line.at : "");
}

bool sync_tell_counts(const struct sync *sync)
{
	if (call_has(sync->call, OPT_JSON))
		return false;
	if (!call_has(sync->call, OPT_QUIET))
		fprintf(stderr, "[sandbox:done] files_changed=%zu files_deleted=%zu\n",
			sync->changed, sync->deleted);
	return true;
}

static void sync_tell_done(const struct sync *sync)
{
	auto_buf line = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&line);

	if (sync_tell_counts(sync))
		return;
	json_begin(&out, '{');
	json_put_text(&out, "event", "done");
	json_put_text(&out, "sandbox", sync->to.id);
	json_put_int(&out, "filesChanged", (int64_t)sync->changed);
	json_put_int(&out, "filesDeleted", (int64_t)sync->deleted);
	json_end(&out, '}');
	print_json_line(buf_view(&line));
}

static void sync_on_note(void *arg, const char *what, const char *text)
{
	const struct sync *sync = arg;

	sync_tell(sync, what, !strcmp(what, "no_base_commit") ? "message" : "path", text);
}

static void sync_on_scan(void *arg, enum scan_note note, const char *path)
{
	const struct sync *sync = arg;

	sync_tell(sync, note == SCAN_SPECIAL ? "special" : "nested_repository", "path", path);
}

// ------------------------------------------------------------------------------------ retries

// How often a step is tried that fails so. Errors of the request are final. `queued`: a quota that
// is used up may become free.
static int sync_tries(const struct err *err, bool queued)
{
	static const struct {
		const char *reason;
		int tries;
	} lost[] = {{"no_server", 4},
		    {"peer_gone", 2},
		    {"cut_body", 2},
		    {"cut_stream", 2},
		    {"closed", 2}};

	for (size_t i = 0; i < sizeof(lost) / sizeof(*lost); i++)
		if (!strcmp(err_reason(err), lost[i].reason))
			return lost[i].tries;
	switch (err_kind(err)) {
	case ERR_UNAVAILABLE:
		return 4;
	case ERR_TIMEOUT:
		return 2;
	case ERR_EXHAUSTED:
		return queued ? 6 : 1;
	default:
		return 1;
	}
}

typedef fallible sync_step_fn(struct sync *sync, void *arg);

// Calls a step that may be repeated. Each further try is told with the error before it.
static fallible sync_try(struct sync *sync, sync_step_fn *step, void *arg, bool queued)
{
	for (int tried = 1;; tried++) {
		struct err *err = step(sync, arg);
		struct pollfd wait = {.fd = interrupt_fd(), .events = POLLIN};

		if (!err || tried >= sync_tries(err, queued) || interrupt_signal())
			return err;
		sync_tell(sync, "retry", "message", err_message(err));
		err_free(err);
		poll(&wait, 1, RETRY_MS << (tried - 1));
	}
}

// ----------------------------------------------------------------------------------- identity

static void sync_hash(const char *const parts[], size_t count, char out[SHA256_HEX + 1])
{
	struct sha256 hash;

	sha256_begin(&hash);
	for (size_t i = 0; i < count; i++)
		sha256_add(&hash, parts[i], strlen(parts[i]) + 1);
	sha256_end(&hash, out);
}

// The machine's id; where there is none, its host name.
static void sync_set_machine(struct sync *sync)
{
	char text[256] = "";
	const char *parts[] = {"cove worktree", text};

	if (fd_get(AT_FDCWD, "/etc/machine-id", text, sizeof(text)) <= 0)
		gethostname(text, sizeof(text) - 1);
	text[strcspn(text, "\r\n")] = 0;
	sync_hash(parts, 2, sync->machine);
}

// The path or a parent of it, by components.
static bool is_beneath(const char *path, struct str root)
{
	while (root.len > 1 && root.at[root.len - 1] == '/')
		root.len--;
	return root.len && !strncmp(path, root.at, root.len) &&
	       (path[root.len] == '/' || !path[root.len]);
}

static fallible sync_check_root(const char *path)
{
	auto_free char *configured = NULL;
	const char *roots = getenv("COVE_AGENT_ROOTS");
	struct str rest, root;

	if (!strcmp(path, "/"))
		return err_hint(err_new(FORBIDDEN, "not_allowed_root",
					"the root directory cannot be a worktree"),
				"--worktree DIR names another one");
	if (!roots)
		TRY(agent_config_roots(&configured));
	rest = str_of(roots ? roots : configured ? configured : "");
	if (!rest.len)
		return OK;
	while (rest.len && str_cut(&rest, ':', &root)) {
		auto_free char *word = mem_dup(root.at, root.len);
		auto_free char *real = realpath(word, NULL);

		if (real && is_beneath(path, str_of(real)))
			return OK;
	}
	return err_hint(
		err_new(FORBIDDEN, "not_allowed_root", "'%s' is not beneath an allowed root", path),
		"COVE_AGENT_ROOTS, or the line roots of [agent] in agents.conf, is a list "
		"of directories, with colons");
}

// The top of the repository around the directory, or the directory itself.
static char *sync_top(const char *directory)
{
	auto_free char *at = mem_str(directory);

	while (strcmp(at, "/") != 0 && *at) {
		auto_free char *git = mem_fmt("%s/.git", at);

		if (!access(git, F_OK))
			return mem_str(at);
		*strrchr(at, '/') = 0;
	}
	return mem_str(directory);
}

fallible sync_find_worktree(struct sync *sync)
{
	const char *given = call_value(sync->call, OPT_WORKTREE);
	auto_free char *real = realpath(given ? given : ".", NULL);
	const char *parts[2];

	if (!real)
		return err_new(INVALID, "no_worktree", "cannot open the worktree '%s': %s",
			       given ? given : ".", strerror(errno));
	sync->path = given ? take_ptr(real) : sync_top(real);
	TRY(sync_check_root(sync->path));
	sync->root = open(sync->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sync->root < 0)
		return err_new(INVALID, "no_worktree", "cannot open the worktree '%s': %s",
			       sync->path, strerror(errno));
	TRY(scan_identity(sync->root, &sync->to.name, &sync->to.email));
	parts[0] = sync->machine;
	parts[1] = sync->path;
	sync_hash(parts, 2, sync->identity);
	return OK;
}

fallible sync_lock(struct sync *sync)
{
	while (flock(sync->root, LOCK_EX))
		if (errno != EINTR || interrupt_signal())
			return err_new(CANCELLED, "interrupted",
				       "another sync of the worktree runs");
	return apply_clean(sync->root);
}

void sync_unlock(struct sync *sync)
{
	flock(sync->root, LOCK_UN);
}

static fallible sync_limit(const struct call *call, enum opt opt, bool bytes, uint64_t *out)
{
	const char *text = call_value(call, opt);

	if (!text || (bytes ? str_to_bytes(str_of(text), out)
			    : str_to_u64(str_of(text), 1, FILE_LIST_FILES_MAX, out)))
		return OK;
	return err_new(INVALID, "bad_value", "'%s' is not a limit", text);
}

fallible sync_begin(struct sync *sync, struct call *call)
{
	*sync = (struct sync){
		.call = call,
		.root = -1,
		.to = {.file_max = FILE_MAX_DEFAULT,
		       .count_max = FILES_MAX_DEFAULT,
		       .spool = -1,
		       .copy = -1,
		       .note = sync_on_note,
		       .arg = sync},
	};
	call->exit = SYNC_FAILED; // of every failure
	TRY(provider_choose(call, &sync->to.provider));
	sync->to.exec = sync->to.provider->exec;
	TRY(sync_limit(call, OPT_MAX_FILE, true, &sync->to.file_max));
	TRY(sync_limit(call, OPT_MAX_FILES, false, &sync->to.count_max));
	sync_set_machine(sync);
	return OK;
}

fallible sync_connect(struct sync *sync)
{
	return sync->to.provider->connect(&sync->to, sync->call, &sync->remote);
}

static fallible sync_open_once(struct sync *sync, void *arg)
{
	const struct provider_owner owner = {
		.machine = sync->machine,
		.identity = sync->identity,
		.worktree = sync->path,
		.given = call_value(sync->call, OPT_SANDBOX),
	};

	return sync->to.provider->open(&sync->to, &owner, arg);
}

// A create is repeatable: the server keeps the name unique.
fallible sync_open_box(struct sync *sync, const struct cove_box_spec *make)
{
	TRY(sync_try(sync, sync_open_once, (void *)(uintptr_t)make, true));
	sync_tell(sync, "id", "sandbox", sync->to.id);
	return OK;
}

// ---------------------------------------------------------------------------------- comparing

static fallible sync_load(struct sync *sync)
{
	TRY(sync->to.provider->state(&sync->to, true, &sync->state, &sync->was_synced));
	if (!sync->was_synced) {
		sync->state.machine = mem_str(sync->machine);
		sync->state.worktree = mem_str(sync->path);
		return OK;
	}
	if (strcmp(sync->state.machine, sync->machine) != 0 ||
	    strcmp(sync->state.worktree, sync->path) != 0)
		return err_new(CONFLICT, "other_worktree",
			       "the sandbox belongs to the worktree '%s'%s", sync->state.worktree,
			       strcmp(sync->state.machine, sync->machine) ? " of another machine"
									  : "");
	return OK;
}

static fallible sync_scan(struct sync *sync)
{
	struct scan_options options = {sync->to.file_max, sync->to.count_max, sync_on_scan, sync,
				       &sync->state.base};

	return scan_worktree(sync->root, &options, &sync->host);
}

static fallible sync_open_spool(struct sync *sync)
{
	const char *tmp = getenv("TMPDIR");

	sync->to.spool = open(tmp && *tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return sync->to.spool >= 0 ? OK
				   : err_new(NO_SPACE, "no_spool",
					     "cannot make a temporary file: %s", strerror(errno));
}

static enum plan_choice sync_choice(const struct call *call, bool in)
{
	if (in && call_has(call, OPT_FULL))
		return PLAN_EXACT;
	if (call_has(call, OPT_OURS))
		return in ? PLAN_SOURCE : PLAN_TARGET;
	if (call_has(call, OPT_THEIRS))
		return in ? PLAN_TARGET : PLAN_SOURCE;
	return PLAN_REFUSE;
}

static fallible sync_check_conflicts(const struct sync *sync, const struct plan *plan)
{
	for (size_t i = 0; i < plan->conflict_count; i++)
		sync_tell(sync, "conflict", "path", plan->conflicts[i]);
	if (!plan->conflict_count)
		return OK;
	return err_hint(err_new(CONFLICT, "sync_conflict",
				"%zu files changed on this host and in the sandbox; nothing was "
				"changed",
				plan->conflict_count),
			"--ours takes this host's, --theirs the sandbox's");
}

fallible sync_check_ways(const struct call *call)
{
	if (call_has(call, OPT_OURS) + call_has(call, OPT_THEIRS) + call_has(call, OPT_FULL) > 1)
		return err_new(INVALID, "two_ways",
			       "--ours, --theirs and --full exclude each other");
	return OK;
}

// ------------------------------------------------------------------------------------- in, out

static bool sync_is_equal(const struct file_list *a, const struct file_list *b)
{
	bool is_equal = a->count == b->count;

	for (size_t i = 0; i < a->count && is_equal; i++)
		is_equal = !strcmp(a->at[i].path, b->at[i].path) &&
			   file_list_same(&a->at[i], &b->at[i]);
	return is_equal;
}

// Files that are equal on both sides get the stamp of the other side.
static void sync_share_stamps(struct file_list *to, const struct file_list *from,
			      enum file_side side)
{
	for (size_t i = 0, at = 0; i < to->count; i++) {
		while (at < from->count && strcmp(from->at[at].path, to->at[i].path) < 0)
			at++;
		if (at < from->count && !strcmp(from->at[at].path, to->at[i].path) &&
		    file_list_same(&from->at[at], &to->at[i]))
			to->at[i].stamps[side] = from->at[at].stamps[side];
	}
}

// --full reads all files.
static void sync_drop_stamps(struct file_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		memset(list->at[i].stamps, 0, sizeof(list->at[i].stamps));
}

static bool sync_has_stamps(const struct file_list *a, const struct file_list *b)
{
	bool has = true;

	for (size_t i = 0; i < a->count && has; i++)
		has = !memcmp(a->at[i].stamps, b->at[i].stamps, sizeof(a->at[i].stamps));
	return has;
}

// The state with the manifest of the host as that of the last sync, or of one that begins.
static fallible sync_keep_host(struct sync *sync, bool pending)
{
	struct sync_state state = sync->state;

	state.has_base = pending ? state.has_base : true;
	state.base = pending ? state.base : sync->host;
	state.is_pending = pending;
	state.pending = sync->host;
	return sync->to.provider->keep(&sync->to, &state,
				       !pending && call_has(sync->call, OPT_FULL));
}

// The last steps of a sync in: the commit, and the manifest. Neither is needed where both are as
// the last sync left them.
static fallible sync_settle(struct sync *sync, const struct plan *plan)
{
	const struct file_list *base = &sync->state.base;
	bool is_same = sync->state.has_base && !sync->state.is_pending && !plan->change_count &&
		       sync_is_equal(base, &sync->found) && sync_is_equal(base, &sync->host);

	if (is_same && sync_box_is_committed(&sync->to, sync->state.commit)) {
		if (sync_has_stamps(base, &sync->host) && !call_has(sync->call, OPT_FULL))
			return OK;
		return sync_keep_host(sync, false);
	}
	free(take_ptr(sync->state.commit));
	TRY(sync_box_commit(&sync->to, &sync->state.commit));
	return sync_keep_host(sync, false);
}

static fallible sync_in_once(struct sync *sync, void *arg)
{
	auto_plan plan = {0};

	(void)arg;
	sync_forget(sync);
	sync->sending = 0;
	TRY(sync_load(sync));
	if (call_has(sync->call, OPT_FULL))
		sync_drop_stamps(&sync->state.base);
	TRY(sync_scan(sync));
	TRY(sync->to.provider->read(&sync->to, &sync->state.base, &sync->found));
	plan_make(&sync->state.base, sync->state.is_pending ? &sync->state.pending : NULL,
		  &sync->host, &sync->found, sync_choice(sync->call, true), &plan);
	TRY(sync_check_conflicts(sync, &plan));
	if (plan.change_count) {
		if (!sync->state.has_base && sync->to.box)
			TRY(sync_box_own(&sync->to));
		TRY(sync_keep_host(sync, true));
		for (size_t i = 0; i < plan.change_count; i++)
			sync->sending += plan.changes[i].to ? plan.changes[i].to->size : 0;
		TRY(sync->to.provider->send(&sync->to, sync->root, &plan));
		sync->sending = 0;
	}
	sync_share_stamps(&sync->host, &sync->found, FILE_BOX);
	if (!sync->state.has_base && sync->to.box && plan.written)
		TRY(sync_box_stamp(&sync->to, &sync->host));
	TRY(sync_settle(sync, &plan));
	sync->changed = plan.written;
	sync->deleted = plan.deleted;
	return OK;
}

// A sync in that was cut off is completed by the next one.
fallible sync_in(struct sync *sync)
{
	struct err *err;

	sync_tell(sync, "phase", "phase", "sync_in");
	err = sync_try(sync, sync_in_once, NULL, false);
	if (err && sync->sending && sync_tries(err, false) > 1)
		err = err_hint(err,
			       "%llu bytes were to be sent; 'cove sync in --sandbox %s --worktree "
			       "%s' tries again",
			       (unsigned long long)sync->sending, sync->to.id, sync->path);
	return err;
}

// Repeated after its changes were made, it finds none; the counts are those of all tries.
static fallible sync_out_once(struct sync *sync, void *arg)
{
	auto_plan plan = {0};
	struct sync_state state;

	(void)arg;
	sync_forget(sync);
	TRY(sync_load(sync));
	if (!sync->state.has_base || sync->state.is_pending)
		return err_hint(err_new(CONFLICT, "not_synced",
					sync->state.is_pending
						? "the last 'cove sync in' was interrupted"
						: "the sandbox was never synced"),
				"run 'cove sync in' first");
	TRY(sync_open_spool(sync));
	TRY(sync_scan(sync));
	TRY(sync->to.provider->read(&sync->to, &sync->state.base, &sync->found));
	plan_make(&sync->state.base, NULL, &sync->found, &sync->host,
		  sync_choice(sync->call, false), &plan);
	TRY(sync_check_conflicts(sync, &plan));
	TRY(sync->to.provider->fetch(&sync->to, &plan));
	TRY(apply_plan(sync->root, sync->to.spool, &plan));
	sync->changed += plan.written;
	sync->deleted += plan.deleted;
	sync_share_stamps(&sync->found, &sync->host, FILE_HOST);
	state = sync->state;
	if (!sync_is_equal(&sync->found, &state.base))
		state.commit = NULL;
	state.base = sync->found;
	return sync->to.provider->keep(&sync->to, &state, true);
}

fallible sync_out(struct sync *sync)
{
	size_t special = 0;

	sync_tell(sync, "phase", "phase", "sync_out");
	sync->changed = sync->deleted = 0;
	TRY(sync_try(sync, sync_out_once, NULL, false));
	TRY(sync_box_special(&sync->to, &special));
	if (!special)
		return OK;
	return err_hint(err_new(INVALID, "special_files",
				"%zu FIFOs, sockets or devices of the sandbox were left out; %zu "
				"changed and %zu deleted files came back",
				special, sync->changed, sync->deleted),
			"remove them there, or add a rule to .gitignore");
}

fallible sync_hint(const struct sync *sync, bool in, struct err *err)
{
	if (err && !err_hint_of(err))
		err = err_hint(err, "'cove sync %s --sandbox %s --worktree %s' tries again",
			       in ? "in" : "out", sync->to.id, sync->path);
	return err;
}

static fallible cli_sync_run(struct call *call, bool in)
{
	auto_sync sync;
	struct err *err = sync_begin(&sync, call);

	TRY(err);
	TRY(sync_check_ways(call));
	TRY(sync_find_worktree(&sync));
	TRY(sync_connect(&sync));
	TRY(status_end(call, sync_lock(&sync)));
	TRY(status_end(call, sync_open_box(&sync, in ? &(struct cove_box_spec){0} : NULL)));
	TRY(status_end(call, sync_hint(&sync, in, in ? sync_in(&sync) : sync_out(&sync))));
	sync_tell_done(&sync);
	call->exit = 0;
	return OK;
}

fallible cli_sync_in(struct call *call)
{
	return cli_sync_run(call, true);
}

fallible cli_sync_out(struct call *call)
{
	return cli_sync_run(call, false);
}

// ------------------------------------------------------------------------------------- status

static fallible sync_look_locked(struct sync *sync)
{
	auto_plan in = {0};
	auto_plan out = {0};
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out json = json_to(&text);
	const struct file_list *base = &sync->state.base;

	TRY(sync_load(sync));
	TRY(sync_scan(sync));
	TRY(sync->to.provider->read(&sync->to, base, &sync->found));
	plan_make(base, NULL, &sync->host, &sync->found, PLAN_REFUSE, &in);
	plan_make(base, NULL, &sync->found, &sync->host, PLAN_REFUSE, &out);
	if (!call_has(sync->call, OPT_JSON)) {
		print_line("sandbox   %s", sync->to.id);
		print_line("worktree  %s", sync->path);
		print_line("state     %s", !sync->state.has_base    ? "never synced"
					   : sync->state.is_pending ? "sync in was interrupted"
								    : "synced");
		print_line("in        %zu changed, %zu deleted", in.written, in.deleted);
		print_line("out       %zu changed, %zu deleted", out.written, out.deleted);
		for (size_t i = 0; i < in.conflict_count; i++)
			print_line("conflict  %s", in.conflicts[i]);
		return OK;
	}
	json_begin(&json, '{');
	json_put_text(&json, "sandbox", sync->to.id);
	sync_put_path(&json, sync->path);
	json_put_bool(&json, "synced", sync->state.has_base);
	json_put_bool(&json, "interrupted", sync->state.is_pending);
	json_put_begin(&json, "in", '{');
	json_put_int(&json, "filesChanged", (int64_t)in.written);
	json_put_int(&json, "filesDeleted", (int64_t)in.deleted);
	json_end(&json, '}');
	json_put_begin(&json, "out", '{');
	json_put_int(&json, "filesChanged", (int64_t)out.written);
	json_put_int(&json, "filesDeleted", (int64_t)out.deleted);
	json_end(&json, '}');
	json_put_begin(&json, "conflicts", '[');
	for (size_t i = 0; i < in.conflict_count; i++) {
		json_begin(&json, '{');
		sync_put_path(&json, in.conflicts[i]);
		json_end(&json, '}');
	}
	json_end(&json, ']');
	json_end(&json, '}');
	print_json(buf_view(&text));
	return OK;
}

fallible cli_sync_status(struct call *call)
{
	auto_sync sync;
	struct err *err = sync_begin(&sync, call);

	TRY(err);
	sync.is_silent = true;
	TRY(sync_find_worktree(&sync));
	TRY(sync_connect(&sync));
	TRY(status_end(call, sync_lock(&sync)));
	TRY(status_end(call, sync_open_box(&sync, NULL)));
	TRY(status_end(call, sync_look_locked(&sync)));
	call->exit = 0;
	return OK;
}

// ----------------------------------------------------------------------------------------- gc

static bool is_gone(const char *path)
{
	struct stat st;

	return stat(path, &st) && (errno == ENOENT || errno == ENOTDIR);
}

// Whether the sandbox has what the last sync did not.
static fallible sync_has_changes(struct sync *sync, bool *out)
{
	*out = true;
	if (!sync->state.has_base || sync->state.is_pending)
		return OK;
	TRY(sync->to.provider->read(&sync->to, &sync->state.base, &sync->found));
	*out = sync->found.count != sync->state.base.count;
	for (size_t i = 0; i < sync->found.count && !*out; i++)
		*out = !file_list_same(&sync->found.at[i],
				       file_list_find(&sync->state.base, sync->found.at[i].path));
	return OK;
}

static fallible sync_delete_once(struct sync *sync, void *arg)
{
	(void)arg;
	return sync->to.provider->destroy(&sync->to);
}

// Removes the sandbox if its worktree is gone and nothing in it would be lost.
static fallible sync_collect(struct sync *sync)
{
	bool unsynced = true;

	TRY(sync->to.provider->state(&sync->to, false, &sync->state, &sync->was_synced));
	if (!sync->was_synced || strcmp(sync->state.machine, sync->machine) != 0 ||
	    !is_gone(sync->state.worktree))
		return OK;
	if (!call_has(sync->call, OPT_FORCE)) {
		TRY(sync_has_changes(sync, &unsynced));
		if (unsynced) {
			sync_tell(sync, "unsynced", "sandbox", sync->to.id);
			return OK;
		}
	}
	TRY(sync_try(sync, sync_delete_once, NULL, false));
	sync_tell(sync, "removed", "sandbox", sync->to.id);
	return OK;
}

static fallible sync_list_once(struct sync *sync, void *arg)
{
	struct sync_ids *out = arg;

	sync_ids_done(out);
	return sync->to.provider->list(&sync->to, sync->machine, out);
}

fallible sync_list(struct sync *sync, struct sync_ids *out)
{
	return sync_try(sync, sync_list_once, out, false);
}

fallible sync_open_owner(struct sync *sync, const char *id)
{
	TRY(sync->to.provider->at(&sync->to, id));
	TRY(sync->to.provider->state(&sync->to, false, &sync->state, &sync->was_synced));
	if (!sync->was_synced || strcmp(sync->state.machine, sync->machine) != 0)
		return err_new(CONFLICT, "other_worktree",
			       "the sandbox belongs to no worktree of this machine");
	sync->path = mem_str(sync->state.worktree);
	return OK;
}

fallible sync_open_root(struct sync *sync)
{
	TRY(sync_check_root(sync->path));
	sync->root = open(sync->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return sync->root >= 0
		       ? OK
		       : err_new(INVALID, "no_worktree", "cannot open the worktree '%s': %s",
				 sync->path, strerror(errno));
}

fallible cli_sync_gc(struct call *call)
{
	on_exit_call(sync_ids_done) struct sync_ids ids = {0};
	auto_sync sync;
	struct err *err = sync_begin(&sync, call);

	TRY(err);
	TRY(sync_connect(&sync));
	TRY(status_end(call, sync_list(&sync, &ids)));
	for (size_t i = 0; i < ids.count; i++) {
		TRY(status_end(call, sync.to.provider->at(&sync.to, ids.at[i])));
		TRY(status_end(call, sync_collect(&sync)));
		sync_box_done(&sync.to);
		sync_state_done(&sync.state);
		file_list_done(&sync.found);
	}
	call->exit = 0;
	return OK;
}
