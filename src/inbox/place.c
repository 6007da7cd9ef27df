// A path is bytes. It reaches the box as it is, made absolute by what stands in front of it and by
// nothing else: dots and links are resolved there, by the kernel, with the rights of the box's
// user.
#include "inbox/place.h"

#include <stdio.h>

#include "base/clock.h"
#include "fleet/shells.h"
#include "wire/text.h"

#define USER_MAX 64
#define CONTEXT_MAX (64 * 1024)

void place_within(struct place *place, int64_t ms)
{
	place->files.deadline = loop_now(door_of(place->x)->loop) + ms;
}

static fallible bad(struct place *place, const char *field, const char *code, const char *why)
{
	place->field = field;
	place->code = code;
	return err_new(INVALID, "bad_field", "'%s' %s", field, why);
}

static fallible text_of(struct place *place, const struct json *json, const char *name,
			struct str *out)
{
	const struct json *value = json_get(json, name);

	place->field = name;
	place->code = "INVALID_TYPE";
	TRY(json_want(value, name, JSON_STRING));
	place->code = "INVALID_PATH"; // it has a NUL
	TRY(json_str(value, name, out));
	place->field = NULL;
	return OK;
}

static fallible set_user(struct place *place, struct str user)
{
	if (user.len > USER_MAX)
		return bad(place, "user", "INVALID_USER", "is too long");
	if (user.len)
		place->files.user = arena_dup(place->x->arena, user.at, user.len);
	return OK;
}

// Relative paths begin where the session stands; one that is not there yet would stand at
// /workspace, as they do.
static void inbox_place_stand_with(struct place *place, struct str session)
{
	auto_session held = session_find(place->visit.box, session);

	if (held)
		place->files.base = arena_fmt(place->x->arena, "%s", session_cwd(held));
}

fallible place_user(struct place *place, const struct json *json)
{
	struct str session = {0}, user = {0};

	TRY(text_of(place, json, "sessionId", &session));
	TRY(text_of(place, json, "user", &user));
	TRY(set_user(place, user));
	if (!session.len || str_is(session, SESSION_NONE))
		return OK;
	place->session = session;
	inbox_place_stand_with(place, session);
	return OK;
}

// A box without room for one more session has no commands of that session in line either.
static fallible find_session(struct place *place, struct session **out)
{
	struct err *err = shells_take(&place->visit, place->session, out);

	if (!err || err_kind(err) != ERR_EXHAUSTED)
		return err;
	err_free(err);
	*out = NULL;
	return OK;
}

fallible place_lock(struct place *place)
{
	auto_session session = NULL;
	struct err *err;
	bool waits;

	if (!place->session.at)
		return OK;
	place->field = "sessionId";
	place->code = "INVALID_SESSION";
	TRY(find_session(place, &session));
	place->field = NULL;
	if (!session)
		return OK;
	waits = !session_is_free(session);
	if (waits)
		TRY(http_away(place->x, HTTP_PROBE_HEAD));
	err = session_lock(session, &place->lock);
	if (waits)
		http_back(place->x);
	TRY(err);
	place->files.base = arena_fmt(place->x->arena, "%s", session_cwd(session));
	place_within(place, PLACE_SHORT_MS);
	return OK;
}

void place_unlock(struct place *place)
{
	if (place->lock)
		session_unlock(take_ptr(place->lock));
}

fallible place_query(struct place *place)
{
	struct str session = http_query(place->x, "relativeTo");

	place->is_relative = session.at != NULL;
	if (session.len)
		inbox_place_stand_with(place, session);
	return set_user(place, http_query(place->x, "user"));
}

fallible place_text(struct place *place, const char *field, struct str path)
{
	struct arena *arena = place->x->arena;

	if (!path.len)
		return bad(place, field, "INVALID_PATH", "must not be empty");
	if (path.len > PLACE_PATH_MAX)
		return bad(place, field, "INVALID_PATH", "may have 4096 bytes");
	if (memchr(path.at, 0, path.len))
		return bad(place, field, "INVALID_PATH", "must not contain a NUL");
	place->shown = (struct str){arena_dup(arena, path.at, path.len), path.len};
	place->path = place->shown.at;
	return OK;
}

fallible place_raw(struct place *place, struct str path)
{
	auto_buf whole = BUF_INIT(PLACE_PATH_MAX + 2);

	if (!place->is_relative)
		buf_char(&whole, '/');
	buf_str(&whole, path);
	if (!buf_ok(&whole))
		return bad(place, "path", "INVALID_PATH", "may have 4096 bytes");
	return place_text(place, "path", buf_view(&whole));
}

