// git of the toolbox, run in the sandbox as its user. No string of a client is passed to a shell.
// Credentials of a call are written to a pipe that git's only credential helper reads once: they
// are in no argument, environment or file of the sandbox, nor in an answer. Credentials inside of a
// URL are taken out of it before git sees it. Hooks, and transports by helpers, are off.
#include <ctype.h>
#include <stdio.h>

#include "codec/text.h"
#include "daytona/files_target.h"
#include "daytona/git_output.h"
#include "daytona/handlers.h"
#include "types/repo.h"

#define SHORT_MS 60000
#define LONG_MS 600000
#define OUTPUT_MAX (16 << 20)
#define ERROR_MAX (64 * 1024)
#define SHOWN_MAX 600
#define ARGS_MAX 48
#define FILES_MAX 4096
#define DEPTH_MAX 1000000
#define SECRET_MAX 8192
#define KEY_MAX 1024
#define HISTORY "--max-count=1000"

// A run of git in the sandbox: its arguments, output and credentials.
struct git_run {
	struct files_target *target;
	const char **argv; // NULL-ended
	size_t argc, room;
	struct str username, password; // at == NULL: none
	struct str before;	       // lines of stdin before the credentials
	uint64_t wall_ms;
	struct buf out, err;
	int exit_code;
};

static void git_run_done(struct git_run *git)
{
	buf_done(&git->out);
	buf_done(&git->err);
}

#define auto_git_run on_exit_call(git_run_done) struct git_run

static void git_arg(struct git_run *git, const char *word)
{
	if (git->argc + 1 < git->room)
		git->argv[git->argc++] = word;
	git->argv[git->argc] = NULL;
}

static void git_text_arg(struct git_run *git, struct str word)
{
	git_arg(git, arena_dup(git->target->x->arena, word.at, word.len));
}

#define git_args(git, ...) git_args_of(git, (const char *const[]){__VA_ARGS__, NULL})

static void git_args_of(struct git_run *git, const char *const *words)
{
	for (; *words; words++)
		git_arg(git, *words);
}

// `path`: the repository; NULL: none.
static void git_begin(struct git_run *git, struct files_target *target, const char *path,
		      uint64_t wall_ms, size_t more)
{
	git->target = target;
	git->room = ARGS_MAX + more;
	git->argv = arena_take(target->x->arena, git->room * sizeof(*git->argv));
	git->argc = 0;
	git->wall_ms = wall_ms;
	git->out = BUF_INIT(OUTPUT_MAX);
	git->err = BUF_INIT(ERROR_MAX);
	git_args(git, "sh", "-c", "exec 3<&0 </dev/null; exec \"$@\"", "sh", "git", "-c",
		 "core.hooksPath=/dev/null", "-c", "credential.helper=", "-c",
		 "protocol.ext.allow=never", "-c", "safe.directory=*");
	if (path)
		git_args(git, "-C", files_target_absolute(target, path));
}

static void git_silence_prompts(struct env_map *env)
{
	static const char *const pairs[][2] = {
		{"LC_ALL", "C"},
		{"GIT_TERMINAL_PROMPT", "0"},
		{"GIT_ASKPASS", "/bin/false"},
		{"SSH_ASKPASS", "/bin/false"},
		{"GIT_EDITOR", "true"},
		{"GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new"},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		env_map_set(env, str_of(pairs[i][0]), str_of(pairs[i][1]));
}

static void wipe_buf(struct buf *secret)
{
	buf_done(secret);
}

static fallible git_start(struct git_run *git)
{
	on_exit_call(wipe_buf) struct buf secret = BUF_SECRET(8 * SECRET_MAX);
	struct http *x = git->target->x;
	auto_pairs env = {0};
	struct manager_exec_spec spec = {.argv = git->argv, .env = &env, .wall_ms = git->wall_ms};
	struct exec_result result = {0};
	auto_manager_exec run = NULL;
	struct err *err;

	git_silence_prompts(&env);
	if (git->username.len || git->password.len) {
		buf_str(&secret, git->before);
		buf_fmt(&secret, "username=" STR_FMT "\npassword=" STR_FMT "\n",
			STR_ARG(git->username), STR_ARG(git->password));
		spec.stdin_bytes = buf_view(&secret);
	}
	err = manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0], &spec, &run);
	TRY(err);
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &result)));
	git->exit_code = result.exit_code;
	if (result.ending == ENDING_WALL_LIMIT)
		return err_new(TIMEOUT, "git_timeout", "git was ended by its time limit");
	return manager_exec_gather(run, &git->out, &git->err);
}

