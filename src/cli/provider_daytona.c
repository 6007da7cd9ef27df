// The provider `daytona`: a server that speaks Daytona's public API, which DAYTONA_API_URL and
// DAYTONA_API_KEY name. Sandboxes are found by labels; a name that both callers choose alike makes
// a second one a conflict. Files travel as one archive in each direction, by upload and download;
// everything else is a command. The client speaks HTTP without TLS.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/provider_copy.h"
#include "cli/provider_run.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "os/fd.h"
#include "os/path.h"
#include "sync/apply.h"

#define BODY_MAX (4u << 20)
#define PIECE (256 * 1024)
#define GIB_MB 1024.0
#define IGNORED_MAX 4096 // directories that an archive leaves out by name

#define LABEL_WORKTREE "cove.worktree"
#define LABEL_MACHINE "cove.machine"

// ------------------------------------------------------------------------------------ requests

// The origin of an URL, and its path without a slash at the end. Both are the caller's.
static fallible daytona_split(const char *url, char **origin, char **path)
{
	const char *host = str_starts(str_of(url), "http://") ? url + 7 : NULL;
	size_t len = host ? strcspn(host, "/") : 0;

	if (!len)
		return err_hint(
			err_new(INVALID, "bad_url", "'%s' is no address of Daytona's API", url),
			"it looks like http://127.0.0.1:8484/daytona; https is not spoken "
			"here, so put a proxy before such a server");
	*origin = mem_dup(url, (size_t)(host + len - url));
	*path = mem_str(host + len);
	while (**path && (*path)[strlen(*path) - 1] == '/')
		(*path)[strlen(*path) - 1] = 0;
	return OK;
}

static fallible daytona_connect(struct sync_box *box, const struct call *call,
				struct remote *remote)
{
	const char *url = getenv("DAYTONA_API_URL"), *key = getenv("DAYTONA_API_KEY");
	auto_free char *origin = NULL;

	if (!url || !*url || !key || !*key)
		return err_new(INVALID, "no_server",
			       "--provider daytona needs DAYTONA_API_URL and DAYTONA_API_KEY");
	TRY(daytona_split(url, &origin, &box->api));
	TRY(remote_open_at(remote, origin, key));
	remote->call = call;
	box->remote = remote;
	interrupt_arm(remote->cove);
	return OK;
}

static fallible daytona_ask(const struct sync_box *box, const char *method, const char *rest,
			    const struct buf *body, struct json **out)
{
	auto_free char *path = mem_fmt("%s%s", box->api, rest);

	return remote_ask(box->remote, method, path, body, NULL, out);
}

// Of the sandbox itself.
static fallible daytona_tool(const struct sync_box *box, const char *method, const char *rest,
			     const struct buf *body, struct json **out)
{
	auto_free char *path = mem_fmt("%s/%s%s", box->tools, box->id, rest);

	return remote_ask(box->remote, method, path, body, NULL, out);
}

// ------------------------------------------------------------------------------------ commands

// Text for a shell that is one word, whatever bytes it has.
static void daytona_quote(const char *word, struct buf *out)
{
	buf_char(out, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buf_text(out, "'\\''");
		else
			buf_char(out, *word);
	}
	buf_char(out, '\'');
}

static fallible daytona_request(const struct sync_box *box, const char *method, const char *rest,
				const char *type, struct cove_request **out)
{
	auto_free char *path = mem_fmt("%s/%s%s", box->tools, box->id, rest);

	return remote_did(box->remote, cove_request_open(box->remote->cove, method, path, type, out,
							 &box->remote->error));
}

static fallible daytona_put(const struct sync_box *box, struct cove_request *request,
			    const void *bytes, size_t len)
{
	return remote_did(box->remote,
			  cove_request_write(request, bytes, len, &box->remote->error));
}

static void daytona_request_done(struct cove_request **request)
{
	cove_request_free(*request);
}
#define auto_request on_exit_call(daytona_request_done) struct cove_request *