fallible place_path(struct place *place, const struct json *json, const char *name,
		    const char **out)
{
	auto_buf bytes = BUF_INIT(PLACE_PATH_MAX + 4);
	const char *coded = arena_fmt(place->x->arena, "%sBase64", name);
	struct str text = {0}, code = {0};

	TRY(text_of(place, json, coded, &code));
	TRY(text_of(place, json, name, &text));
	if (code.at && !text_unbase64(&bytes, code))
		return bad(place, coded, "INVALID_BASE64", "is not base64 of a path");
	if (!code.at && !text.at)
		return bad(place, name, "INVALID_PATH", "is missing");
	TRY(place_text(place, name, code.at ? buf_view(&bytes) : text));
	if (out)
		*out = place->path;
	return OK;
}

fallible place_json(struct place *place, struct json **json)
{
	place->field = "body";
	place->code = "INVALID_JSON";
	TRY(door_json(place->x, json, NULL));
	if (!*json)
		return bad(place, "body", "REQUIRED", "is empty");
	TRY(json_want(*json, "body", JSON_OBJECT));
	return place_user(place, *json);
}

fallible place_read(struct place *place, struct json **json)
{
	TRY(place_json(place, json));
	TRY(place_path(place, *json, "path", NULL));
	return place_lock(place);
}

fallible place_refused(struct place *place, struct err *err)
{
	static const char *const reasons[] = {"no_file",       "file_exists", "is_directory",
					      "not_directory", "not_empty",   "permission_denied",
					      "read_only"};

	for (size_t i = 0; err && i < sizeof(reasons) / sizeof(*reasons); i++) {
		if (strcmp(err_reason(err), reasons[i]) != 0)
			continue;
		place->stderr_text = arena_fmt(place->x->arena, "%s", err_message(err));
		return err_recast(err, ERR_CONFLICT, "fs_error", "%s", place->stderr_text);
	}
	return err;
}

static void inbox_place_fail(struct place *place, struct err *err)
{
	auto_buf context = BUF_INIT(CONTEXT_MAX);
	struct json_out out = json_to(&context);
	struct fail_detail detail = {
		.operation = place->operation,
		.field = place->field,
		.fault = place->code,
	};

	if (!strcmp(err_reason(err), "no_user"))
		detail.field = "user";
	json_begin(&out, '{');
	if (place->shown.at) {
		place_put_name(&out, "path", place->shown);
		json_put_text(&out, "operation", place->operation);
	}
	if (place->stderr_text)
		json_put_text(&out, "stderr", place->stderr_text);
	if (place->max_size && !strcmp(err_reason(err), "file_too_large")) {
		json_put_int(&out, "actualSize", (int64_t)place->actual_size);
		json_put_int(&out, "maxSize", (int64_t)place->max_size);
	}
	json_end(&out, '}');
	detail.context = buf_view(&context);
	fail_answer(place->x, visit_explain(err), &detail);
}

static fallible inbox_place_begin(struct place *place)
{
	struct http *x = place->x;

	TRY(visit_begin(door_of(x)->fleet, door_who(x), x->params[0], &place->visit));
	place->files = (struct files){.box = place->visit.box,
				      .user = place->visit.entry->record.user,
				      .base = record_workdir(&place->visit.entry->record)};
	place_within(place, PLACE_SHORT_MS);
	return OK;
}

fallible place_serve(struct http *x, const char *operation, place_fn *work)
{
	struct place place = {.x = x, .operation = operation};
	struct err *err = inbox_place_begin(&place);

	if (!err)
		err = work(&place);
	place_unlock(&place);
	if (err)
		inbox_place_fail(&place, err);
	visit_end(&place.visit);
	return OK;
}

void place_put_name(struct json_out *out, const char *name, struct str bytes)
{
	auto_buf coded = BUF_INIT(2 * PLACE_PATH_MAX + 8192);
	char key[64];

	json_put_str(out, name, bytes);
	if (text_is_utf8(bytes))
		return;
	text_base64(&coded, bytes.at, bytes.len);
	snprintf(key, sizeof(key), "%sBase64", name);
	json_put_str(out, key, buf_view(&coded));
}

const char *place_absolute(const struct place *place, const char *path)
{
	auto_buf out = BUF_INIT(4 * PLACE_PATH_MAX);
	const char *base = path[0] == '/' ? "" : place->files.base;
	struct str rest = str_of(arena_fmt(place->x->arena, "%s/%s", base, path)), part;

	while (str_cut(&rest, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		buf_char(&out, '/');
		buf_str(&out, part);
	}
	return out.len ? arena_dup(place->x->arena, out.at, out.len) : "/";
}