// ------------------------------------------------------------------------------------------ errors

// Errors by the words of git. The first row that matches counts.
static const struct {
	const char *words;
	enum err_kind kind;
	const char *reason;
} verdicts[] = {
	{"git: not found", ERR_NOT_OFFERED, "no_git"},
	{"not a git repository", ERR_NOT_FOUND, "git_no_repository"},
	{"does not appear to be a git repository", ERR_NOT_FOUND, "git_no_repository"},
	{"no such remote", ERR_NOT_FOUND, "git_no_repository"},
	{"cannot change to", ERR_NOT_FOUND, "git_no_repository"},
	{"authentication failed", ERR_UNAUTHENTICATED, "git_auth"},
	{"could not read username", ERR_UNAUTHENTICATED, "git_auth"},
	{"could not read password", ERR_UNAUTHENTICATED, "git_auth"},
	{"terminal prompts disabled", ERR_UNAUTHENTICATED, "git_auth"},
	{"permission denied (", ERR_UNAUTHENTICATED, "git_auth"},
	{"returned error: 403", ERR_FORBIDDEN, "git_forbidden"},
	{"returned error: 404", ERR_NOT_FOUND, "git_no_repository"},
	{"repository not found", ERR_NOT_FOUND, "git_no_repository"},
	{"' not found", ERR_NOT_FOUND, "git_no_repository"},
	{"remote rejected", ERR_CONFLICT, "git_remote_rejected"},
	{"[rejected]", ERR_CONFLICT, "git_push_rejected"},
	{"not possible to fast-forward", ERR_CONFLICT, "git_push_rejected"},
	{"would be overwritten", ERR_CONFLICT, "git_dirty"},
	{"commit your changes", ERR_CONFLICT, "git_dirty"},
	{"conflict", ERR_CONFLICT, "git_conflict"},
	{"remote branch", ERR_NOT_FOUND, "git_no_branch"},
	{"couldn't find remote ref", ERR_NOT_FOUND, "git_no_branch"},
	{"did not match any", ERR_NOT_FOUND, "git_no_branch"},
	{"invalid reference", ERR_NOT_FOUND, "git_no_branch"},
	{"not a valid branch name", ERR_INVALID, "bad_field"},
	{"a branch named", ERR_CONFLICT, "git_branch_exists"},
	{"cannot delete branch", ERR_CONFLICT, "git_branch_used"},
	{"nothing to commit", ERR_CONFLICT, "git_clean"},
	{"nothing added to commit", ERR_CONFLICT, "git_clean"},
	{"already exists", ERR_CONFLICT, "file_exists"},
	{"could not resolve host", ERR_INTERNAL, "git_transport"},
	{"failed to connect", ERR_INTERNAL, "git_transport"},
	{"unable to access", ERR_INTERNAL, "git_transport"},
	{"", ERR_INTERNAL, "git_failed"},
};

static bool git_says(const struct buf *text, const char *words)
{
	return text->len && strcasestr(text->at, words);
}

// The whole of git's words counts, its first lines are shown.
static fallible git_verdict(const struct git_run *git)
{
	auto_buf shown = BUF_INIT(4 * ERROR_MAX);
	const struct buf *words = git->err.len ? &git->err : &git->out;
	size_t i = 0;

	while (*verdicts[i].words && !git_says(&git->err, verdicts[i].words) &&
	       !git_says(&git->out, verdicts[i].words))
		i++;
	repo_redact(&shown,
		    (struct str){words->at, words->len < SHOWN_MAX ? words->len : SHOWN_MAX});
	return err_from(verdicts[i].kind, verdicts[i].reason,
			arena_fmt(git->target->x->arena, "git: " STR_FMT,
				  STR_ARG(str_trim(buf_view(&shown)))),
			NULL);
}

static fallible git_finish(struct git_run *git)
{
	TRY(git_start(git));
	return git->exit_code ? git_verdict(git) : OK;
}