static fallible daytona_drain(const struct sync_box *box, struct cove_request *request, int to)
{
	auto_free char *room = mem_new(PIECE);

	for (size_t got = 1; got > 0;) {
		TRY(remote_did(box->remote,
			       cove_request_read(request, room, PIECE, &got, &box->remote->error)));
		if (to >= 0 && fd_write_all(to, room, got) < 0)
			return err_new(NO_SPACE, "no_spool", "cannot write a temporary file: %s",
				       strerror(errno));
	}
	return OK;
}

// Writes a file there, of a form with one part. The bytes are those of a file here, or of a text.
static fallible daytona_upload(const struct sync_box *box, const char *path, int from,
			       struct str text)
{
	auto_free char *room = mem_new(PIECE);
	auto_free char *type = NULL, *head = NULL, *tail = NULL;
	auto_request request = NULL;
	char mark[33];
	ssize_t got;

	secret_hex(mark, 16);
	type = mem_fmt("multipart/form-data; boundary=%s", mark);
	head = mem_fmt(
		"--%s\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n%s\r\n"
		"--%s\r\nContent-Disposition: form-data; name=\"files[0].file\"; "
		"filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\n",
		mark, path, mark);
	tail = mem_fmt("\r\n--%s--\r\n", mark);
	TRY(daytona_request(box, "POST", "/files/bulk-upload", type, &request));
	TRY(daytona_put(box, request, head, strlen(head)));
	if (text.len)
		TRY(daytona_put(box, request, text.at, text.len));
	while (from >= 0 && (got = read(from, room, PIECE)) != 0) {
		if (got < 0)
			return err_sys(errno, "read a temporary file");
		TRY(daytona_put(box, request, room, (size_t)got));
	}
	TRY(daytona_put(box, request, tail, strlen(tail)));
	TRY(remote_did(box->remote, cove_request_finish(request, &box->remote->error)));
	return daytona_drain(box, request, -1);
}

static fallible daytona_download(const struct sync_box *box, const char *path, int to)
{
	auto_buf rest = BUF_INIT(64 * 1024);
	auto_request request = NULL;

	buf_text(&rest, "/files/download?path=");
	text_percent(&rest, str_of(path));
	TRY(daytona_request(box, "GET", rest.at, NULL, &request));
	return daytona_drain(box, request, to);
}

static fallible daytona_execute(const struct sync_box *box, const struct cove_command *command,
				const struct buf *text, struct cove_output *out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json answer = NULL;
	const char *result;

	json_begin(&json, '{');
	json_put_str(&json, "command", buf_view(text));
	if (command->cwd)
		json_put_text(&json, "cwd", command->cwd);
	if (command->env && *command->env) {
		json_put_begin(&json, "envs", '{');
		for (const char *const *env = command->env; *env; env++) {
			auto_free char *name = mem_dup(*env, strcspn(*env, "="));

			json_put_text(&json, name,
				      (*env)[strlen(name)] ? *env + strlen(name) + 1 : "");
		}
		json_end(&json, '}');
	}
	json_end(&json, '}');
	TRY(daytona_tool(box, "POST", "/process/execute", &body, &answer));
	if (!buf_ok(text))
		return err_new(TOO_LARGE, "too_large", "the command is too long");
	result = fields_text(answer, "result");
	*out = (struct cove_output){.out = mem_str(result),
				    .err = mem_str(result),
				    .out_len = strlen(result),
				    .err_len = strlen(result)};
	out->result.exit_code = (int)fields_number(answer, "exitCode", 255);
	return OK;
}

// Both streams of the command come as one text. Its input is a file there, which it alone reads.
static fallible daytona_exec(struct sync_box *box, const struct cove_command *command,
			     struct cove_output *out)
{
	auto_buf text = BUF_INIT(BODY_MAX);
	auto_free char *input = NULL;
	char random[17];

