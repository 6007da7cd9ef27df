// agent run, reconnect, status, stop, list; run --sync. The worktree goes into its sandbox, a
// command works there, and what it changed comes back. A run is a background process of the
// sandbox, or a terminal, whose id is the run's: it outlives this program, and a later caller
// finds its output and its end there. Nothing is kept on this host.
//
// The lock of the worktree is held during a sync and not while the command runs.
#include "cli/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "cli/agent_config.h"
#include "cli/agent_files.h"
#include "cli/agent_output.h"
#include "cli/body.h"
#include "cli/image.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/provider.h"
#include "cli/screen.h"
#include "cli/status.h"
#include "cli/stdio.h"
#include "cli/sync.h"
#include "codec/text.h"
#include "lib/fields.h"

#define RUN_PREFIX "run-"
#define RUN_BOX 12 // digits of the hash of the worktree
#define RUN_LEN (sizeof(RUN_PREFIX) - 1 + RUN_BOX + 1 + 8)
#define LINE_MAX_BYTES (16u << 20)
#define SESSION_MAX 256
#define SETUP_MAX (1u << 20)
#define BODY_BYTES_MAX (1u << 20)
#define PREVIEW_MS (3600 * 1000)
#define MALFORMED_MAX 1000
#define REVIVE_MS 250
#define REVIVE_TRIES 20
#define EXIT_AGENT 1
#define EXIT_TIMEOUT 124
#define EXIT_STOPPED 130

struct agent {
	struct sync sync;
	struct call *call;
	bool own_status; // run --sync: the command's status is ours
	struct agent_config config;
	const char *prompt; // of --agent; NULL: a command was given
	char run[RUN_LEN + 1];
	struct provider_run at;
	bool has_begun;
	struct buf out_line, err_line; // begun
	struct agent_output pieces[2]; // of --json, by whether it is stderr
	bool has_session, stopped, may_have_files;
	int malformed; // events of the stream that could not be read
	uint64_t skip; // bytes of stdout that the caller of a reconnect has
	struct cove_result result;
};

static void agent_done(struct agent *agent)
{
	provider_run_done(&agent->at);
	buf_done(&agent->out_line);
	buf_done(&agent->err_line);
	buf_done(&agent->pieces[0].held);
	buf_done(&agent->pieces[1].held);
	agent_config_done(&agent->config);
	sync_done(&agent->sync);
}
#define auto_agent on_exit_call(agent_done) struct agent

static fallible agent_begin(struct agent *agent, struct call *call)
{
	*agent = (struct agent){
		.call = call,
		.out_line = BUF_INIT(LINE_MAX_BYTES),
		.err_line = BUF_INIT(LINE_MAX_BYTES),
		.pieces = {{"stdout", BUF_INIT(8u << 20)}, {"stderr", BUF_INIT(8u << 20)}},
	};
	return sync_begin(&agent->sync, call);
}

// ------------------------------------------------------------------------------------- output

// Whole, also when a signal comes: agent_follow() sees it at its next call, and the changes are to
// come back all the same.
static fallible agent_write(struct str rest)
{
	while (rest.len) {
		struct err *err = stdio_write_on(STDOUT_FILENO, &rest);

		if (err && strcmp(err_reason(err), "interrupted") != 0)
			return err;
		err_free(err);
	}
	return OK;
}

static fallible agent_put_piece(struct agent *agent, bool is_stderr, struct str bytes, bool last)
{
	auto_buf line = BUF_INIT(16u << 20);

	agent_output_piece(&agent->pieces[is_stderr], bytes, last, &line);
	return agent_write(buf_view(&line));
}

// The id of its own session, from a line of JSON that the agent printed.
static void agent_look_for_session(struct agent *agent, struct str line)
{
	const char *own = agent->config.session;
	const char *const keys[] = {own ? own : "session_id", "session_id", "sessionID",
				    "sessionId", "thread_id"};
	auto_json object = NULL;
	auto_err err = OK;

	if (agent->has_session || !line.len || *line.at != '{')
		return;
	err = json_read(line, &object);
	for (size_t i = 0; !err && i < (own ? 1 : sizeof(keys) / sizeof(*keys)); i++) {
		const char *id = fields_text(object, keys[i]);

		if (!*id || strlen(id) > SESSION_MAX)
			continue;
		sync_tell(&agent->sync, "agent_session", "session", id);
		if (getenv(AGENT_THOR))
			sync_tell(&agent->sync, "opencode_session", "session", id);
		agent->has_session = true;
		return;
	}
}

static void agent_end_line(struct agent *agent, bool is_stderr)
{
	struct buf *line = is_stderr ? &agent->err_line : &agent->out_line;

	if (is_stderr && (line->len || !buf_ok(line)))
		sync_tell(&agent->sync, "stderr", "data", line->at ? line->at : "");
	else if (!is_stderr && buf_ok(line))
		agent_look_for_session(agent, buf_view(line));
	buf_done(line);
	*line = BUF_INIT(LINE_MAX_BYTES);
}

