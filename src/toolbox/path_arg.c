// A path is bytes. It is sent to the box as given, only made absolute by a prefix: ".." and
// symbolic links are resolved in the box, by the kernel, with the credentials of the box's user.
// The daemon never opens a tenant's path itself.
#include "toolbox/path_arg.h"

#include <stdio.h>

#include "base/clock.h"
#include "codec/text.h"
#include "manager/exec.h"

#define USER_MAX 64
#define CONTEXT_MAX (64 * 1024)
#define BODY_MAX (64 * 1024)

void path_arg_within(struct path_arg *path_arg, int64_t ms)
{
	path_arg->files.deadline = loop_now(gateway_of(path_arg->x)->loop) + ms;
}

fallible path_arg_bad(struct path_arg *path_arg, const char *field, const char *code,
		      const char *why)
{
	path_arg_at(path_arg, field, code);
	return err_new(INVALID, "bad_field", "'%s' %s", field, why);
}

static const struct json *path_arg_member(const struct path_arg *path_arg, const char *name)
{
	return json_get(path_arg->fields ? path_arg->fields : path_arg->json, name);
}

fallible path_arg_flag(struct path_arg *path_arg, const char *name, bool *out)
{
	path_arg_at(path_arg, name, "INVALID_TYPE");
	TRY(json_bool(path_arg_member(path_arg, name), name, out));
	path_arg->field = NULL;
	return OK;
}

fallible path_arg_number(struct path_arg *path_arg, const char *name, uint64_t min, uint64_t max,
			 uint64_t *out)
{
	path_arg_at(path_arg, name, "INVALID_NUMBER");
	TRY(json_u64(path_arg_member(path_arg, name), name, min, max, out));
	path_arg->field = NULL;
	return OK;
}