// -------------------------------------------------------------------------------------------
// bodies

struct git_request {
	struct json *body;
	const char *path;
	struct str username, password;
};

static void git_request_done(struct git_request *request)
{
	json_free(request->body);
}

#define auto_git_request on_exit_call(git_request_done) struct git_request

static fallible git_check_secret(struct str text, const char *field)
{
	if (text.len > SECRET_MAX || (text.len && memchr(text.at, '\n', text.len)))
		return err_new(INVALID, "bad_field", "'%s' is too long, or has a line end", field);
	return OK;
}

static fallible git_request_read(struct files_target *target, struct git_request *out)
{
	struct str path = {0};

	TRY(gateway_object(target->x, &out->body));
	TRY(json_str(json_get(out->body, "path"), "path", &path));
	TRY(files_target_path(target, path, "path", &out->path));
	TRY(json_str(json_get(out->body, "username"), "username", &out->username));
	TRY(json_str(json_get(out->body, "password"), "password", &out->password));
	TRY(git_check_secret(out->username, "username"));
	return git_check_secret(out->password, "password");
}

static fallible git_word(const struct git_request *request, const char *key, bool required,
			 struct str *out)
{
	TRY(json_str(json_get(request->body, key), key, out));
	if (!out->len && required)
		return err_new(INVALID, "bad_field", "'%s' is missing", key);
	return out->len ? repo_check_branch(*out) : OK;
}

// -----------------------------------------------------------------------------------------
// transport

static bool unpercent(struct http *x, struct str text, struct str *out)
{
	auto_buf plain = BUF_INIT(SECRET_MAX);

	if (!text_unpercent(&plain, text))
		return false;
	*out = (struct str){arena_dup(x->arena, plain.at ? plain.at : "", plain.len), plain.len};
	return true;
}

// Takes "user:password@" out of an http URL; those of the request count more.
static fallible git_split_url(struct http *x, struct str url, struct git_request *request,
			      struct str *out)
{
	struct str rest = url, scheme, authority, user;
	const char *at;

	*out = url;
	if (!str_starts(url, "https://") && !str_starts(url, "http://"))
		return OK;
	str_cut(&rest, ':', &scheme);
	rest = str_skip(rest, 2);
	authority = rest;
	at = memchr(rest.at, '/', rest.len);
	if (at)
		authority.len = (size_t)(at - rest.at);
	at = authority.len ? memrchr(authority.at, '@', authority.len) : NULL;
	if (!at)
		return OK;
	*out = str_of(arena_fmt(x->arena, STR_FMT "://" STR_FMT, STR_ARG(scheme),
				STR_ARG(str_skip(rest, (size_t)(at - rest.at) + 1))));
	authority.len = (size_t)(at - authority.at);
	if (request->username.len || request->password.len)
		return OK;
	str_cut(&authority, ':', &user);
	if (!unpercent(x, user, &request->username) ||
	    (authority.at && !unpercent(x, authority, &request->password)))
		return err_new(INVALID, "bad_git_url", "the credentials in the URL are malformed");
	TRY(git_check_secret(request->username, "username"));
	return git_check_secret(request->password, "password");
}

static void git_authorize(struct git_run *git, const struct git_request *request)
{
	git->username = request->username;
	git->password = request->password;
	if (request->username.len || request->password.len)
		git_args(git, "-c", "credential.helper=!f() { test \"$1\" != get || cat <&3; }; f");
	else // what git_credentials() has stored
		git_args(git, "-c", "credential.helper=store");
}

static fallible git_insecure(const struct git_request *request, struct git_run *git)
{
	bool insecure = false;

	TRY(json_bool(json_get(request->body, "insecure_skip_tls"), "insecure_skip_tls",
		      &insecure));
	if (insecure)
		git_args(git, "-c", "http.sslVerify=false");
	return OK;
}

static bool git_is_hash(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isxdigit((unsigned char)text.at[i]))
			return false;
	return text.len >= 4 && text.len <= 64;
}

static fallible git_checkout_commit(struct files_target *target, const char *path,
				    struct str commit)
{
	auto_git_run git = {0};

	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "checkout", "--quiet", "--detach");
	git_text_arg(&git, commit);
	return git_finish(&git);
}