// Whether the caller has it: output up to the byte of stdout of --offset.
static bool agent_skip(struct agent *agent, bool is_stderr, struct str *bytes)
{
	size_t len = agent->skip < bytes->len ? (size_t)agent->skip : bytes->len;

	if (!agent->skip || is_stderr)
		return agent->skip > 0;
	*bytes = str_skip(*bytes, len);
	agent->skip -= len;
	return !bytes->len;
}

// Without --json, lines of stderr get a prefix, so that output cannot forge lines of cove.
static fallible agent_take(struct agent *agent, bool is_stderr, struct str bytes)
{
	bool json = call_has(agent->call, OPT_JSON);
	struct buf *line = is_stderr ? &agent->err_line : &agent->out_line;

	if (agent_skip(agent, is_stderr, &bytes))
		return OK;
	if (json)
		TRY(agent_put_piece(agent, is_stderr, bytes, false));
	else if (!is_stderr)
		TRY(agent_write(bytes));
	if (is_stderr && json)
		return OK;
	while (bytes.len) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t len = end ? (size_t)(end - bytes.at) : bytes.len;

		if (is_stderr && line->len + len >= LINE_MAX_BYTES)
			agent_end_line(agent, true);
		buf_add(line, bytes.at, len);
		if (end)
			agent_end_line(agent, is_stderr);
		bytes = str_skip(bytes, len + (end != NULL));
	}
	return OK;
}

// Ctrl-C stops the command; what it did comes back all the same. A second one ends us at once.
static fallible agent_interrupt(struct agent *agent)
{
	agent->stopped = true;
	interrupt_shield(true);
	return agent->sync.to.provider->stop(&agent->at, true);
}

// An event of the stream that cannot be read is skipped, told and counted: the output of the run is
// on the server, whole.
static bool agent_is_malformed(struct agent *agent, const struct err *err)
{
	auto_free char *text = NULL;

	if (err_kind(err) != ERR_BAD_PEER || strcmp(err_reason(err), "bad_reply") != 0 ||
	    agent->malformed == MALFORMED_MAX)
		return false;
	text = mem_fmt(
		"%d: an event of the output was skipped; 'cove agent reconnect %s' shows all",
		++agent->malformed, agent->run);
	sync_tell(&agent->sync, "malformed", "message", text);
	return true;
}

// Whether to go on after a failed read of the output.
static fallible agent_missed(struct agent *agent, struct err *err)
{
	if (err_kind(err) == ERR_CANCELLED && interrupt_signal() && !agent->stopped) {
		err_free(err);
		return agent_interrupt(agent);
	}
	if (!agent_is_malformed(agent, err))
		return err;
	err_free(err);
	return OK;
}

static fallible agent_follow(struct agent *agent)
{
	struct cove_piece piece = {0};

	while (!piece.ended) {
		struct err *err = agent->sync.to.provider->next(&agent->at, &piece);

		if (err) {
			TRY(agent_missed(agent, err));
			piece.ended = false;
			continue;
		}
		if (!piece.ended)
			TRY(agent_take(agent, piece.is_stderr,
				       (struct str){piece.bytes, piece.len}));
	}
	for (int i = 0; i < 2; i++)
		TRY(agent_put_piece(agent, i, STR(""), true));
	if (agent->out_line.len)
		agent_end_line(agent, false);
	if (agent->err_line.len)
		agent_end_line(agent, true);
	agent->result = agent->at.result;
	return OK;
}

// ---------------------------------------------------------------------------------------- end

static int agent_status(const struct agent *agent)
{
	const struct cove_result *result = &agent->result;

	if (!strcmp(result->ended, "wall_limit"))
		return EXIT_TIMEOUT;
	if (agent->stopped || !strcmp(result->ended, "killed_by_api"))
		return EXIT_STOPPED;
	if (agent->own_status)
		return result->exit_code;
	return result->exit_code ? EXIT_AGENT : 0;
}

// Whether the kernel killed a process of the sandbox for memory: the agent may be its parent, and
// tell only the status of a kill.
static bool agent_had_no_memory(struct agent *agent)
{
	auto_free char *route = remote_path("/v1/sandboxes", agent->sync.to.id, "/stats");
	auto_json stats = NULL;
	auto_err err = OK;

	if (agent->result.exit_code != STATUS_SIGNALED + SIGKILL || !agent->sync.to.box)
		return false;
	err = remote_ask(&agent->sync.remote, "GET", route, NULL, NULL, &stats);
	return !err && fields_number(json_get(stats, "memory"), "oomKills", 0) > 0;
}

static void agent_tell_end(struct agent *agent)
{
	static const struct {
		const char *ended, *text;
	} causes[] = {
		{"oom", "the agent exceeded the memory limit of the sandbox (--memory)"},
		{"wall_limit", "the agent ran out of time (--timeout)"},
		{"killed_by_api", "the agent was stopped"},
	};
	auto_free char *text = mem_fmt("the agent ended with status %d", agent->result.exit_code);
	const char *cause = text;

	for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++)
		if (!strcmp(agent->result.ended, causes[i].ended))
			cause = causes[i].text;
	if (cause == text && agent_had_no_memory(agent))
		cause = "the agent ended with status 137; the sandbox has exceeded its memory "
			"limit "
			"(--memory)";
	if (agent->result.exit_code || cause != text)
		sync_tell(&agent->sync, "error", "message", cause);
}