fallible path_arg_encoding(struct path_arg *path_arg, bool *out_base64, bool *out_named)
{
	struct str text = {0};

	path_arg_at(path_arg, "encoding", "INVALID_ENCODING");
	TRY(json_str(path_arg_member(path_arg, "encoding"), "encoding", &text));
	if (text.at && !str_is(text, "base64") && !str_is(text, "utf-8") && !str_is(text, "utf8"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf-8 or base64");
	*out_base64 = str_is(text, "base64");
	if (out_named)
		*out_named = text.at != NULL;
	path_arg->field = NULL;
	return OK;
}

static fallible path_arg_copy_glob(struct path_arg *path_arg, const struct json *value,
				   const char *name, const char **out)
{
	struct str text = {0};

	TRY(json_str(value, name, &text));
	if (!text.len || text.len > PATH_ARG_GLOB_BYTES)
		return err_new(INVALID, "bad_field", "'%s' must hold patterns of 1 to %d bytes",
			       name, PATH_ARG_GLOB_BYTES);
	*out = arena_dup(path_arg->x->arena, text.at, text.len);
	return OK;
}

fallible path_arg_globs(struct path_arg *path_arg, const char *name, const char *const **out)
{
	const struct json *value = path_arg_member(path_arg, name);
	size_t count = value && json_type(value) == JSON_ARRAY ? json_count(value) : 1;
	const char **globs;

	if (!value)
		return OK;
	path_arg_at(path_arg, name, "INVALID_PATTERN");
	if (count > PATH_ARG_GLOBS_MAX)
		return err_new(INVALID, "bad_field", "'%s' may have %d entries", name,
			       PATH_ARG_GLOBS_MAX);
	globs = arena_take(path_arg->x->arena, (count + 1) * sizeof(*globs));
	if (json_type(value) != JSON_ARRAY)
		TRY(path_arg_copy_glob(path_arg, value, name, &globs[0]));
	else
		for (size_t i = 0; i < count; i++)
			TRY(path_arg_copy_glob(path_arg, json_at(value, i), name, &globs[i]));
	path_arg->field = NULL;
	*out = globs;
	return OK;
}

static fallible text_of(struct path_arg *path_arg, const char *name, struct str *out)
{
	const struct json *value = path_arg_member(path_arg, name);

	path_arg_at(path_arg, name, "INVALID_TYPE");
	TRY(json_want(value, name, JSON_STRING));
	path_arg->code = "INVALID_PATH"; // the string contains a NUL
	TRY(json_str(value, name, out));
	path_arg->field = NULL;
	return OK;
}

static fallible set_user(struct path_arg *path_arg, struct str user)
{
	if (user.len > USER_MAX)
		return path_arg_bad(path_arg, "user", "INVALID_USER", "is too long");
	if (user.len)
		path_arg->files.user = arena_dup(path_arg->x->arena, user.at, user.len);
	return OK;
}

// Relative paths start at the session's directory. A session that does not exist yet would start at
// /workspace, and so do they.
static void path_arg_stand_with(struct path_arg *path_arg, struct str session)
{
	auto_session held = session_find(path_arg->ref.box, session);

	if (held)
		path_arg->files.base = arena_fmt(path_arg->x->arena, "%s", session_cwd(held));
}

fallible path_arg_user(struct path_arg *path_arg)
{
	struct str session = {0}, user = {0};

	TRY(text_of(path_arg, "sessionId", &session));
	TRY(text_of(path_arg, "user", &user));
	TRY(set_user(path_arg, user));
	if (!session.len || str_is(session, SESSION_NONE))
		return OK;
	path_arg->session = session;
	path_arg_stand_with(path_arg, session);
	return OK;
}

// A box that is at its limit of sessions has no commands of a new session to wait for.
static fallible find_session(struct path_arg *path_arg, struct session **out)
{
	struct err *err = shells_take(&path_arg->ref, path_arg->session, out);

	if (!err || err_kind(err) != ERR_EXHAUSTED)
		return err;
	err_free(err);
	*out = NULL;
	return OK;
}

fallible path_arg_lock(struct path_arg *path_arg)
{
	auto_session session = NULL;
	struct err *err;
	bool waits;

	if (!path_arg->session.at)
		return OK;
	path_arg_at(path_arg, "sessionId", "INVALID_SESSION");
	TRY(find_session(path_arg, &session));
	path_arg->field = NULL;
	if (!session)
		return OK;
	waits = !session_is_free(session);
	if (waits)
		TRY(http_away(path_arg->x, HTTP_PROBE_HEAD));
	err = session_lock(session, &path_arg->lock);
	if (waits)
		http_back(path_arg->x);
	TRY(err);
	path_arg->files.base = arena_fmt(path_arg->x->arena, "%s", session_cwd(session));
	path_arg_within(path_arg, PATH_ARG_SHORT_MS);
	return OK;
}

void path_arg_unlock(struct path_arg *path_arg)
{
	if (path_arg->lock)
		session_unlock(take_ptr(path_arg->lock));
}

fallible path_arg_query(struct path_arg *path_arg)
{
	struct str session = http_query(path_arg->x, "relativeTo");

	path_arg->is_relative = session.at != NULL;
	if (session.len)
		path_arg_stand_with(path_arg, session);
	return set_user(path_arg, http_query(path_arg->x, "user"));
}

fallible path_arg_text(struct path_arg *path_arg, const char *field, struct str path)
{
	struct arena *arena = path_arg->x->arena;

	if (!path.len)
		return path_arg_bad(path_arg, field, "INVALID_PATH", "must not be empty");
	if (path.len > PATH_ARG_PATH_MAX)
		return path_arg_bad(path_arg, field, "INVALID_PATH", "may have 4096 bytes");
	if (memchr(path.at, 0, path.len))
		return path_arg_bad(path_arg, field, "INVALID_PATH", "must not contain a NUL");
	path_arg->shown = (struct str){arena_dup(arena, path.at, path.len), path.len};
	path_arg->path = path_arg->shown.at;
	return OK;
}

fallible path_arg_raw(struct path_arg *path_arg, struct str path)
{
	auto_buf whole = BUF_INIT(PATH_ARG_PATH_MAX + 2);

	if (!path_arg->is_relative)
		buf_char(&whole, '/');
	buf_str(&whole, path);
	if (!buf_ok(&whole))
		return path_arg_bad(path_arg, "path", "INVALID_PATH", "may have 4096 bytes");
	return path_arg_text(path_arg, "path", buf_view(&whole));
}

fallible path_arg_path(struct path_arg *path_arg, const char *name, const char **out)
{
	auto_buf bytes = BUF_INIT(PATH_ARG_PATH_MAX + 4);
	const char *coded = arena_fmt(path_arg->x->arena, "%sBase64", name);
	struct str text = {0}, code = {0};

	TRY(text_of(path_arg, coded, &code));
	TRY(text_of(path_arg, name, &text));
	if (code.at && !text_unbase64(&bytes, code))
		return path_arg_bad(path_arg, coded, "INVALID_BASE64", "is not base64 of a path");
	if (!code.at && !text.at)
		return path_arg_bad(path_arg, name, "INVALID_PATH", "is missing");
	TRY(path_arg_text(path_arg, name, code.at ? buf_view(&bytes) : text));
	if (out)
		*out = path_arg->path;
	return OK;
}

fallible path_arg_json(struct path_arg *path_arg)
{
	path_arg_at(path_arg, "body", "INVALID_JSON");
	TRY(gateway_json(path_arg->x, &path_arg->json, NULL));
	if (!path_arg->json)
		return path_arg_bad(path_arg, "body", "REQUIRED", "is empty");
	TRY(json_want(path_arg->json, "body", JSON_OBJECT));
	return path_arg_user(path_arg);
}

fallible path_arg_read(struct path_arg *path_arg)
{
	TRY(path_arg_json(path_arg));
	TRY(path_arg_path(path_arg, "path", NULL));
	return path_arg_lock(path_arg);
}

fallible path_arg_refused(struct path_arg *path_arg, struct err *err)
{
	static const char *const reasons[] = {"no_file",       "file_exists", "is_directory",
					      "not_directory", "not_empty",   "permission_denied",
					      "read_only"};

	for (size_t i = 0; err && i < sizeof(reasons) / sizeof(*reasons); i++) {
		if (strcmp(err_reason(err), reasons[i]) != 0)
			continue;
		path_arg->stderr_text = arena_fmt(path_arg->x->arena, "%s", err_message(err));
		return err_recast(err, ERR_CONFLICT, "fs_error", "%s", path_arg->stderr_text);
	}
	return err;
}

static fallible path_arg_fail(struct path_arg *path_arg, struct err *err)
{
	auto_buf context = BUF_INIT(CONTEXT_MAX);
	struct json_out out = json_to(&context);
	struct error_response_detail detail = {
		.operation = path_arg->operation,
		.field = path_arg->field,
		.fault = path_arg->code,
	};

	if (!strcmp(err_reason(err), "no_user"))
		detail.field = "user";
	json_begin(&out, '{');
	if (path_arg->shown.at) {
		path_arg_put_name(&out, "path", path_arg->shown);
		json_put_text(&out, "operation", path_arg->operation);
	}
	if (path_arg->stderr_text)
		json_put_text(&out, "stderr", path_arg->stderr_text);
	if (path_arg->max_size && !strcmp(err_reason(err), "file_too_large")) {
		json_put_int(&out, "actualSize", (int64_t)path_arg->actual_size);
		json_put_int(&out, "maxSize", (int64_t)path_arg->max_size);
	}
	json_end(&out, '}');
	detail.context = buf_view(&context);
	return error_response_answer(path_arg->x, box_ref_explain(err), &detail);
}

static fallible path_arg_begin(struct path_arg *path_arg)
{
	struct http *x = path_arg->x;

	TRY(gateway_box(x, &path_arg->ref));
	path_arg->files = (struct files){.box = path_arg->ref.box,
					 .user = path_arg->ref.entry->record.user,
					 .base = record_workdir(&path_arg->ref.entry->record)};
	path_arg_within(path_arg, PATH_ARG_SHORT_MS);
	return OK;
}

fallible path_arg_serve(struct http *x, const char *operation, path_arg_fn *work)
{
	struct path_arg path_arg = {.x = x, .operation = operation};
	struct err *err = path_arg_begin(&path_arg);

	if (!err)
		err = work(&path_arg);
	path_arg_unlock(&path_arg);
	if (err)
		err = path_arg_fail(&path_arg, err);
	box_ref_end(&path_arg.ref);
	json_free(path_arg.json);
	buf_done(&path_arg.body);
	return err;
}

void path_arg_put_name(struct json_out *out, const char *name, struct str bytes)
{
	auto_buf coded = BUF_INIT(2 * PATH_ARG_PATH_MAX + 8192);
	char key[64];

	json_put_str(out, name, bytes);
	if (text_is_utf8(bytes))
		return;
	text_base64(&coded, bytes.at, bytes.len);
	snprintf(key, sizeof(key), "%sBase64", name);
	json_put_str(out, key, buf_view(&coded));
}

const char *path_arg_absolute(const struct path_arg *path_arg, const char *path)
{
	auto_buf out = BUF_INIT(4 * PATH_ARG_PATH_MAX);
	const char *base = path[0] == '/' ? "" : path_arg->files.base;
	struct str rest = str_of(arena_fmt(path_arg->x->arena, "%s/%s", base, path)), part;

	while (str_cut(&rest, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		buf_char(&out, '/');
		buf_str(&out, part);
	}
	return out.len ? arena_dup(path_arg->x->arena, out.at, out.len) : "/";
}

struct json_out *path_arg_success(struct path_arg *path_arg)
{
	path_arg->body = BUF_INIT(BODY_MAX);
	path_arg->out = gateway_success(&path_arg->body);
	path_arg_put_name(&path_arg->out, "path", path_arg->shown);
	return &path_arg->out;
}

fallible path_arg_answer(struct path_arg *path_arg)
{
	return gateway_answer(path_arg->x, &path_arg->out);
}