static fallible git_clone(struct files_target *target)
{
	struct str url = {0}, branch = {0}, commit = {0};
	auto_git_request request = {0};
	struct http *x = target->x;
	auto_git_run git = {0};
	uint64_t depth = 0;

	TRY(git_request_read(target, &request));
	TRY(json_str(json_get(request.body, "url"), "url", &url));
	TRY(repo_check(url));
	TRY(git_split_url(x, url, &request, &url));
	TRY(git_word(&request, "branch", false, &branch));
	TRY(json_str(json_get(request.body, "commit_id"), "commit_id", &commit));
	if (commit.len && !git_is_hash(commit))
		return err_new(INVALID, "bad_field", "'commit_id' must be hex digits");
	TRY(json_u64(json_get(request.body, "depth"), "depth", 0, DEPTH_MAX, &depth));
	git_begin(&git, target, NULL, LONG_MS, 0);
	git_authorize(&git, &request);
	TRY(git_insecure(&request, &git));
	git_args(&git, "clone", "--quiet", "--single-branch");
	if (depth)
		git_arg(&git, arena_fmt(x->arena, "--depth=%llu", (unsigned long long)depth));
	if (branch.len)
		git_arg(&git, arena_fmt(x->arena, "--branch=" STR_FMT, STR_ARG(branch)));
	git_arg(&git, "--");
	git_text_arg(&git, url);
	git_arg(&git, files_target_absolute(target, request.path));
	TRY(git_finish(&git));
	if (commit.len)
		TRY(git_checkout_commit(target, request.path, commit));
	return http_reply_empty(x, 200);
}

static fallible git_push(struct files_target *target)
{
	struct str branch = {0}, remote = {0};
	auto_git_request request = {0};
	auto_git_run git = {0};
	bool upstream = false;

	TRY(git_request_read(target, &request));
	TRY(git_word(&request, "branch", false, &branch));
	TRY(git_word(&request, "remote", false, &remote));
	TRY(json_bool(json_get(request.body, "set_upstream"), "set_upstream", &upstream));
	git_begin(&git, target, request.path, LONG_MS, 0);
	git_authorize(&git, &request);
	git_args(&git, "push", "--quiet");
	if (upstream)
		git_arg(&git, "--set-upstream");
	git_text_arg(&git, remote.len ? remote : STR("origin"));
	git_text_arg(&git, branch.len ? branch : STR("HEAD"));
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 200);
}

static fallible git_current_branch(struct files_target *target, const char *path, struct str *out)
{
	auto_git_run git = {0};
	struct str name;

	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "symbolic-ref", "--short", "HEAD");
	TRY(git_finish(&git));
	name = buf_view(&git.out);
	while (name.len && name.at[name.len - 1] == '\n')
		name.len--;
	*out = (struct str){arena_dup(target->x->arena, name.at ? name.at : "", name.len),
			    name.len};
	return OK;
}

static fallible git_pull(struct files_target *target)
{
	struct str branch = {0}, remote = {0};
	auto_git_request request = {0};
	auto_git_run git = {0};

	TRY(git_request_read(target, &request));
	TRY(git_word(&request, "branch", false, &branch));
	TRY(git_word(&request, "remote", false, &remote));
	if (!branch.len)
		TRY(git_current_branch(target, request.path, &branch));
	git_begin(&git, target, request.path, LONG_MS, 0);
	git_authorize(&git, &request);
	git_args(&git, "pull", "--quiet", "--ff-only");
	git_text_arg(&git, remote.len ? remote : STR("origin"));
	git_text_arg(&git, branch);
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 200);
}

// --------------------------------------------------------------------------------------- in the
// box

static fallible git_answer_text(struct git_run *git,
				void (*write)(struct str text, struct json_out *out))
{
	auto_buf body = BUF_INIT(4 * OUTPUT_MAX);
	struct json_out out = json_to(&body);

	write(buf_view(&git->out), &out);
	return http_reply_json(git->target->x, 200, &body);
}

static fallible git_status(struct files_target *target)
{
	auto_buf body = BUF_INIT(4 * OUTPUT_MAX);
	struct json_out out = json_to(&body);
	const char *path = NULL;
	auto_git_run git = {0};

	TRY(files_target_query(target, "path", &path));
	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all");
	TRY(git_finish(&git));
	if (!buf_ok(&git.out) || !git_output_status(buf_view(&git.out), &out))
		return err_new(INTERNAL, "git_failed",
			       "the status is too long, or was not understood");
	return http_reply_json(target->x, 200, &body);
}