static void agent_tell_done(const struct agent *agent)
{
	const struct sync *sync = &agent->sync;
	auto_buf line = BUF_INIT(1 << 20);
	struct json_out out = json_to(&line);

	if (sync_tell_counts(sync))
		return;
	json_begin(&out, '{');
	json_put_text(&out, "event", "done");
	json_put_text(&out, "sandbox", sync->to.id);
	json_put_text(&out, "run", agent->run);
	json_put_int(&out, "exitCode", agent->result.exit_code);
	json_put_text(&out, "ended", agent->result.ended);
	json_put_int(&out, "filesChanged", (int64_t)sync->changed);
	json_put_int(&out, "filesDeleted", (int64_t)sync->deleted);
	if (agent->malformed)
		json_put_int(&out, "malformed", agent->malformed);
	json_end(&out, '}');
	print_json_line(buf_view(&line));
	buf_clear(&line);
	out = json_to(&line);
	json_begin(&out, '{');
	json_put_int(&out, "exitCode", agent->result.exit_code);
	json_end(&out, '}');
	print_json_line(buf_view(&line));
}

static fallible agent_preview_port(const struct call *call, uint16_t *out)
{
	const char *text = call_value(call, OPT_PREVIEW);
	uint64_t port = 0;

	if (text && !str_to_u64(str_of(text), 1, UINT16_MAX, &port))
		return err_new(INVALID, "bad_value", "--preview '%s' is no port", text);
	*out = (uint16_t)port;
	return OK;
}

struct agent_ports {
	uint16_t wanted;
	bool found;
	struct buf others;
};

static int agent_on_port(void *arg, const struct cove_port_info *info)
{
	struct agent_ports *ports = arg;

	if (info->listening && info->port == ports->wanted)
		ports->found = true;
	else if (info->listening)
		buf_fmt(&ports->others, "%s%u", ports->others.len ? ", " : "", info->port);
	return 0;
}

// The port of --preview has no listener: says which ports have one.
static void agent_look_at_ports(struct agent *agent)
{
	struct sync *sync = &agent->sync;
	struct agent_ports ports = {.others = BUF_INIT(64 * 1024)};
	auto_free char *text = NULL;
	auto_err err = agent_preview_port(agent->call, &ports.wanted);

	if (!err && ports.wanted)
		err = remote_did(&sync->remote, cove_port_list(sync->to.box, agent_on_port, &ports,
							       &sync->remote.error));
	if (!err && ports.wanted && !ports.found) {
		text = mem_fmt("nothing listens on port %u; ports with a listener: %s",
			       ports.wanted, ports.others.len ? ports.others.at : "none");
		sync_tell(sync, "error", "message", text);
	}
	buf_done(&ports.others);
}

// The files of the run go, whatever becomes of the sync.
static void agent_remove_files(struct agent *agent)
{
	auto_err err = OK;

	if (!agent->may_have_files)
		return;
	err = agent_files_remove(&agent->sync, agent->run);

	if (err)
		sync_tell(&agent->sync, "error", "message", err_message(err));
}

static fallible agent_sync_out(struct agent *agent)
{
	struct sync *sync = &agent->sync;
	struct err *err;

	if (call_has(agent->call, OPT_NO_SYNC))
		return OK;
	TRY(sync_lock(sync));
	err = sync_out(sync);
	sync_unlock(sync);
	return sync_hint(sync, false, err);
}

// Starts the files of a sandbox that died, once its remains are taken down.
static fallible agent_revive(struct sync *sync)
{
	for (int i = 0;; i++) {
		struct err *err = remote_did(&sync->remote,
					     cove_box_start(sync->to.box, &sync->remote.error));
		struct pollfd wait = {.fd = interrupt_fd(), .events = POLLIN};

		if (!err || i == REVIVE_TRIES || interrupt_signal() ||
		    err_kind(err) == ERR_NOT_FOUND)
			return err;
		err_free(err);
		poll(&wait, 1, REVIVE_MS);
	}
}

// The sandbox died: what the agent had written is fetched, if it can be.
static fallible agent_finish_lost(struct agent *agent)
{
	struct sync *sync = &agent->sync;
	struct err *err = agent_revive(sync);

	if (!err) {
		agent_remove_files(agent);
		err = agent_sync_out(agent);
	}
	if (err) {
		sync_tell(sync, "error", "message", err_message(err));
		err_free(err);
		return err_hint(err_new(BAD_PEER, "box_lost",
					"the sandbox was lost during the run; its changes did not "
					"come back"),
				"'cove sync out --sandbox %s --worktree %s' tries again",
				sync->to.id, sync->path);
	}
	return err_new(BAD_PEER, "box_lost",
		       "the sandbox was lost during the run; %zu changed and %zu deleted files "
		       "came back",
		       sync->changed, sync->deleted);
}