	if (command->input_len) {
		secret_hex(random, 8);
		input = mem_fmt("%s/.cove-agent/in/%s", box->user_home, random);
		TRY(daytona_upload(box, input, -1,
				   (struct str){command->input, command->input_len}));
	}
	for (size_t i = 0; command->argv[i]; i++) {
		if (i)
			buf_char(&text, ' ');
		daytona_quote(command->argv[i], &text);
	}
	buf_text(&text, " <");
	daytona_quote(input ? input : "/dev/null", &text);
	if (input) {
		buf_text(&text, "; s=$?; rm -f ");
		daytona_quote(input, &text);
		buf_text(&text, "; exit $s");
	}
	return daytona_execute(box, command, &text, out);
}

// A script with arguments, whose failure is an error.
static fallible daytona_script(struct sync_box *box, const char *script,
			       const char *const *arguments, struct cove_output *out)
{
	const char *argv[16] = {"sh", "-c", script, "cove"};
	struct cove_command command = {.argv = argv, .cwd = "/"};
	size_t count = 4;

	while (*arguments && count < sizeof(argv) / sizeof(*argv) - 1)
		argv[count++] = *arguments++;
	TRY(daytona_exec(box, &command, out));
	if (!out->result.exit_code)
		return OK;
	return err_new(BAD_PEER, "sandbox_failed", "a command in the sandbox failed: %.200s",
		       out->out_len ? out->out : "without a message");
}

// ----------------------------------------------------------------------------------- sandboxes

// Takes a sandbox of an answer: where its toolbox is, and that it has what is needed.
static fallible daytona_take(struct sync_box *box, const struct json *answer)
{
	static const char script[] =
		"umask 022; cd && mkdir -p workspace .cove-agent && "
		"chmod 700 .cove-agent && mkdir -p .cove-agent/in && "
		"for p in tar base64 setsid xargs; do command -v $p >/dev/null "
		"|| { echo \"it has no $p\"; exit 1; }; done && pwd";
	static const char *const none[] = {NULL};
	on_exit_call(cove_output_free) struct cove_output output = {0};
	auto_free char *origin = NULL;
	const char *id = fields_text(answer, "id");

	if (!*id || strchr(id, '/') || !*fields_text(answer, "toolboxProxyUrl"))
		return err_new(BAD_PEER, "bad_reply", "the answer is no sandbox of Daytona's API");
	free(box->id);
	free(take_ptr(box->tools));
	box->id = mem_str(id);
	TRY(daytona_split(fields_text(answer, "toolboxProxyUrl"), &origin, &box->tools));
	if (!origin || strcmp(origin, cove_url(box->remote->cove)) != 0)
		return err_new(NOT_OFFERED, "other_origin",
			       "the toolbox of the sandbox is at '%s', and not at the API's origin",
			       origin);
	TRY(daytona_script(box, script, none, &output));
	free(take_ptr(box->user_home));
	free(take_ptr(box->home));
	box->user_home = mem_dup(output.out, strcspn(output.out, "\n"));
	box->home = mem_fmt("%s/workspace", box->user_home);
	return OK;
}

// Starts one that is stopped.
static fallible daytona_wake(struct sync_box *box, struct json **answer)
{
	auto_free char *path = NULL;
	const char *state = fields_text(*answer, "state");

	if (strcmp(state, "stopped") != 0 && strcmp(state, "archived") != 0 &&
	    strcmp(state, "paused") != 0)
		return OK;
	path = mem_fmt("/sandbox/%s/start", fields_text(*answer, "id"));
	json_free(take_ptr(*answer));
	return daytona_ask(box, "POST", path, NULL, answer);
}

static fallible daytona_find(struct sync_box *box, const char *label, const char *value,
			     struct json **out)
{
	auto_buf labels = BUF_INIT(4096), path = BUF_INIT(16384);
	struct json_out json = json_to(&labels);

	json_begin(&json, '{');
	json_put_text(&json, label, value);
	json_end(&json, '}');
	buf_text(&path, "/sandbox?limit=200&labels=");
	text_percent(&path, buf_view(&labels));
	return daytona_ask(box, "GET", path.at, NULL, out);
}