static fallible git_history(struct files_target *target)
{
	const char *path = NULL;
	auto_git_run git = {0};

	TRY(files_target_query(target, "path", &path));
	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "log", "-z", HISTORY, "--format=%H%x00%an%x00%ae%x00%aI%x00%B");
	TRY(git_finish(&git));
	return git_answer_text(&git, git_output_history);
}

static fallible git_branches(struct files_target *target)
{
	const char *path = NULL;
	auto_git_run git = {0};

	TRY(files_target_query(target, "path", &path));
	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "for-each-ref", "--format=%(refname:short)", "refs/heads");
	TRY(git_finish(&git));
	return git_answer_text(&git, git_output_branches);
}

static fallible git_add(struct files_target *target)
{
	auto_git_request request = {0};
	auto_git_run git = {0};
	struct json *files;

	TRY(git_request_read(target, &request));
	files = json_get(request.body, "files");
	if (!files)
		return err_new(INVALID, "bad_field", "'files' is missing");
	TRY(json_want(files, "files", JSON_ARRAY));
	if (!json_count(files) || json_count(files) > FILES_MAX)
		return err_new(INVALID, "bad_field", "'files' must have 1 to %d entries",
			       FILES_MAX);
	git_begin(&git, target, request.path, SHORT_MS, json_count(files));
	git_args(&git, "add", "--");
	for (size_t i = 0; i < json_count(files); i++) {
		const char *file = NULL;

		TRY(files_target_path(target, json_chars(json_at(files, i)), "files", &file));
		git_arg(&git, file);
	}
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 200);
}

static fallible git_commit_answer(struct files_target *target, const char *path)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	auto_git_run git = {0};
	struct str hash, rest;

	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "rev-parse", "HEAD");
	TRY(git_finish(&git));
	rest = buf_view(&git.out);
	str_cut(&rest, '\n', &hash);
	json_begin(&out, '{');
	json_put_str(&out, "hash", hash);
	json_end(&out, '}');
	return http_reply_json(target->x, 200, &body);
}

static fallible git_commit(struct files_target *target)
{
	struct str message = {0}, author = {0}, email = {0};
	auto_git_request request = {0};
	struct http *x = target->x;
	auto_git_run git = {0};
	bool empty = false;

	TRY(git_request_read(target, &request));
	TRY(json_str(json_get(request.body, "message"), "message", &message));
	TRY(json_str(json_get(request.body, "author"), "author", &author));
	TRY(json_str(json_get(request.body, "email"), "email", &email));
	TRY(json_bool(json_get(request.body, "allow_empty"), "allow_empty", &empty));
	if (!message.len || !author.len || !email.len || message.len > ERROR_MAX)
		return err_new(INVALID, "bad_field",
			       "'message', 'author' or 'email' is missing, or too long");
	git_begin(&git, target, request.path, SHORT_MS, 0);
	git_args(&git, "-c", arena_fmt(x->arena, "user.name=" STR_FMT, STR_ARG(author)), "-c",
		 arena_fmt(x->arena, "user.email=" STR_FMT, STR_ARG(email)), "commit", "--quiet",
		 "--no-gpg-sign", "-m");
	git_text_arg(&git, message);
	if (empty)
		git_arg(&git, "--allow-empty");
	TRY(git_finish(&git));
	return git_commit_answer(target, request.path);
}

// A command with the name of a branch: checkout, and making and deleting one.
static fallible git_with_name(struct files_target *target, const char *key,
			      const char *const *words, int status)
{
	auto_git_request request = {0};
	auto_git_run git = {0};
	struct str name = {0};

	TRY(git_request_read(target, &request));
	TRY(git_word(&request, key, true, &name));
	git_begin(&git, target, request.path, SHORT_MS, 0);
	git_args_of(&git, words);
	git_text_arg(&git, name);
	git_arg(&git, "--");
	TRY(git_finish(&git));
	return http_reply_empty(target->x, status);
}