// Brings the changes back, also those of a command that failed, and sets the exit status.
static fallible agent_finish(struct agent *agent)
{
	if (!strcmp(agent->result.ended, "box_lost"))
		return agent_finish_lost(agent);
	agent_tell_end(agent);
	agent_remove_files(agent);
	agent_look_at_ports(agent);
	TRY(agent_sync_out(agent));
	agent_tell_done(agent);
	TRY(status_whole(&agent->result));
	agent->call->exit = agent_status(agent);
	return OK;
}

// Whether the provider and not the request failed.
static bool agent_is_away(const struct err *err)
{
	return err_kind(err) == ERR_UNAVAILABLE || err_kind(err) == ERR_TIMEOUT ||
	       !strcmp(err_reason(err), "peer_gone");
}

// Failures of cove are 2, of whatever kind; signals have their own status, as has run --sync.
static fallible agent_end(const struct agent *agent, struct err *err)
{
	const struct provider *provider = agent->sync.to.provider;

	if (err && provider->instead && agent_is_away(err))
		sync_tell(&agent->sync, "fallback", "message", provider->instead);
	err = status_end(agent->call, err);
	if (err && !agent->own_status && agent->call->exit < STATUS_SIGNALED)
		agent->call->exit = SYNC_FAILED;
	return err;
}

// ------------------------------------------------------------------------------------ terminal

struct agent_screen {
	const char *run;
	bool found, ended;
};

static int agent_on_terminal(void *arg, const struct cove_terminal_info *info)
{
	struct agent_screen *screen = arg;

	if (!strcmp(info->id, screen->run)) {
		screen->found = true;
		screen->ended = info->ended;
	}
	return 0;
}

// Shows the run on our terminal. *out_detached: it goes on.
static fallible agent_show(struct agent *agent, const struct cove_terminal_options *options,
			   bool *out_detached)
{
	struct agent_screen screen = {.run = agent->run};
	struct sync *sync = &agent->sync;

	agent->call->exit = -1; // not ended
	TRY(screen_run(agent->call, &sync->remote, sync->to.box, options,
		       call_has(agent->call, OPT_INTERACTIVE) || options->existing));
	TRY(remote_did(&sync->remote, cove_terminal_list(sync->to.box, agent_on_terminal, &screen,
							 &sync->remote.error)));
	*out_detached = agent->call->exit < 0 && screen.found && !screen.ended;
	agent->result.exit_code = agent->call->exit < 0 ? 0 : agent->call->exit;
	snprintf(agent->result.ended, sizeof(agent->result.ended), "exited");
	agent->call->exit = *out_detached ? 0 : SYNC_FAILED;
	return OK;
}

// --------------------------------------------------------------------------------------- setup

static fallible agent_setup_text(const struct agent *agent, struct buf *out)
{
	const char *path = call_value(agent->call, OPT_SETUP);

	if (!path)
		path = agent->config.setup;
	if (path)
		return agent_files_read(path, SETUP_MAX, out);
	if (agent->config.install)
		buf_text(out, agent->config.install);
	return OK;
}

// The directory that a sandbox has alone, where that is not its home directory.
static const char *agent_own_place(const struct agent *agent)
{
	const struct sync_box *box = &agent->sync.to;

	return box->provider == &provider_local ? box->store : "";
}

// Runs the script once in each sandbox for each content. Its output stays there.
static fallible agent_setup(struct agent *agent)
{
	// clang-format off
	static const char script[] =
		"d=${2:-${HOME:-/root}}/.cove-agent/setup\n"
		"mkdir -p \"$d\" || exit\n"
		"f=$d/$1\n"
		"[ ! -e \"$f.done\" ] || exit 0\n"
		"cat >\"$f.sh\" || exit\n"
		"sh \"$f.sh\" >\"$f.log\" 2>&1 </dev/null && : >\"$f.done\" && exit 0\n"
		"s=$?\n"
		"tail -n 20 \"$f.log\"\n"
		"echo \"the whole output is in $f.log of the sandbox\"\n"
		"exit $s\n";
	// clang-format on
	on_exit_call(cove_output_free) struct cove_output output = {0};
	auto_buf text = BUF_INIT(SETUP_MAX + 65536);
	char hash[SHA256_HEX + 1];
	const char *argv[] = {"sh", "-c", script, "setup", hash, agent_own_place(agent), NULL};
	struct cove_command command = {.argv = argv};
	struct sha256 sum;
	struct str rest, line;

	TRY(agent_setup_text(agent, &text));
	if (!text.len)
		return OK;
	sync_tell(&agent->sync, "phase", "phase", "setup");
	sha256_begin(&sum);
	sha256_add(&sum, text.at, text.len);
	sha256_end(&sum, hash);
	command.input = text.at;
	command.input_len = text.len;
	TRY(agent->sync.to.provider->exec(&agent->sync.to, &command, &output));
	if (!output.result.exit_code)
		return OK;
	for (rest = (struct str){output.out, output.out_len}; str_cut(&rest, '\n', &line);) {
		auto_free char *copy = mem_dup(line.at, line.len);

		if (*copy)
			sync_tell(&agent->sync, "stderr", "data", copy);
	}
	return err_hint(err_new(INVALID, "setup_failed", "the setup ended with status %d",
				output.result.exit_code),
			"the next run tries again");
}

