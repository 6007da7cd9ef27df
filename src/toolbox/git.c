// git runs in the box as the box's user. Its transports are allowed one by one, so that no URL
// starts a remote helper; URLs that git finds itself (submodules, redirects) are held to the same
// list. No string of a tenant is passed to a shell.
#include <stdio.h>

#include "base/clock.h"
#include "toolbox/exec_request.h"
#include "toolbox/handlers.h"
#include "toolbox/helper_exec.h"
#include "types/repo.h"

#define TIMEOUT_MS 600000
#define TIMEOUT_MAX (1ull << 31)
#define DEPTH_MAX 1000000
#define DIR_MAX 4096
#define ALLOW(protocol) "-c", "protocol." protocol ".allow=always"

struct checkout {
	struct str url, branch;
	const char *dir;
	uint64_t depth, timeout_ms;
	const char *field; // the field that was being read when reading failed
};

// A relative path starts at the session's directory, or at /workspace if there is no such session
// yet.
static fallible find_base(struct http *x, const struct json *json, const char **out)
{
	auto_session session = NULL;
	struct str named = {0};
	auto_box_ref ref = {0};

	*out = "/workspace";
	TRY(exec_request_session(x, json, &named));
	if (!named.len || str_is(named, SESSION_NONE))
		return OK;
	TRY(gateway_box(x, &ref));
	session = session_find(ref.box, named);
	if (session)
		*out = arena_fmt(x->arena, "%s", session_cwd(session));
	return OK;
}

static fallible git_read_body(struct http *x, const struct json *json, struct checkout *out)
{
	const char *base = "/workspace";
	struct str dir = {0};

	out->field = "repoUrl";
	if (!json)
		return err_new(INVALID, "bad_git_url", "the repository's URL is missing");
	TRY(json_want(json_get(json, "repoUrl"), "repoUrl", JSON_STRING));
	out->url = json_chars(json_get(json, "repoUrl"));
	TRY(repo_check(out->url));
	out->field = "branch";
	TRY(json_str(json_get(json, "branch"), "branch", &out->branch));
	if (out->branch.len)
		TRY(repo_check_branch(out->branch));
	out->field = "depth";
	TRY(json_u64(json_get(json, "depth"), "depth", 1, DEPTH_MAX, &out->depth));
	out->field = "timeoutMs";
	TRY(json_u64(json_get(json, "timeoutMs"), "timeoutMs", 1, TIMEOUT_MAX, &out->timeout_ms));
	out->field = "targetDir";
	TRY(json_str(json_get(json, "targetDir"), "targetDir", &dir));
	if (dir.len > DIR_MAX)
		return err_new(INVALID, "bad_field", "'targetDir' may have %d bytes", DIR_MAX);
	out->field = "sessionId";
	if (dir.len && dir.at[0] != '/')
		TRY(find_base(x, json, &base));
	if (!dir.len)
		dir = repo_name(out->url);
	out->dir = dir.at[0] == '/' ? arena_dup(x->arena, dir.at, dir.len)
				    : arena_fmt(x->arena, "%s/" STR_FMT, base, STR_ARG(dir));
	out->field = NULL;
	return OK;
}

static void git_set(struct env_map *env, const char *name, const char *value)
{
	env_map_set(env, str_of(name), str_of(value));
}

// Makes git and ssh fail instead of prompting: there is no terminal.
static void git_silence(struct env_map *env)
{
	git_set(env, "GIT_TERMINAL_PROMPT", "0");
	git_set(env, "GIT_ASKPASS", "/bin/false");
	git_set(env, "SSH_ASKPASS", "/bin/false");
	git_set(env, "GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new");
}

static fallible toolbox_git_clone(struct http *x, const struct checkout *checkout,
				  struct helper_exec *helper)
{
	const char *argv[40] = {
		"git",
		"-c",
		"protocol.allow=never",
		ALLOW("https"),
		ALLOW("http"),
		ALLOW("ssh"),
		ALLOW("git"),
		ALLOW("file"),
		"-c",
		"http.lowSpeedLimit=1024",
		"-c",
		"http.lowSpeedTime=30",
		"-c",
		"core.askPass=/bin/false",
		"clone",
		"--filter=blob:none",
	};
	size_t n = 0;
	char depth[32];
	auto_pairs env = {0};

	while (argv[n])
		n++;
	snprintf(depth, sizeof(depth), "--depth=%llu", (unsigned long long)checkout->depth);
	if (checkout->depth)
		argv[n++] = depth;
	if (checkout->branch.len)
		argv[n++] = arena_fmt(x->arena, "--branch=" STR_FMT, STR_ARG(checkout->branch));
	argv[n++] = "--";
	argv[n++] = arena_dup(x->arena, checkout->url.at, checkout->url.len);
	argv[n++] = checkout->dir;
	git_silence(&env);
	helper->argv = argv;
	helper->env = &env;
	helper->wall_ms = checkout->timeout_ms;
	return helper_exec_run(x, helper);
}

static bool git_mentions(const struct buf *text, const char *word)
{
	return text->len && strcasestr(text->at, word);
}

