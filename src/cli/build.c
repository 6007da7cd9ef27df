// The verb template build: packs the context, without what .dockerignore leaves out, sends it
// unless the server has it, and prints the log of the build. --print-plan stays here: the parser is
// the server's. --setup is a Dockerfile and a context of one file.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/stdio.h"
#include "cli/tar.h"
#include "codec/dockerignore.h"
#include "codec/tar.h"
#include "lib/fields.h"
#include "os/path.h"
#include "types/dockerfile.h"

#define IGNORE_MAX (1 << 20)
#define BUILD_PIECE (256 * 1024)
#define PLAN_MAX (8 << 20)
#define SECRET_MAX (64 * 1024)
#define SETUP_MAX (16 << 20)
#define SETUP_NAME "setup"
#define SETUP_AT "/tmp/.cove-setup"

// A text file; an absent one is empty if it may be.
static fallible text_read(const char *path, size_t max, bool may_lack, struct buf *out)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	char room[2048];
	size_t got = 1;

	if (fd < 0 && errno == ENOENT && may_lack)
		return OK;
	if (fd < 0)
		return err_hint(err_new(INVALID, "no_dockerfile", "cannot read '%s': %s", path,
					strerror(errno)),
				"name the Dockerfile by -f");
	while (got) {
		TRY(stdio_read(fd, room, sizeof(room), &got));
		buf_add(out, room, got);
	}
	if (!buf_ok(out))
		return err_new(TOO_LARGE, "body_too_large", "'%s' is larger than %zu bytes", path,
			       max);
	return OK;
}

struct leaving {
	struct str rules;
	bool has_exceptions;
};

static int context_leaves(void *arg, const char *path, bool is_directory)
{
	const struct leaving *leaving = arg;

	if (!dockerignore_drops(leaving->rules, str_of(path)))
		return 0;
	return is_directory && leaving->has_exceptions ? 2 : 1;
}

// Copies the stream to a file without a name.
static fallible cli_context_spool(int from, int to, bool quiet)
{
	auto_free char *room = mem_new(BUILD_PIECE);
	struct progress progress;
	struct err *err = OK;
	uint64_t packed = 0;
	size_t got = 1;

	progress_start(&progress, "packed", quiet);
	while (!err && got) {
		err = stdio_read(from, room, BUILD_PIECE, &got);
		for (size_t done = 0; !err && done < got;) {
			ssize_t put = write(to, room + done, got - done);

			if (put < 0 && errno != EINTR)
				err = err_new(NO_SPACE, "no_space", "cannot keep the context: %s",
					      strerror(errno));
			else if (put > 0)
				done += (size_t)put;
		}
		packed += got;
		progress_show(&progress, packed, 0);
	}
	progress_end(&progress);
	return err;
}

static fallible context_file(int *out)
{
	const char *temp = getenv("TMPDIR");

	*out = open(temp && temp[0] ? temp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*out >= 0)
		return OK;
	return err_hint(
		err_new(INVALID, "no_space", "cannot keep the context: %s", strerror(errno)),
		"name a directory with room by TMPDIR");
}

static fallible cli_context_pack(const struct call *call, const char *dir, struct str rules,
				 int *out)
{
	struct leaving leaving = {rules, dockerignore_has_exceptions(rules)};
	struct tar *tar = NULL;
	auto_fd fd = -1, spool = -1;

	TRY(context_file(&spool));
	TRY(tar_start(dir, context_leaves, &leaving, &tar, &fd));
	TRY(tar_close(tar, &fd, cli_context_spool(fd, spool, call_has(call, OPT_QUIET))));
	*out = take_fd(&spool);
	return OK;
}

// The script as the only file of a context.
static fallible setup_pack(struct str script, int *out)
{
	static const char zeros[3 * TAR_BLOCK];
	auto_free char *head = mem_new(TAR_HEAD_MAX);
	struct tar_head entry = {.type = TAR_FILE,
				 .path = STR(SETUP_NAME),
				 .target = STR(""),
				 .size = script.len,
				 .mode = 0755};
	size_t len = tar_write(&entry, head, TAR_HEAD_MAX);
	auto_fd spool = -1;

	TRY(context_file(&spool));
	TRY(stdio_write(spool, head, len));
	TRY(stdio_write(spool, script.at, script.len));
	TRY(stdio_write(spool, zeros, tar_padding(script.len) + 2 * TAR_BLOCK));
	*out = take_fd(&spool);
	return OK;
}

// Of a build: its Dockerfile, and the context, a directory or the script of --setup.
struct build_from {
	struct buf dockerfile, rules, script;
	const char *dir; // NULL: there is a script
};

static void build_from_done(struct build_from *from)
{
	buf_done(&from->dockerfile);
	buf_done(&from->rules);
	buf_done(&from->script);
}