// A snapshot that is missing is replaced by the default template, which is told.
static fallible agent_open_box(struct agent *agent, const struct cove_box_spec *spec)
{
	struct sync *sync = &agent->sync;
	const char *snapshot = call_value(agent->call, OPT_SNAPSHOT);
	struct cove_box_spec plain = *spec;
	struct err *err;

	if (snapshot)
		plain.from = snapshot;
	err = sync_open_box(sync, &plain);
	if (!snapshot || !err || strcmp(err_reason(err), "no_template") != 0)
		return err;
	err_free(err);
	sync_tell(sync, "no_snapshot", "snapshot", snapshot);
	plain.from = spec->from;
	return sync_open_box(sync, &plain);
}

static fallible agent_prepare(struct agent *agent, const struct cove_box_spec *spec)
{
	struct sync *sync = &agent->sync;
	struct err *err;

	sync_tell(sync, "phase", "phase", "sandbox_create");
	TRY(agent_open_box(agent, spec));
	TRY(agent_setup(agent));
	TRY(sync_hint(sync, true, sync_in(sync)));
	agent->may_have_files = call_has(agent->call, OPT_FILE) ||
				call_has(agent->call, OPT_SECRET);
	err = agent_files_put(sync, agent->run);
	if (err)
		err_free(agent_files_remove(sync, agent->run));
	return err;
}

// ----------------------------------------------------------------------------------------- run

// The directory inside that ours is a copy of. The caller's.
static char *agent_directory(const struct sync *sync)
{
	auto_free char *here = realpath(".", NULL);
	size_t len = strlen(sync->path);

	if (!here || strncmp(here, sync->path, len) != 0 || here[len] != '/')
		return mem_str(sync->to.home);
	return mem_fmt("%s%s", sync->to.home, here + len);
}

static void agent_free_words(char ***argv)
{
	mem_free_list(*argv);
}

// "{session}" and "{model}" as whole words are replaced; nothing is parsed by a shell.
static char **agent_words(const struct call *call, char *const *from)
{
	const char *session = call_value(call, OPT_SESSION), *model = call_value(call, OPT_MODEL);
	char **argv = mem_new(((size_t)call->word_count + 1) * sizeof(*argv));
	size_t count = 0;

	for (; *from; from++) {
		const char *word = *from;

		if (session && !strcmp(word, "{session}"))
			word = session;
		else if (model && !strcmp(word, "{model}"))
			word = model;
		argv[count++] = mem_str(word);
	}
	argv[count] = NULL;
	return argv;
}

// The variables of the command, and those that were set of the three texts, which are borrowed.
static const char **agent_env(const struct body *body, const char *const more[3])
{
	const char **env = mem_new((body->env_count + 4) * sizeof(*env));
	size_t count = 0;

	for (; count < body->env_count; count++)
		env[count] = body->env[count];
	for (size_t i = 0; i < 3; i++)
		if (more[i])
			env[count++] = more[i];
	env[count] = NULL;
	return env;
}

// The sandbox has changes from now on, until a sync brings them back. /v1/agent-runs marks it
// itself.
static fallible agent_mark(struct agent *agent)
{
	struct remote *remote = &agent->sync.remote;
	auto_free char *route = remote_path("/v1/sandboxes", agent->sync.to.id, "");
	auto_buf body = BUF_INIT(64);

	buf_text(&body, "{\"unsynced\":true}");
	return remote_ask(remote, "PATCH", route, &body, NULL, NULL);
}

// ------------------------------------------------------------------------------------- preview

// The address is valid before the port has a listener: nobody who opens it waits.
static fallible agent_preview(struct agent *agent)
{
	struct sync *sync = &agent->sync;
	struct cove_port_options options = {.expires_ms = PREVIEW_MS};
	auto_buf line = BUF_INIT(1 << 16);
	struct json_out out = json_to(&line);
	auto_free char *url = NULL;
	uint16_t port;

	TRY(agent_preview_port(agent->call, &port));
	if (!port)
		return OK;
	TRY(remote_did(&sync->remote,
		       cove_port_expose(sync->to.box, port, &options, &url, &sync->remote.error)));
	if (!call_has(agent->call, OPT_JSON)) {
		auto_free char *text = mem_fmt("%u %s", port, url);

		sync_tell(sync, "preview", "url", text);
		return OK;
	}
	json_begin(&out, '{');
	json_put_text(&out, "event", "preview");
	json_put_int(&out, "port", port);
	json_put_text(&out, "url", url);
	json_end(&out, '}');
	print_json_line(buf_view(&line));
	fflush(stdout);
	return OK;
}