static fallible git_branch_create(struct files_target *target)
{
	return git_with_name(target, "name", (const char *const[]){"checkout", "-q", "-b", NULL},
			     201);
}

static fallible git_branch_delete(struct files_target *target)
{
	return git_with_name(target, "name", (const char *const[]){"branch", "-q", "-D", NULL},
			     204);
}

static fallible git_checkout(struct files_target *target)
{
	return git_with_name(target, "branch", (const char *const[]){"checkout", "-q", NULL}, 200);
}

// ------------------------------------------------------------------- repositories and changes

static fallible git_init(struct files_target *target)
{
	auto_git_request request = {0};
	auto_git_run git = {0};
	struct str branch = {0};
	bool bare = false;

	TRY(git_request_read(target, &request));
	TRY(json_bool(json_get(request.body, "bare"), "bare", &bare));
	TRY(git_word(&request, "initial_branch", false, &branch));
	git_begin(&git, target, NULL, SHORT_MS, 0);
	git_args(&git, "init", "--quiet");
	if (bare)
		git_arg(&git, "--bare");
	if (branch.len)
		git_arg(&git,
			arena_fmt(target->x->arena, "--initial-branch=" STR_FMT, STR_ARG(branch)));
	git_args(&git, "--", files_target_absolute(target, request.path));
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 201);
}

// The files of the request, behind "--". None unless `required`.
static fallible git_add_files(struct git_run *git, const struct git_request *request, bool required)
{
	const struct json *files = json_get(request->body, "files");

	if (files)
		TRY(json_want(files, "files", JSON_ARRAY));
	if (required && !(files && json_count(files)))
		return err_new(INVALID, "bad_field", "'files' must have 1 to %d entries",
			       FILES_MAX);
	git_arg(git, "--");
	for (size_t i = 0; files && i < json_count(files); i++) {
		const char *file = NULL;

		TRY(files_target_path(git->target, json_chars(json_at(files, i)), "files", &file));
		git_arg(git, file);
	}
	return OK;
}

static size_t git_count_files(const struct git_request *request)
{
	const struct json *files = json_get(request->body, "files");

	return files && json_type(files) == JSON_ARRAY && json_count(files) <= FILES_MAX
		       ? json_count(files)
		       : 0;
}

static fallible git_reset(struct files_target *target)
{
	static const char *const modes[] = {"soft", "mixed", "hard", "merge", "keep"};
	struct str mode = {0}, commit = {0};
	auto_git_request request = {0};
	auto_git_run git = {0};
	const char *option = NULL;
	size_t files;

	TRY(git_request_read(target, &request));
	TRY(json_str(json_get(request.body, "mode"), "mode", &mode));
	TRY(git_word(&request, "target", false, &commit));
	for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
		if (str_is(mode, modes[i]))
			option = arena_fmt(target->x->arena, "--%s", modes[i]);
	if (mode.len && !option)
		return err_new(INVALID, "bad_field",
			       "'mode' must be soft, mixed, hard, merge or keep");
	files = git_count_files(&request);
	if (files && option && !str_is(mode, "mixed"))
		return err_new(INVALID, "bad_field", "'files' are reset in mode mixed only");
	git_begin(&git, target, request.path, SHORT_MS, files);
	git_args(&git, "reset", "--quiet");
	if (option && !files)
		git_arg(&git, option);
	git_text_arg(&git, commit.len ? commit : STR("HEAD"));
	TRY(git_add_files(&git, &request, false));
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 200);
}

static fallible git_restore(struct files_target *target)
{
	bool staged = false, worktree = false;
	auto_git_request request = {0};
	auto_git_run git = {0};
	struct str source = {0};

	TRY(git_request_read(target, &request));
	TRY(json_bool(json_get(request.body, "staged"), "staged", &staged));
	TRY(json_bool(json_get(request.body, "worktree"), "worktree", &worktree));
	TRY(git_word(&request, "source", false, &source));
	git_begin(&git, target, request.path, SHORT_MS, git_count_files(&request));
	git_args(&git, "restore", "--quiet");
	if (staged)
		git_arg(&git, "--staged");
	if (worktree || !staged)
		git_arg(&git, "--worktree");
	if (source.len)
		git_arg(&git, arena_fmt(target->x->arena, "--source=" STR_FMT, STR_ARG(source)));
	TRY(git_add_files(&git, &request, true));
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 200);
}