static fallible cli_context_send(const struct call *call, struct remote *remote,
				 const struct build_from *from, char **out_digest)
{
	auto_fd fd = -1;

	TRY(from->dir ? cli_context_pack(call, from->dir, buf_view(&from->rules), &fd)
		      : setup_pack(buf_view(&from->script), &fd),
	    "pack the context");
	return remote_did(remote, cove_build_context(remote->cove, fd, out_digest, &remote->error));
}

// --build-arg, NULL-ended; a bare name has the value of our variable, and is left out without one.
static char **build_args(const struct call *call)
{
	char **args = mem_new_of(char *);
	const char *value = NULL;
	size_t count = 0;

	for (size_t at = 0; call_next(call, OPT_BUILD_ARG, &at, &value);) {
		const char *ours = strchr(value, '=') ? "" : getenv(value);

		if (!ours)
			continue;
		args = mem_grow(args, count + 2, sizeof(*args));
		args[count++] = strchr(value, '=') ? mem_str(value) : mem_fmt("%s=%s", value, ours);
		args[count] = NULL;
	}
	return args;
}

static void args_drop(char ***args)
{
	mem_free_list(*args);
}

static void pairs_wipe(char ***pairs)
{
	for (char **at = *pairs; at && *at; at++)
		secret_wipe(*at, strlen(*at));
	mem_free_list(*pairs);
}

struct secret_option {
	struct str id, src, env;
};

// id=ID[,src=FILE|,env=NAME]
static fallible secret_read_option(struct str text, struct secret_option *out)
{
	struct str part;

	while (str_cut(&text, ',', &part)) {
		if (str_starts(part, "id="))
			out->id = str_skip(part, strlen("id="));
		else if (str_starts(part, "src="))
			out->src = str_skip(part, strlen("src="));
		else if (str_starts(part, "env="))
			out->env = str_skip(part, strlen("env="));
		else if (!str_is(part, "type=file"))
			return err_hint(err_new(INVALID, "bad_argument",
						"'" STR_FMT "' is no part of a secret",
						STR_ARG(part)),
					"--secret id=ID,src=FILE or ,env=NAME");
	}
	return out->id.len ? OK
			   : err_hint(err_new(INVALID, "bad_argument", "a secret has no id"),
				      "--secret id=ID,src=FILE");
}

static fallible secret_value(const struct secret_option *secret, struct buf *out)
{
	struct str variable = secret->env.len ? secret->env : secret->id;
	auto_free char *name = mem_dup(variable.at, variable.len);
	const char *value = getenv(name);

	if (secret->src.len) {
		auto_free char *path = mem_dup(secret->src.at, secret->src.len);

		return text_read(path, SECRET_MAX, false, out);
	}
	if (!value)
		return err_hint(err_new(INVALID, "no_secret", "there is no variable %s", name),
				"--secret id=ID,src=FILE or ,env=NAME");
	buf_text(out, value);
	return buf_ok(out) ? OK : err_new(TOO_LARGE, "body_too_large", "a secret is too large");
}

// --secret as "ID=VALUE", NULL-ended.
static fallible build_secrets(const struct call *call, char ***out)
{
	const char *value = NULL;
	size_t count = 0;

	for (size_t at = 0; call_next(call, OPT_SECRET, &at, &value);) {
		auto_secret_buf text = BUF_SECRET(SECRET_MAX);
		struct secret_option secret = {0};

		TRY(secret_read_option(str_of(value), &secret));
		buf_str(&text, secret.id);
		buf_char(&text, '=');
		TRY(secret_value(&secret, &text));
		*out = mem_grow(*out, count + 2, sizeof(char *));
		(*out)[count++] = mem_dup(text.at, text.len);
		(*out)[count] = NULL;
	}
	return OK;
}

static fallible plan_print(struct str text, char *const *args, const char *target)
{
	auto_build_plan plan = {0};
	auto_buf out = BUF_INIT(PLAN_MAX);
	struct json_out json = json_to(&out);

	for (; *args; args++) {
		struct str rest = str_of(*args), name;

		str_cut(&rest, '=', &name);
		env_map_set(&plan.args, name, rest);
	}
	TRY(dockerfile_read(text, &plan));
	if (target)
		TRY(build_plan_choose(&plan, str_of(target)));
	json_begin(&json, '{');
	build_plan_write(&json, &plan);
	json_end(&json, '}');
	if (!buf_ok(&out))
		return err_new(TOO_LARGE, "body_too_large", "the plan is too large");
	print_json(buf_view(&out));
	return OK;
}

// Lines of the log, escaped: commands of the build must not control our terminal.
struct shower {
	bool quiet;
	struct buf line;
};

static int log_show(void *arg, const char *text, size_t len)
{
	struct shower *shower = arg;

	for (size_t i = 0; !shower->quiet && i < len; i++) {
		auto_buf shown = BUF_INIT(1 << 20);

		if (text[i] != '\n' && shower->line.len < 8192) {
			if (text[i] != '\r')
				buf_char(&shower->line, text[i]);
			continue;
		}
		print_escape(buf_view(&shower->line), &shown);
		fprintf(stderr, "%s\n", shown.at ? shown.at : "");
		buf_clear(&shower->line);
	}
	return 0;
}