static fallible agent_start(struct agent *agent, struct cove_command *command, bool *out_detached)
{
	struct sync *sync = &agent->sync;
	const char *const by_line[] = {"bash", "-c", command->line, NULL};
	struct cove_terminal_options screen = {
		.id = agent->run,
		.argv = command->line ? by_line : command->argv,
		.cwd = command->cwd,
		.user = command->user,
		.env = command->env,
	};

	TRY(agent_preview(agent));
	sync_tell(sync, "session", "run", agent->run);
	sync_tell(sync, "phase", "phase", "agent_running");
	if (call_has(agent->call, OPT_TTY)) {
		TRY(agent_mark(agent));
		return agent_show(agent, &screen, out_detached);
	}
	agent->at.box = &sync->to;
	agent->at.id = agent->run;
	TRY(sync->to.provider->start(&agent->at, command, screen.argv));
	agent->has_begun = true;
	return agent_follow(agent);
}

static fallible agent_run_in(struct agent *agent, struct body *body)
{
	struct sync *sync = &agent->sync;
	struct call *call = agent->call;
	const char *session = call_value(call, OPT_SESSION), *model = call_value(call, OPT_MODEL);
	auto_free char *in_session = session ? mem_fmt("COVE_AGENT_SESSION=%s", session) : NULL;
	auto_free char *in_model = model ? mem_fmt("COVE_AGENT_MODEL=%s", model) : NULL;
	auto_free char *in_prompt = agent->prompt ? mem_fmt("COVE_AGENT_PROMPT=%s", agent->prompt)
						  : NULL;
	auto_free const char **env = agent_env(
		body, (const char *const[]){in_session, in_model, in_prompt});
	auto_free char *directory = NULL;
	bool detached = false;
	char random[9];
	struct err *err;

	TRY(sync_find_worktree(sync));
	TRY(sync_connect(sync));
	secret_hex(random, 4);
	snprintf(agent->run, sizeof(agent->run), RUN_PREFIX "%.*s-%s", RUN_BOX, sync->identity,
		 random);
	TRY(sync_lock(sync));
	err = agent_prepare(agent, &body->box);
	sync_unlock(sync);
	TRY(err);
	directory = agent_directory(sync);
	if (!body->command.cwd)
		body->command.cwd = directory;
	body->command.env = env;
	err = agent_start(agent, &body->command, &detached);
	if (err && !agent->has_begun)
		agent_remove_files(agent);
	TRY(err);
	return detached ? OK : agent_finish(agent);
}

static fallible agent_check(const struct agent *agent)
{
	static const enum opt ours[] = {OPT_TTY, OPT_PREVIEW, OPT_USER};
	const struct provider *provider = agent->sync.to.provider;
	const struct call *call = agent->call;
	bool tty = call_has(call, OPT_TTY);

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours) && provider != &provider_cove; i++)
		if (call_has(call, ours[i]))
			return err_new(INVALID, "not_offered",
				       "--provider %s has no -t, --preview and --user",
				       provider->name);
	if (tty && (call_has(call, OPT_JSON) || call_has(call, OPT_TIMEOUT)))
		return err_new(INVALID, "two_ways",
			       "-t cannot be combined with --json or --timeout");
	if (call_has(call, OPT_INTERACTIVE) && !tty)
		return err_hint(err_new(INVALID, "two_ways", "-i needs -t"),
				"without a terminal the agent reads nothing");
	if (tty && call_has(call, OPT_INTERACTIVE) && !isatty(STDIN_FILENO))
		return err_hint(err_new(INVALID, "no_terminal", "standard input is not a terminal"),
				"leave -i out");
	return OK;
}

// The command of --agent, and what its section says of the sandbox; options win.
static fallible agent_by_name(struct agent *agent, char *const *words, char ***out)
{
	const struct call *call = agent->call;

	if (!words[0] || words[1])
		return err_hint(err_new(INVALID, "bad_words", "--agent needs one word, the prompt"),
				"cove agent run --agent claude -- 'fix the tests'");
	TRY(agent_config_load(call_value(call, OPT_AGENT), &agent->config));
	agent->prompt = words[0];
	*out = agent_config_words(&agent->config, words[0], call_value(call, OPT_SESSION),
				  call_value(call, OPT_MODEL));
	return OK;
}

static void agent_default_box(const struct agent_config *config, struct cove_box_spec *box)
{
	if (!box->from && !box->image) {
		box->from = config->template;
		box->image = config->image;
	}
	if (!box->allow && config->allow) {
		box->allow = (const char *const *)config->allow;
		if (!box->network)
			box->network = "allow";
	}
	if (!box->secrets)
		box->secrets = (const char *const *)config->secrets;
}