static fallible git_remotes(struct files_target *target)
{
	const char *path = NULL;
	auto_git_run git = {0};

	TRY(files_target_query(target, "path", &path));
	git_begin(&git, target, path, SHORT_MS, 0);
	git_args(&git, "remote", "-v");
	TRY(git_finish(&git));
	return git_answer_text(&git, git_output_remotes);
}

static fallible git_remote_run(struct files_target *target, const char *path,
			       const char *const *words, struct str name, struct str url)
{
	auto_git_run git = {0};

	git_begin(&git, target, path, LONG_MS, 0);
	git_args_of(&git, words);
	git_text_arg(&git, name);
	if (url.len)
		git_text_arg(&git, url);
	return git_finish(&git);
}

static fallible git_remote_add(struct files_target *target)
{
	static const char *const add[] = {"remote", "add", "--", NULL};
	static const char *const replace[] = {"remote", "set-url", "--", NULL};
	static const char *const fetch[] = {"fetch", "--quiet", "--", NULL};
	bool fetches = false, overwrites = false;
	struct str name = {0}, url = {0};
	auto_git_request request = {0};
	struct err *err;

	TRY(git_request_read(target, &request));
	TRY(git_word(&request, "name", true, &name));
	TRY(json_str(json_get(request.body, "url"), "url", &url));
	TRY(json_bool(json_get(request.body, "fetch"), "fetch", &fetches));
	TRY(json_bool(json_get(request.body, "overwrite"), "overwrite", &overwrites));
	TRY(repo_check(url));
	TRY(git_split_url(target->x, url, &request, &url));
	err = git_remote_run(target, request.path, add, name, url);
	if (err && overwrites && !strcmp(err_reason(err), "file_exists")) {
		err_free(err);
		err = git_remote_run(target, request.path, replace, name, url);
	}
	TRY(err);
	if (fetches)
		TRY(git_remote_run(target, request.path, fetch, name, (struct str){0}));
	return http_reply_empty(target->x, 201);
}

// -------------------------------------------------------------------------------- configuration

static bool git_is_key(struct str key)
{
	for (size_t i = 0; i < key.len; i++)
		if ((unsigned char)key.at[i] < ' ')
			return false;
	return key.len && key.len <= KEY_MAX && key.at[0] != '-' && memchr(key.at, '.', key.len);
}

// Begins `git config` in a scope: global unless one is given. `path` counts for the local one.
static fallible git_config_begin(struct git_run *git, struct files_target *target, struct str scope,
				 struct str path)
{
	static const char *const scopes[] = {"global", "local", "system"};
	const char *option = scope.len ? NULL : "--global", *repository = NULL;

	for (size_t i = 0; i < sizeof(scopes) / sizeof(*scopes); i++)
		if (str_is(scope, scopes[i]))
			option = arena_fmt(target->x->arena, "--%s", scopes[i]);
	if (!option)
		return err_new(INVALID, "bad_field", "'scope' must be global, local or system");
	if (str_is(scope, "local"))
		TRY(files_target_path(target, path, "path", &repository));
	git_begin(git, target, repository, SHORT_MS, 0);
	git_args(git, "config", option);
	return OK;
}

