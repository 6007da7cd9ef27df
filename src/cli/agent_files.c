// Places files before a run and removes them at its end. A secret is never written to a disk of the
// sandbox, so that no snapshot has it: it is a file of mode 0600 on a tmpfs, in a directory of the
// run, and PATH is a link to it. The same holds for any file within the worktree, since the links
// are told apart on the way back and never come back. The directory of the run has the path of each
// link, so that another caller of the run can remove them.
//
// Contents travel on standard input: they are in no argument, event or error.
#include "cli/agent_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "cli/provider.h"
#include "cli/stdio.h"
#include "sync/scrub.h"

#define FILE_BYTES_MAX (16u << 20)
#define PLACED_BYTES_MAX (512u << 10)

fallible agent_files_read(const char *path, size_t max, struct buf *out)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool fits = true;

	if (fd < 0)
		return err_new(INVALID, "no_file", "cannot read '%s': %s", path, strerror(errno));
	TRY(stdio_read_all(fd, out, &fits), "read '%s'", path);
	if (!fits || out->len > max)
		return err_new(TOO_LARGE, "file_too_large", "'%s' exceeds %zu KiB", path,
			       max >> 10);
	return OK;
}

struct agent_file {
	char *from;
	char *path; // absolute, in the sandbox
	bool is_secret;
	unsigned number; // of the run
};

static void agent_files_drop(struct agent_file *file)
{
	free(file->from);
	free(file->path);
}

// The part of the path beneath the worktree's copy; NULL: it is elsewhere.
static const char *agent_files_within(const struct sync *sync, const char *path)
{
	const char *home = sync->to.home;
	const size_t len = strlen(home);

	return !strncmp(path, home, len) && path[len] == '/' ? path + len + 1 : NULL;
}

// "FILE:PATH"; a relative PATH is one of the worktree.
static fallible agent_files_parse(const struct sync *sync, const char *word, struct agent_file *out)
{
	const char *colon = strrchr(word, ':'), *option = out->is_secret ? "secret" : "file";
	const char *within;

	if (!colon || colon == word || !colon[1])
		return err_hint(
			err_new(INVALID, "bad_value", "--%s '%s' is no FILE:PATH", option, word),
			"for example --%s ~/.netrc:/root/.netrc", option);
	out->from = mem_dup(word, (size_t)(colon - word));
	out->path = colon[1] == '/' ? mem_str(colon + 1)
				    : mem_fmt("%s/%s", sync->to.home, colon + 1);
	within = agent_files_within(sync, out->path);
	if (!within && sync->to.provider == &provider_local)
		return err_new(INVALID, "bad_value",
			       "with --provider local --%s places files in the worktree alone",
			       option);
	if (!file_list_is_path(str_of(out->path + 1)) ||
	    (within && file_list_is_git(str_of(within))))
		return err_new(INVALID, "bad_value", "'%s' is no path for a file", colon + 1);
	if (within &&
	    (file_list_find(&sync->host, within) || file_list_find(&sync->state.base, within) ||
	     file_list_has_beneath(&sync->host, within)))
		return err_hint(err_new(INVALID, "bad_value",
					"'%s' is a file of the worktree, which --%s would replace",
					within, option),
				"name another path");
	return OK;
}

static fallible agent_files_script(struct sync *sync, const char *const *argv, struct str input)
{
	on_exit_call(cove_output_free) struct cove_output output = {0};
	struct cove_command command = {
		.argv = argv,
		.cwd = "/",
		.user = call_value(sync->call, OPT_USER),
		.input = input.len ? input.at : NULL,
		.input_len = input.len,
	};

	TRY(sync->to.provider->exec(&sync->to, &command, &output));
	if (!output.result.exit_code)
		return OK;
	return err_new(INVALID, "cannot_place", "a file cannot be placed in the sandbox: %.200s",
		       output.err_len ? output.err : "its shell failed");
}