static fallible agent_run_words(struct call *call, char **words, bool own_status)
{
	auto_agent agent;
	auto_body body = {0};
	on_exit_call(agent_free_words) char **argv = NULL;
	struct err *err = agent_begin(&agent, call);

	TRY(err);
	agent.own_status = own_status;
	if (*words && !strcmp(*words, "--"))
		words++;
	if (call_has(call, OPT_AGENT))
		TRY(agent_by_name(&agent, words, &argv));
	else
		argv = agent_words(call, words);
	TRY(agent_check(&agent));
	TRY(sync_check_ways(call));
	TRY(body_box(call, &body));
	TRY(body_command(call, argv, false, &body));
	agent_default_box(&agent.config, &body.box);
	body.box.env = NULL; // of the command
	body.box.name = NULL;
	TRY(image_prepare(call));
	return agent_end(&agent, agent_run_in(&agent, &body));
}

fallible cli_agent_run(struct call *call)
{
	return agent_run_words(call, call->words, false);
}

fallible cli_agent_run_sync(struct call *call)
{
	static const enum opt others[] = {OPT_KEEP, OPT_RM, OPT_NAME, OPT_LABEL};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (call_has(call, others[i]))
			return err_new(INVALID, "two_ways",
				       "--sync uses the sandbox of the worktree, which stays: no "
				       "--keep, --rm, --name or --label");
	return agent_run_words(call, call->words, true);
}

// ------------------------------------------------------------------------------- runs by their id

static fallible agent_no_run(const char *run)
{
	return err_hint(err_new(NOT_FOUND, "no_run", "there is no run '%s'", run),
			"'cove agent list' lists those of this machine");
}

// The sandbox of a run, by the digits of its worktree.
static fallible agent_find_box(struct sync *sync, const char *run, char **out)
{
	on_exit_call(sync_ids_done) struct sync_ids ids = {0};
	auto_free char *digits = NULL;

	if (strlen(run) != RUN_LEN || !str_starts(str_of(run), RUN_PREFIX))
		return agent_no_run(run);
	digits = mem_fmt("wt-%.*s", RUN_BOX, run + sizeof(RUN_PREFIX) - 1);
	TRY(sync_list(sync, &ids));
	for (size_t i = 0; i < ids.count; i++)
		if (str_starts(str_of(ids.names[i]), digits)) {
			*out = mem_str(ids.at[i]);
			return OK;
		}
	return agent_no_run(run);
}

// *out_screen: a run on a terminal.
static fallible agent_find(struct agent *agent, struct agent_screen *out_screen)
{
	struct sync *sync = &agent->sync;
	const char *run = agent->call->words[0];
	auto_free char *id = NULL;

	TRY(sync_connect(sync));
	TRY(agent_find_box(sync, run, &id));
	snprintf(agent->run, sizeof(agent->run), "%s", run);
	TRY(sync_open_owner(sync, id));
	agent->at.box = &sync->to;
	agent->at.id = agent->run;
	agent->has_begun = sync->to.provider->has(&sync->to, run);
	if (agent->has_begun)
		return OK;
	if (!sync->to.box)
		return agent_no_run(run);
	out_screen->run = agent->run;
	TRY(remote_did(&sync->remote, cove_terminal_list(sync->to.box, agent_on_terminal,
							 out_screen, &sync->remote.error)));
	return out_screen->found ? OK : agent_no_run(run);
}

static fallible agent_reconnect_in(struct agent *agent)
{
	struct cove_terminal_options options = {.id = agent->run, .existing = true};
	struct agent_screen screen = {0};
	bool detached = false;

	TRY(agent_find(agent, &screen));
	TRY(sync_open_root(&agent->sync));
	sync_tell(&agent->sync, "id", "sandbox", agent->sync.to.id);
	sync_tell(&agent->sync, "session", "run", agent->run);
	sync_tell(&agent->sync, "phase", "phase", "agent_running");
	agent->may_have_files = true;
	TRY(agent->has_begun ? agent_follow(agent) : agent_show(agent, &options, &detached));
	return detached ? OK : agent_finish(agent);
}

fallible cli_agent_reconnect(struct call *call)
{
	auto_agent agent;
	struct err *err = agent_begin(&agent, call);
	const char *offset = call_value(call, OPT_OFFSET);

	TRY(err);
	if (offset && !str_to_u64(str_of(offset), 0, INT64_MAX, &agent.skip))
		return err_new(INVALID, "bad_value", "--offset '%s' is no number of bytes", offset);
	TRY(sync_check_ways(call));
	return agent_end(&agent, agent_reconnect_in(&agent));
}

static fallible agent_stop_terminal(struct agent *agent)
{
	auto_free char *rest = mem_fmt("/api/terminals/%s", agent->run);
	auto_free char *route = remote_path("/v1/sandboxes", agent->sync.to.id, rest);

	return remote_ask(&agent->sync.remote, "DELETE", route, NULL, NULL, NULL);
}