// Hints for the tenant, by text in git's output.
static const struct {
	const char *word, *hint;
} hints[] = {
	{"could not resolve host", "see what the sandbox's network lets out"},
	{"network is unreachable", "see what the sandbox's network lets out"},
	{"failed to connect", "see what the sandbox's network lets out"},
	{"authentication failed", "put a token into the URL, or an ssh key into the sandbox"},
	{"could not read username", "put a token into the URL, or an ssh key into the sandbox"},
	{"permission denied", "put a token into the URL, or an ssh key into the sandbox"},
	{"already exists", "name another targetDir, or empty that one"},
	{"remote branch", "see the branches with: git ls-remote"},
	{"", "the context's stderr has git's own words"},
};

static const char *hint_of(const struct buf *said)
{
	size_t i = 0;

	while (*hints[i].word && !git_mentions(said, hints[i].word))
		i++;
	return hints[i].hint;
}

// Maps git's result to an error. git exits with 128 for every fatal error. Cloudflare's SDK tells
// one of these from the others; other exit codes are judged by git's output.
static struct err *git_judge(const struct checkout *checkout, const struct helper_exec *helper,
			     const char *shown)
{
	const struct buf *said = &helper->err;
	bool fatal = helper->result.exit_code == 128;

	if (helper->result.ending == ENDING_WALL_LIMIT)
		return err_new(BAD_PEER, "git_network",
			       "Git clone timed out after %.15g seconds for '%s'",
			       (double)checkout->timeout_ms / 1000, shown);
	if (git_mentions(said, "repository not found"))
		return err_new(NOT_FOUND, "git_no_repository", "the repository '%s' was not found",
			       shown);
	if (!fatal && (git_mentions(said, "permission") || git_mentions(said, "authentication") ||
		       git_mentions(said, "credentials")))
		return err_new(UNAUTHENTICATED, "git_auth", "'%s' wants credentials", shown);
	if (!fatal && git_mentions(said, "already exists"))
		return err_new(CONFLICT, "git_clone", "the directory '%s' already exists",
			       checkout->dir);
	if (!fatal && git_mentions(said, "pathspec"))
		return err_new(NOT_FOUND, "git_no_branch", "'%s' has no such branch", shown);
	return err_new(CONFLICT, "git_failed", "git could not clone '%s'", shown);
}

static void git_write_context(struct buf *text, const struct checkout *checkout,
			      const struct helper_exec *helper)
{
	struct json_out out = json_to(text);
	auto_buf url = BUF_INIT(4 * REPO_URL_MAX), said = BUF_INIT(4 * HELPER_EXEC_OUTPUT_MAX);

	repo_redact(&url, checkout->url);
	repo_redact(&said, buf_view(&helper->err));
	json_begin(&out, '{');
	json_put_str(&out, "repository", buf_view(&url));
	if (checkout->dir)
		json_put_text(&out, "targetDir", checkout->dir);
	if (checkout->branch.len)
		json_put_str(&out, "branch", checkout->branch);
	json_put_int(&out, "exitCode", helper->result.exit_code);
	json_put_str(&out, "stderr", buf_view(&said));
	json_end(&out, '}');
}

static fallible git_fail(struct http *x, const struct checkout *checkout,
			 const struct helper_exec *helper, struct err *err)
{
	auto_buf context = BUF_INIT(1 << 20);
	struct error_response_detail detail = {.operation = "git.clone", .field = checkout->field};

	git_write_context(&context, checkout, helper);
	detail.context = buf_view(&context);
	return error_response_answer(x, err, &detail);
}

static fallible current_branch(struct http *x, const struct checkout *checkout, struct str *out)
{
	const char *argv[] = {"git", "-C", checkout->dir, "branch", "--show-current", NULL};
	auto_helper_exec helper = {.argv = argv, .wall_ms = 30000};
	struct str text;

	TRY(helper_exec_run(x, &helper));
	text = str_trim(buf_view(&helper.out));
	while (text.len && text.at[text.len - 1] == '\n')
		text.len--;
	*out = (struct str){arena_dup(x->arena, text.at ? text.at : "", text.len), text.len};
	return OK;
}

static fallible git_answer(struct http *x, const struct checkout *checkout)
{
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = gateway_success(&body);
	struct str branch = {0};

	TRY(current_branch(x, checkout, &branch));
	json_put_str(&out, "repoUrl", checkout->url);
	json_put_str(&out, "branch", branch);
	json_put_text(&out, "targetDir", checkout->dir);
	return gateway_answer(x, &out);
}

fallible toolbox_git_checkout(struct http *x)
{
	struct checkout checkout = {.timeout_ms = TIMEOUT_MS, .field = "body"};
	auto_helper_exec helper = {0};
	auto_json json = NULL;
	auto_buf shown = BUF_INIT(4 * REPO_URL_MAX);
	struct err *err = gateway_json(x, &json, NULL);

	if (!err)
		err = git_read_body(x, json, &checkout);
	if (!err)
		err = toolbox_git_clone(x, &checkout, &helper);
	if (!err && helper.result.exit_code != 0) {
		repo_redact(&shown, checkout.url);
		err = err_hint(git_judge(&checkout, &helper, shown.at ? shown.at : ""), "%s",
			       hint_of(&helper.err));
	}
	if (err)
		return git_fail(x, &checkout, &helper, err);
	return git_answer(x, &checkout);
}