static fallible daytona_create_body(const struct provider_owner *owner,
				    const struct cove_box_spec *make, const char *name,
				    struct buf *out)
{
	struct json_out json = json_to(out);

	if (make->pids || make->inodes || make->io_mbps || make->cpu_time_ms ||
	    (make->secrets && *make->secrets) || (make->volumes && *make->volumes))
		return err_new(INVALID, "not_offered",
			       "--provider daytona has no limits but --memory, --cpus and --disk, "
			       "no secrets of a tenant and no volumes");
	json_begin(&json, '{');
	json_put_text(&json, "name", name);
	if (make->from)
		json_put_text(&json, "snapshot", make->from);
	if (make->image) {
		auto_free char *from = mem_fmt("FROM %s\n", make->image);

		json_put_begin(&json, "buildInfo", '{');
		json_put_text(&json, "dockerfileContent", from);
		json_end(&json, '}');
	}
	json_put_begin(&json, "labels", '{');
	json_put_text(&json, LABEL_WORKTREE, owner->identity);
	json_put_text(&json, LABEL_MACHINE, owner->machine);
	json_end(&json, '}');
	if (make->memory_mb) {
		json_key(&json, "memory");
		json_add_double(&json, (double)make->memory_mb / GIB_MB);
	}
	if (make->disk_mb) {
		json_key(&json, "disk");
		json_add_double(&json, (double)make->disk_mb / GIB_MB);
	}
	if (make->cpus > 0) {
		json_key(&json, "cpu");
		json_add_double(&json, make->cpus);
	}
	if (make->network && !strcmp(make->network, "off"))
		json_put_bool(&json, "networkBlockAll", true);
	if (make->network && !strcmp(make->network, "allow") && make->allow) {
		auto_buf names = BUF_INIT(64 * 1024);

		for (size_t i = 0; make->allow[i]; i++)
			buf_fmt(&names, "%s%s", i ? "," : "", make->allow[i]);
		json_put_str(&json, "domainAllowList", buf_view(&names));
	}
	json_end(&json, '}');
	return OK;
}

// Another caller may make it meanwhile: then that one is taken.
static fallible daytona_create(struct sync_box *box, const struct provider_owner *owner,
			       const struct cove_box_spec *make, struct json **out)
{
	auto_free char *name = mem_fmt("wt-%.40s", owner->identity);
	auto_free char *path = mem_fmt("/sandbox/%s", name);
	auto_buf body = BUF_INIT(BODY_MAX);
	struct err *err;

	TRY(daytona_create_body(owner, make, name, &body));
	err = daytona_ask(box, "POST", "/sandbox", &body, out);
	if (!err || err_kind(err) != ERR_CONFLICT)
		return err;
	err_free(err);
	return daytona_ask(box, "GET", path, NULL, out);
}

static fallible daytona_get(struct sync_box *box, const char *id, struct json **out)
{
	auto_buf path = BUF_INIT(4096);

	buf_text(&path, "/sandbox/");
	text_percent(&path, str_of(id));
	return daytona_ask(box, "GET", path.at, NULL, out);
}

static fallible daytona_open(struct sync_box *box, const struct provider_owner *owner,
			     const struct cove_box_spec *make)
{
	auto_free char *name = mem_fmt("wt-%.40s", owner->identity);
	auto_json answer = NULL;
	auto_json found = NULL;

	TRY(provider_copy_store(box, name));
	if (owner->given) {
		TRY(daytona_get(box, owner->given, &answer));
	} else {
		const struct json *items;

		TRY(daytona_find(box, LABEL_WORKTREE, owner->identity, &found));
		items = json_get(found, "items");
		if (items && json_count(items) > 0)
			TRY(daytona_get(box, fields_text(json_at(items, 0), "id"), &answer));
		else if (make)
			TRY(daytona_create(box, owner, make, &answer));
		else
			return err_hint(err_new(NOT_FOUND, "no_sandbox", "'%s' has no sandbox",
						owner->worktree),
					"'cove sync in' makes one");
	}
	TRY(daytona_wake(box, &answer));
	return daytona_take(box, answer);
}