static void shower_done(struct shower *shower)
{
	buf_done(&shower->line);
}

static fallible build_remote(struct call *call, const struct build_from *from, char *const *args)
{
	on_exit_call(shower_done) struct shower shower = {
		.quiet = call_has(call, OPT_QUIET) || call_has(call, OPT_JSON),
		.line = BUF_INIT(16384),
	};
	struct cove_build_options options = {
		.name = call_value(call, OPT_NAME),
		.dockerfile = buf_view(&from->dockerfile).at,
		.target = call_value(call, OPT_TARGET),
		.args = (const char *const *)args,
		.network = call_value(call, OPT_NETWORK),
		.pull = call_has(call, OPT_PULL),
		.no_cache = call_has(call, OPT_NO_CACHE),
		.keep_failed = call_has(call, OPT_KEEP_FAILED),
		.start = call_value(call, OPT_START),
		.ready = call_value(call, OPT_READY),
	};
	on_exit_call(pairs_wipe) char **secrets = NULL;
	auto_free char *digest = NULL, *text = NULL;
	auto_remote remote = {0};
	auto_json template = NULL;
	struct buf reply = {0};

	if (!options.name)
		return err_hint(err_new(INVALID, "no_name", "the template has no name"),
				"cove template build -t NAME %s", from->dir ? from->dir : "…");
	TRY(build_secrets(call, &secrets));
	options.secrets = (const char *const *)secrets;
	TRY(remote_open(&remote, call));
	interrupt_arm(remote.cove);
	TRY(cli_context_send(call, &remote, from, &digest));
	options.context = digest;
	TRY(remote_did(&remote, cove_template_build(remote.cove, &options, log_show, &shower, &text,
						    &remote.error)));
	TRY(json_read_any(str_of(text), &template));
	reply = (struct buf){.at = text, .len = strlen(text)};
	remote_print(call, &reply, fields_text(template, "name"));
	return OK;
}

// FROM, bind, RUN.
static fallible build_read_setup(const struct call *call, struct build_from *out)
{
	const char *image = call_value(call, OPT_FROM), *path = call_value(call, OPT_SETUP);
	bool own;

	if (!image || !path || call->word_count || call_has(call, OPT_FILE))
		return err_hint(err_new(INVALID, "bad_argument",
					"--from and --setup go together, without a directory"),
				"cove template build -t NAME --from IMAGE --setup FILE");
	if (!image[0] || strpbrk(image, " \t\n\\$\"'"))
		return err_new(INVALID, "bad_argument", "'%.80s' is no image or template", image);
	TRY(text_read(path, SETUP_MAX, false, &out->script));
	own = str_starts(buf_view(&out->script), "#!");
	buf_fmt(&out->dockerfile,
		"FROM %s\nRUN --mount=type=bind,source=" SETUP_NAME ",target=" SETUP_AT
		" [%s\"" SETUP_AT "\"]\n",
		image, own ? "" : "\"/bin/sh\",");
	return OK;
}

static fallible build_read_dir(const struct call *call, struct build_from *out)
{
	const char *named = call_value(call, OPT_FILE);
	auto_free char *path = NULL, *beside = NULL, *ignore = NULL;

	if (!call->word_count)
		return err_hint(err_new(INVALID, "bad_argument", "there is no context"),
				"cove template build -t NAME DIR, or --from IMAGE --setup FILE");
	out->dir = call->words[0];
	path = named ? mem_str(named) : mem_fmt("%s/Dockerfile", out->dir);
	beside = mem_fmt("%s.dockerignore", path);
	ignore = mem_fmt("%s/.dockerignore", out->dir);
	TRY(text_read(path, DOCKERFILE_MAX, false, &out->dockerfile));
	TRY(text_read(beside, IGNORE_MAX, true, &out->rules));
	return out->rules.len ? OK : text_read(ignore, IGNORE_MAX, true, &out->rules);
}

fallible cli_build(struct call *call)
{
	on_exit_call(args_drop) char **args = build_args(call);
	on_exit_call(build_from_done) struct build_from from = {
		.dockerfile = BUF_INIT(DOCKERFILE_MAX),
		.rules = BUF_INIT(IGNORE_MAX),
		.script = BUF_INIT(SETUP_MAX),
	};

	if (call_has(call, OPT_SETUP) || call_has(call, OPT_FROM))
		TRY(build_read_setup(call, &from));
	else
		TRY(build_read_dir(call, &from));
	buf_text(&from.dockerfile, "");
	if (call_has(call, OPT_PRINT_PLAN))
		return plan_print(buf_view(&from.dockerfile), args, call_value(call, OPT_TARGET));
	return build_remote(call, &from, args);
}