fallible cli_agent_stop(struct call *call)
{
	auto_agent agent;
	struct err *err = agent_begin(&agent, call);
	struct agent_screen screen = {0};

	TRY(err);
	TRY(status_end(call, agent_find(&agent, &screen)));
	if (agent.has_begun)
		err = agent.sync.to.provider->stop(&agent.at, false);
	else
		err = agent_stop_terminal(&agent);
	TRY(status_end(call, err));
	agent.may_have_files = true;
	agent_remove_files(&agent);
	if (!call_has(call, OPT_QUIET))
		print_line("%s", agent.run);
	call->exit = 0;
	return OK;
}

// -------------------------------------------------------------------------------- status, list

struct agent_rows {
	struct agent *agent;
	struct json_out *json; // NULL: a table
	struct grid *grid;
	const char *only; // a run; NULL: all
};

// `exit_code` -1: not known.
static void agent_put_row(struct agent_rows *rows, const char *run, const char *status,
			  int exit_code, const char *started_at, const char *ended_at)
{
	const struct sync *sync = &rows->agent->sync;
	auto_free char *state = exit_code < 0 ? mem_str(status)
					      : mem_fmt("%s %d", status, exit_code);

	if (strlen(run) != RUN_LEN || !str_starts(str_of(run), RUN_PREFIX) ||
	    (rows->only && strcmp(run, rows->only) != 0))
		return;
	if (rows->json) {
		json_begin(rows->json, '{');
		json_put_text(rows->json, "run", run);
		json_put_text(rows->json, "sandbox", sync->to.id);
		sync_put_path(rows->json, sync->path);
		json_put_text(rows->json, "state", status);
		if (exit_code >= 0)
			json_put_int(rows->json, "exitCode", exit_code);
		json_put_text(rows->json, "startedAt", started_at);
		if (*ended_at)
			json_put_text(rows->json, "endedAt", ended_at);
		json_end(rows->json, '}');
		return;
	}
	grid_add(rows->grid, run);
	grid_add(rows->grid, state);
	grid_add(rows->grid, started_at);
	grid_add(rows->grid, sync->to.id);
	grid_add(rows->grid, sync->path);
}

static int agent_on_process(void *arg, const struct cove_process_info *info)
{
	agent_put_row(arg, info->id, info->status, info->ended ? info->exit_code : -1,
		      info->start_time, info->end_time);
	return 0;
}

static int agent_on_screen(void *arg, const struct cove_terminal_info *info)
{
	agent_put_row(arg, info->id, info->ended ? "ended" : "running", -1, info->started_at, "");
	return 0;
}

static fallible agent_list_box(struct agent_rows *rows, const char *id)
{
	struct sync *sync = &rows->agent->sync;
	struct err *err = sync_open_owner(sync, id);

	if (!err)
		err = sync->to.provider->runs(&sync->to, agent_on_process, rows);
	if (!err && sync->to.box)
		err = remote_did(&sync->remote, cove_terminal_list(sync->to.box, agent_on_screen,
								   rows, &sync->remote.error));
	sync_box_done(&sync->to);
	free(take_ptr(sync->path));
	sync_state_done(&sync->state);
	// Never synced, or removed since the list was made: it has no runs.
	if (err && (!strcmp(err_reason(err), "other_worktree") ||
		    !strcmp(err_reason(err), "no_sandbox"))) {
		err_free(err);
		return OK;
	}
	if (err && !rows->only && !strcmp(err_reason(err), "bad_manifest")) {
		print_note("sandbox %s is left out: %s", id, err_message(err));
		err_free(err);
		return OK;
	}
	return err;
}

static fallible agent_list(struct agent *agent, const char *only)
{
	on_exit_call(sync_ids_done) struct sync_ids ids = {0};
	auto_free char *one = NULL;
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&text);
	auto_grid grid = {.columns = 5};
	bool json = call_has(agent->call, OPT_JSON);
	struct agent_rows rows = {agent, json ? &out : NULL, &grid, only};
	static const char *const heads[] = {"RUN", "STATE", "STARTED", "SANDBOX", "WORKTREE"};

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		grid_add(&grid, heads[i]);
	TRY(sync_connect(&agent->sync));
	if (!only)
		json_begin(&out, '[');
	if (only)
		TRY(agent_find_box(&agent->sync, only, &one));
	else
		TRY(sync_list(&agent->sync, &ids));
	if (one)
		TRY(agent_list_box(&rows, one));
	for (size_t i = 0; i < ids.count; i++)
		TRY(agent_list_box(&rows, ids.at[i]));
	if (!only)
		json_end(&out, ']');
	if (only && json && !text.len)
		return agent_no_run(only);
	if (json)
		print_json(buf_view(&text));
	else if (only && grid.count == grid.columns)
		return agent_no_run(only);
	else
		grid_print(&grid, stdout);
	return OK;
}

static fallible agent_list_of(struct call *call, const char *only)
{
	auto_agent agent;
	struct err *err = agent_begin(&agent, call);

	TRY(err);
	TRY(status_end(call, agent_list(&agent, only)));
	call->exit = 0;
	return OK;
}

fallible cli_agent_status(struct call *call)
{
	return agent_list_of(call, call->words[0]);
}

fallible cli_agent_list(struct call *call)
{
	return agent_list_of(call, NULL);
}