static fallible daytona_list(struct sync_box *box, const char *machine, struct sync_ids *out)
{
	auto_json found = NULL;
	const struct json *items;

	TRY(daytona_find(box, LABEL_MACHINE, machine, &found));
	items = json_get(found, "items");
	for (size_t i = 0; items && i < json_count(items); i++)
		sync_ids_add(out, fields_text(json_at(items, i), "id"),
			     fields_text(json_at(items, i), "name"));
	return OK;
}

static fallible daytona_at(struct sync_box *box, const char *id)
{
	auto_json answer = NULL;

	TRY(daytona_get(box, id, &answer));
	TRY(provider_copy_store(box, fields_text(answer, "name")));
	TRY(daytona_wake(box, &answer));
	return daytona_take(box, answer);
}

static fallible daytona_destroy(struct sync_box *box)
{
	auto_free char *path = mem_fmt("/sandbox/%s", box->id);
	struct err *err = daytona_ask(box, "DELETE", path, NULL, NULL);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = OK;
	}
	TRY(err);
	return path_remove(AT_FDCWD, box->store);
}

// --------------------------------------------------------------------------------------- files

// Directories that git ignores there as a whole, without a file of the last sync: options that
// leave them out of the archive. A sandbox without git has none.
static fallible daytona_ignored(struct sync_box *box, const struct file_list *base, char **out)
{
	static const char script[] = "cd \"$1\" && git -c safe.directory='*' ls-files -z -o -i "
				     "--exclude-standard --directory 2>/dev/null || true";
	on_exit_call(cove_output_free) struct cove_output output = {0};
	const char *const arguments[] = {box->home, NULL};
	auto_buf words = BUF_INIT(1 << 20);
	struct str rest, path;

	TRY(daytona_script(box, script, arguments, &output));
	rest = (struct str){output.out, output.out_len};
	for (size_t i = 0; i < IGNORED_MAX && rest.len && str_cut(&rest, 0, &path); i++) {
		auto_free char *name = mem_dup(path.at, path.len ? path.len - 1 : 0);
		auto_free char *word = mem_fmt("--exclude=./%s", name);

		if (!str_ends(path, "/") || file_list_has_beneath(base, name))
			continue;
		buf_char(&words, ' ');
		daytona_quote(word, &words);
	}
	*out = words.at ? buf_take(&words) : mem_str("");
	return OK;
}

// Packs the copy there and fetches the archive.
static fallible daytona_fetch(struct sync_box *box, const struct file_list *base, int to)
{
	auto_free char *ignored = NULL, *file = NULL;
	on_exit_call(cove_output_free) struct cove_output output = {0};
	auto_buf text = BUF_INIT(BODY_MAX);
	struct cove_command command = {.cwd = "/"};
	char random[17];
	struct err *err;

	secret_hex(random, 8);
	file = mem_fmt("%s/.cove-agent/in/%s", box->user_home, random);
	TRY(daytona_ignored(box, base, &ignored));
	buf_text(&text, "umask 077; cd ");
	daytona_quote(box->home, &text);
	buf_fmt(&text,
		" && tar -cf '%s' --exclude=.git --anchored --no-wildcards%s . 2>&1 "
		"|| [ $? -eq 1 ]",
		file, ignored);
	err = daytona_execute(box, &command, &text, &output);
	if (!err && output.result.exit_code)
		err = err_new(BAD_PEER, "sandbox_failed", "tar failed in the sandbox: %.200s",
			      output.out);
	if (!err)
		err = daytona_download(box, file, to);
	cove_output_free(&output);
	buf_clear(&text);
	buf_fmt(&text, "rm -f '%s'", file);
	err_free(daytona_execute(box, &command, &text, &output));
	return err;
}