static fallible agent_files_place(struct sync *sync, const char *run, const struct agent_file *file,
				  struct str text)
{
	// clang-format off
	static const char script[] =
		"set -e\n"
		"d=" SYNC_PLACED "$1 p=${3%/*}\n"
		"[ -z \"$p\" ] || [ -d \"$p\" ] || mkdir -p -- \"$p\"\n"
		"umask 077\n"
		"[ -d \"$d\" ] || mkdir -- \"$d\"\n"
		"cat >\"$d/$2\"\n"
		"printf %s \"$3\" >\"$d/$2.path\"\n"
		"[ -L \"$3\" ] || [ ! -d \"$3\" ] || { echo \"'$3' is a directory\" >&2; exit 1; }\n"
		"rm -f -- \"$3\"\n"
		"ln -s -- \"$d/$2\" \"$3\"\n";
	// clang-format on
	char number[16];
	const char *const argv[] = {"sh", "-c", script, "place", run, number, file->path, NULL};

	snprintf(number, sizeof(number), "%u", file->number);
	return agent_files_script(sync, argv, text);
}

static fallible agent_files_write(struct sync *sync, const struct agent_file *to, struct str text)
{
	static const char script[] = "umask 077; rm -f -- \"$1\"; cat >\"$1\"\n";
	const char *const argv[] = {"sh", "-c", script, "write", to->path, NULL};
	struct remote *remote = &sync->remote;
	struct cove_file *file = NULL;
	enum cove_kind kind;

	if (!sync->to.box)
		return agent_files_script(sync, argv, text);
	kind = cove_file_create(sync->to.box, to->path, 0600, &file, &remote->error);
	if (!kind && text.len)
		kind = cove_file_write(file, text.at, text.len, &remote->error);
	if (!kind)
		kind = cove_file_commit(file, &remote->error);
	cove_file_free(file);
	return remote_did(remote, kind);
}

static fallible agent_files_put_one(struct sync *sync, const char *run, const char *word,
				    bool is_secret, unsigned number)
{
	on_exit_call(agent_files_drop) struct agent_file file = {.is_secret = is_secret,
								 .number = number};
	on_exit_call(secret_buf_done) struct buf text = BUF_INIT(FILE_BYTES_MAX + 65536);
	on_exit_call(secret_buf_done) struct buf clean = BUF_INIT(FILE_BYTES_MAX);
	bool in_memory;
	struct err *err;

	text.is_secret = clean.is_secret = is_secret;
	TRY(agent_files_parse(sync, word, &file));
	assert(file.from && file.path);
	in_memory = is_secret || agent_files_within(sync, file.path);
	TRY(agent_files_read(file.from, in_memory ? PLACED_BYTES_MAX : FILE_BYTES_MAX, &text));
	if (!in_memory)
		return agent_files_write(sync, &file, buf_view(&text));
	err = is_secret
		      ? scrub_secret(buf_view(&text), str_ends(str_of(file.from), ".json"), &clean)
		      : OK;
	if (err)
		return err_recast(err, ERR_INVALID, "bad_secret", "'%s' cannot be read as JSON",
				  file.from);
	return agent_files_place(sync, run, &file, buf_view(is_secret ? &clean : &text));
}

fallible agent_files_put(struct sync *sync, const char *run)
{
	unsigned number = 0;
	const char *word;

	for (size_t at = 0; call_next(sync->call, OPT_SECRET, &at, &word);)
		if (strchr(word, ':'))
			TRY(agent_files_put_one(sync, run, word, true, number++));
	for (size_t at = 0; call_next(sync->call, OPT_FILE, &at, &word);)
		TRY(agent_files_put_one(sync, run, word, false, number++));
	return OK;
}

fallible agent_files_remove(struct sync *sync, const char *run)
{
	// clang-format off
	static const char script[] =
		"d=" SYNC_PLACED "$1\n"
		"for f in \"$d\"/*.path; do\n"
		" [ -e \"$f\" ] || continue\n"
		" p=$(cat \"$f\"; echo x)\n"
		" rm -rf -- \"${p%x}\"\n"
		"done\n"
		"rm -rf -- \"$d\"\n";
	// clang-format on
	const char *const argv[] = {"sh", "-c", script, "remove", run, NULL};

	return agent_files_script(sync, argv, STR(""));
}