static fallible git_config_get(struct files_target *target)
{
	struct http *x = target->x;
	struct str key = http_query(x, "key"), value;
	auto_buf body = BUF_INIT(4 * OUTPUT_MAX);
	struct json_out out = json_to(&body);
	auto_git_run git = {0};

	if (!git_is_key(key))
		return err_new(INVALID, "bad_field", "'key' must be SECTION.NAME");
	TRY(git_config_begin(&git, target, http_query(x, "scope"), http_query(x, "path")));
	git_args(&git, "--null", "--get");
	git_text_arg(&git, key);
	TRY(git_start(&git));
	if (git.exit_code > 1)
		return git_verdict(&git);
	value = buf_view(&git.out);
	json_begin(&out, '{');
	if (!git.exit_code && value.len)
		json_put_str(&out, "value", (struct str){value.at, value.len - 1});
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

static fallible git_config_write(struct files_target *target, const struct json *body,
				 struct str key, struct str value)
{
	struct str scope = {0}, path = {0};
	auto_git_run git = {0};

	TRY(json_str(json_get(body, "scope"), "scope", &scope));
	TRY(json_str(json_get(body, "path"), "path", &path));
	if (!git_is_key(key) || value.len > ERROR_MAX)
		return err_new(INVALID, "bad_field",
			       "'key' must be SECTION.NAME, and 'value' not too long");
	TRY(git_config_begin(&git, target, scope, path));
	git_args(&git, "--replace-all", "--");
	git_text_arg(&git, key);
	git_text_arg(&git, value);
	return git_finish(&git);
}

static fallible git_config_set(struct files_target *target)
{
	struct str key = {0}, value = {0};
	auto_json body = NULL;

	TRY(gateway_object(target->x, &body));
	TRY(json_str(json_get(body, "key"), "key", &key));
	TRY(json_str(json_get(body, "value"), "value", &value));
	if (!value.at)
		return err_new(INVALID, "bad_field", "'value' is missing");
	TRY(git_config_write(target, body, key, value));
	return http_reply_empty(target->x, 200);
}

static fallible git_config_user(struct files_target *target)
{
	struct str name = {0}, email = {0};
	auto_json body = NULL;

	TRY(gateway_object(target->x, &body));
	TRY(json_str(json_get(body, "name"), "name", &name));
	TRY(json_str(json_get(body, "email"), "email", &email));
	if (!name.len || !email.len)
		return err_new(INVALID, "bad_field", "'name' or 'email' is missing");
	TRY(git_config_write(target, body, STR("user.name"), name));
	TRY(git_config_write(target, body, STR("user.email"), email));
	return http_reply_empty(target->x, 200);
}

// Stores credentials in the sandbox, because the client asks for just that: in the file of git's
// own helper "store", which later runs of git read.
static fallible git_credentials(struct files_target *target)
{
	struct str host = STR("github.com"), protocol = STR("https");
	on_exit_call(wipe_buf) struct buf secret = BUF_SECRET(4 * SECRET_MAX);
	auto_git_request request = {0};
	auto_git_run git = {0};

	TRY(gateway_object(target->x, &request.body));
	TRY(json_str(json_get(request.body, "username"), "username", &request.username));
	TRY(json_str(json_get(request.body, "password"), "password", &request.password));
	TRY(json_str(json_get(request.body, "host"), "host", &host));
	TRY(json_str(json_get(request.body, "protocol"), "protocol", &protocol));
	TRY(git_check_secret(request.username, "username"));
	TRY(git_check_secret(request.password, "password"));
	TRY(git_check_secret(host, "host"));
	if (!request.username.len || !request.password.len || !host.len)
		return err_new(INVALID, "bad_field", "'username' or 'password' is missing");
	if (!str_is(protocol, "https") && !str_is(protocol, "http"))
		return err_new(INVALID, "bad_field", "'protocol' must be https or http");
	TRY(git_config_write(target, request.body, STR("credential.helper"), STR("store")));
	git_begin(&git, target, NULL, SHORT_MS, 0);
	git.argv[2] = "exec \"$@\""; // its stdin has the credentials
	git_args(&git, "-c", "credential.helper=store", "credential", "approve");
	buf_fmt(&secret, "protocol=" STR_FMT "\nhost=" STR_FMT "\n", STR_ARG(protocol),
		STR_ARG(host));
	git.before = buf_view(&secret);
	git.username = request.username;
	git.password = request.password;
	TRY(git_finish(&git));
	return http_reply_empty(target->x, 200);
}

// -------------------------------------------------------------------------------------------
// routes

#define SERVE(name)                                                                                \
	fallible daytona_git_##name(struct http *x)                                                \
	{                                                                                          \
		return files_target_serve(x, git_##name);                                          \
	}
SERVE(clone)
SERVE(status)
SERVE(history)
SERVE(branches)
SERVE(branch_create)
SERVE(branch_delete)
SERVE(checkout)
SERVE(add)
SERVE(commit)
SERVE(push)
SERVE(pull)
SERVE(init)
SERVE(reset)
SERVE(restore)
SERVE(remotes)
SERVE(remote_add)
SERVE(config_get)
SERVE(config_set)
SERVE(config_user)
SERVE(credentials)
