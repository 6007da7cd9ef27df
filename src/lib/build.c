// Builds templates: sends the context unless the server has it, begins the operation, passes on its
// log.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/operation.h"

#define BUILD_BODY_MAX (1 << 20)
#define BUILD_PIECE (256 * 1024)

static fallible build_put_pairs(struct json_out *out, const char *name, const char *const *args)
{
	json_put_begin(out, name, '{');
	for (; args && *args; args++) {
		struct str rest = str_of(*args), word;
		auto_free char *key = NULL;

		if (!strchr(*args, '=') || **args == '=')
			return err_new(INVALID, "bad_argument",
				       "an entry of '%s' is not NAME=VALUE", name);
		str_cut(&rest, '=', &word);
		key = mem_dup(word.at, word.len);
		json_put_str(out, key, rest);
	}
	json_end(out, '}');
	return OK;
}

static fallible build_put(struct json_out *out, const struct cove_build_options *options)
{
	json_begin(out, '{');
	json_put_text(out, "name", options->name);
	json_put_text(out, "dockerfile", options->dockerfile);
	if (options->context)
		json_put_text(out, "context", options->context);
	if (options->target)
		json_put_text(out, "target", options->target);
	if (options->args)
		TRY(build_put_pairs(out, "args", options->args));
	if (options->secrets)
		TRY(build_put_pairs(out, "secrets", options->secrets));
	if (options->network) {
		json_put_begin(out, "network", '{');
		json_put_text(out, "mode", options->network);
		json_end(out, '}');
	}
	if (options->start)
		json_put_text(out, "start", options->start);
	if (options->ready)
		json_put_text(out, "ready", options->ready);
	if (options->pull)
		json_put_bool(out, "pull", true);
	if (options->no_cache)
		json_put_bool(out, "noCache", true);
	if (options->keep_failed)
		json_put_bool(out, "keepFailed", true);
	json_end(out, '}');
	return OK;
}

struct build_each {
	cove_build_fn *each;
	void *arg;
};

static fallible build_event(void *arg, const struct json *event)
{
	const struct build_each *to = arg;
	struct str text = json_chars(json_get(event, "text"));

	if (to->each && text.len && to->each(to->arg, text.at, text.len))
		return err_new(CANCELLED, "cancelled", "the build was cancelled");
	return OK;
}

static fallible build_template(struct cove *cove, const struct cove_build_options *options,
			       cove_build_fn *each, void *arg, char **out_json)
{
	struct build_each to = {each, arg};
	auto_buf body = BUF_INIT(BUILD_BODY_MAX);
	struct json_out json = json_to(&body);
	auto_json reply = NULL;

	if (!options->name || !options->dockerfile)
		return err_new(INVALID, "bad_field", "a build has a name and a Dockerfile");
	TRY(build_put(&json, options));
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "body_too_large", "the Dockerfile is too large");
	TRY(http_call_json(cove, "POST", "/v1/builds?wait=false", &body, &reply));
	return operation_finish(cove, fields_text(reply, "id"), build_event, &to, out_json);
}

enum cove_kind cove_template_build(struct cove *cove, const struct cove_build_options *options,
				   cove_build_fn *each, void *arg, char **out_json,
				   struct cove_error *error)
{
	return private_call(cove, build_template(cove, options, each, arg, out_json), error);
}

// ----------------------------------------------------------------------------------------- context

// The next piece of the file; 0: its end.
static fallible context_read(int fd, uint64_t at, char *room, size_t *out)
{
	ssize_t got;

	do
		got = pread(fd, room, BUILD_PIECE, (off_t)at);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_new(INVALID, "no_context", "cannot read the context: %s",
			       strerror(errno));
	*out = (size_t)got;
	return OK;
}

static fallible context_digest(int fd, char *room, char **out)
{
	char hex[SHA256_HEX + 1];
	struct sha256 hash;
	uint64_t at = 0;
	size_t got = 1;

	sha256_begin(&hash);
	for (; got; at += got) {
		TRY(context_read(fd, at, room, &got));
		sha256_add(&hash, room, got);
	}
	sha256_end(&hash, hex);
	*out = mem_fmt("sha256:%s", hex);
	return OK;
}

static fallible context_put(struct cove *cove, const char *path, int fd, char *room)
{
	on_exit_call(request_done) struct cove_request request = {
		.cove = cove, .method = "PUT", .path = path, .type = "application/x-tar"};
	auto_buf reply = BUF_INIT(BUILD_BODY_MAX);
	uint64_t at = 0;
	size_t got = 1;

	TRY(request_begin(&request));
	for (; got; at += got) {
		TRY(context_read(fd, at, room, &got));
		if (got)
			TRY(request_write(&request, room, got));
	}
	TRY(request_finish(&request));
	return request_body(&request, &reply);
}

static fallible build_context(struct cove *cove, int fd, char **out_digest)
{
	auto_free char *room = mem_new(BUILD_PIECE);
	auto_free char *digest = NULL, *path = NULL;
	auto_buf reply = BUF_INIT(BUILD_BODY_MAX);
	struct err *err;

	TRY(context_digest(fd, room, &digest));
	path = mem_fmt("/v1/blobs/%s", digest);
	err = http_call_text(cove, "GET", path, NULL, NULL, &reply);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = context_put(cove, path, fd, room);
	}
	TRY(err);
	*out_digest = take_ptr(digest);
	return OK;
}

enum cove_kind cove_build_context(struct cove *cove, int fd, char **out_digest,
				  struct cove_error *error)
{
	return private_call(cove, build_context(cove, fd, out_digest), error);
}