// Unpacks the archive into a directory of this host, by the way that changes a worktree: no name
// of it leads out.
static fallible daytona_unpack(struct sync_box *box, int archive)
{
	static const struct file_list nothing;
	struct sync_box inner = *box;
	auto_file_list all = {0};
	auto_plan plan = {0};
	struct err *err;

	inner.spool = open(box->store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	inner.spooled = 0;
	if (inner.spool < 0)
		return err_sys(errno, "make a temporary file");
	err = sync_box_unpack(&inner, archive, &all);
	if (!err) {
		plan_make(&nothing, NULL, &all, &nothing, PLAN_EXACT, &plan);
		err = apply_plan(box->copy, inner.spool, &plan);
	}
	fd_drop(&inner.spool);
	return err;
}

static fallible daytona_read(struct sync_box *box, const struct file_list *base,
			     struct file_list *out)
{
	auto_fd store = open(box->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd archive = open(box->store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (store < 0 || archive < 0)
		return err_new(INVALID, "no_store", "cannot open '%s': %s", box->store,
			       strerror(errno));
	TRY(path_remove(store, "copy"));
	fd_drop(&box->copy);
	TRY(path_dir(store, "copy", 0700, &box->copy));
	TRY(daytona_fetch(box, base, archive));
	lseek(archive, 0, SEEK_SET);
	TRY(daytona_unpack(box, archive));
	return provider_copy_read(box, base, out);
}

static fallible daytona_send(struct sync_box *box, int root, const struct plan *plan)
{
	// clang-format off
	static const char script[] =
		"cd \"$1\" || exit\n"
		"d=$2.d t=$2.t s=0\n"
		"xargs -0 -r rm -f -- <\"$d\" || s=1\n"
		"xargs -0 -r dirname -z -- <\"$d\" | sort -zu | xargs -0 -r rmdir -p --ignore-fail-on-non-empty -- 2>/dev/null\n"
		"[ ! -e \"$t\" ] || tar -xpf \"$t\" --no-same-owner || s=1\n"
		"rm -f \"$d\" \"$t\"\n"
		"exit $s\n";
	// clang-format on
	on_exit_call(cove_output_free) struct cove_output output = {0};
	auto_fd archive = open(box->store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	auto_free char *file = NULL, *deleted = NULL, *packed = NULL;
	auto_buf paths = BUF_INIT(64u << 20);
	const char *arguments[3] = {box->home};
	char random[17];

	if (archive < 0)
		return err_sys(errno, "make a temporary file");
	secret_hex(random, 8);
	arguments[1] = file = mem_fmt("%s/.cove-agent/in/%s", box->user_home, random);
	deleted = mem_fmt("%s.d", file);
	packed = mem_fmt("%s.t", file);
	for (size_t i = 0; i < plan->change_count; i++)
		if (!plan->changes[i].to)
			buf_fmt(&paths, "./%s%c", plan->changes[i].path, 0);
	TRY(daytona_upload(box, deleted, -1, buf_view(&paths)));
	if (plan->written) {
		TRY(sync_box_pack(box, root, plan, archive));
		lseek(archive, 0, SEEK_SET);
		TRY(daytona_upload(box, packed, archive, STR("")));
	}
	return daytona_script(box, script, arguments, &output);
}

const struct provider provider_daytona = {
	.name = "daytona",
	.instead =
		"--provider local --allow-local runs the command on this host, without a sandbox",
	.connect = daytona_connect,
	.open = daytona_open,
	.at = daytona_at,
	.list = daytona_list,
	.destroy = daytona_destroy,
	.exec = daytona_exec,
	.state = provider_copy_state,
	.keep = provider_copy_keep,
	.read = daytona_read,
	.fetch = provider_copy_fetch,
	.send = daytona_send,
	.start = provider_run_start,
	.next = provider_run_next,
	.stop = provider_run_stop,
	.has = provider_run_has,
	.runs = provider_run_list,
};
