// The verbs that take a path or two and answer in a line. What they say when they fail is made of
// the box's errors in place.c and door/fail.c; what is special to a verb stands here.
#include "inbox/files.h"

#include <stdio.h>

#include "inbox/files_entry.h"
#include "inbox/place.h"

#define BODY_MAX (64 * 1024)

static fallible flag_of(struct place *place, const struct json *json, const char *name, bool *out)
{
	place->field = name;
	place->code = "INVALID_TYPE";
	TRY(json_bool(json_get(json, name), name, out));
	place->field = NULL;
	return OK;
}

static fallible delete (struct place *place)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = door_success(&body);
	auto_json json = NULL;
	bool recursive = false;

	TRY(place_read(place, &json));
	TRY(flag_of(place, json, "recursive", &recursive));
	if (recursive)
		place_within(place, PLACE_LONG_MS);
	TRY(files_remove(&place->files, place->path, recursive));
	place_put_name(&out, "path", place->shown);
	return door_answer(place->x, &out);
}

// A source that is not there has a code of its own.
static fallible explain_move(struct place *place, const char *from, struct err *err)
{
	struct reach_stat stat;
	struct err *missing;

	if (err && !strcmp(err_reason(err), "no_file")) {
		missing = files_stat(&place->files, from, false, &stat);
		if (missing) {
			err_free(missing);
			return err;
		}
		err = err_recast(err, ERR_NOT_FOUND, "no_file",
				 "there is no directory to move '%.300s' into", from);
	}
	return place_refused(place, err);
}

// Both names of the same thing; only the names of the fields differ.
static fallible inbox_files_move_path(struct place *place, const char *from_name,
				      const char *to_name)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = door_success(&body);
	const char *from = NULL, *to = NULL;
	auto_json json = NULL;
	struct str shown;

	TRY(place_json(place, &json));
	TRY(place_path(place, json, to_name, &to));
	shown = place->shown;
	TRY(place_path(place, json, from_name, &from));
	TRY(place_lock(place));
	place_within(place, PLACE_LONG_MS);
	TRY(explain_move(place, from, files_move(&place->files, from, to, false)));
	place_put_name(&out, "path", place->shown);
	place_put_name(&out, "newPath", shown);
	return door_answer(place->x, &out);
}

static fallible rename_file(struct place *place)
{
	return inbox_files_move_path(place, "oldPath", "newPath");
}

static fallible move_file(struct place *place)
{
	return inbox_files_move_path(place, "sourcePath", "destinationPath");
}

// Without `recursive` a directory that exists, or lacks its parent, is a failure like any other of
// the command that clients have in mind, and its words are told.
static fallible explain_mkdir(struct place *place, struct err *err)
{
	bool exists = err && !strcmp(err_reason(err), "file_exists");
	bool orphan = err && !strcmp(err_reason(err), "no_file");

	if (!exists && !orphan)
		return err;
	place->stderr_text = arena_fmt(place->x->arena, "mkdir: cannot create directory '%s': %s",
				       place->path,
				       exists ? "File exists" : "No such file or directory");
	return err_hint(err_recast(err, ERR_CONFLICT, "fs_error", "%.300s", place->stderr_text),
			"with \"recursive\": true parents are made, and what exists is no error");
}

static fallible mkdir_path(struct place *place)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = door_success(&body);
	auto_json json = NULL;
	bool recursive = false;

	TRY(place_read(place, &json));
	TRY(flag_of(place, json, "recursive", &recursive));
	TRY(explain_mkdir(place,
			  files_mkdir(&place->files, place->path, recursive, REACH_KEEP_MODE)));
	place_put_name(&out, "path", place->shown);
	json_put_bool(&out, "recursive", recursive);
	return door_answer(place->x, &out);
}

static fallible inbox_files_look_up(struct place *place)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = door_success(&body);
	auto_json json = NULL;
	bool is_there = false;

	TRY(place_read(place, &json));
	TRY(files_exists(&place->files, place->path, &is_there));
	place_put_name(&out, "path", place->shown);
	json_put_bool(&out, "exists", is_there);
	return door_answer(place->x, &out);
}

static fallible stat_path(struct place *place)
{
	auto_buf body = BUF_INIT(BODY_MAX), target = BUF_INIT(PLACE_PATH_MAX);
	struct json_out out = door_success(&body);
	struct reach_stat stat = {0};
	auto_json json = NULL;
	bool follow = true;

	TRY(place_read(place, &json));
	TRY(flag_of(place, json, "followSymlinks", &follow));
	TRY(files_stat(&place->files, place->path, follow, &stat));
	if (stat.type == REACH_SYMLINK)
		TRY(files_readlink(&place->files, place->path, &target));
	place_put_name(&out, "path", place->shown);
	entry_put_stat(&out, &stat);
	entry_put_owner(&out, &stat);
	if (stat.type == REACH_SYMLINK)
		place_put_name(&out, "target", buf_view(&target));
	return door_answer(place->x, &out);
}

// "0755", "755", "rwxr-xr-x", or the number itself.
static fallible inbox_files_mode_of(struct place *place, const struct json *json, uint32_t *out)
{
	const struct json *value = json_get(json, "mode");
	struct str text = {0};
	uint64_t number = 0;

	place->field = "mode";
	place->code = "INVALID_MODE";
	if (!value)
		return err_new(INVALID, "bad_field", "'mode' is missing");
	if (json_type(value) == JSON_NUMBER) {
		TRY(json_u64(value, "mode", 0, 07777, &number));
		*out = (uint32_t)number;
	} else {
		TRY(json_str(value, "mode", &text));
		if (!entry_mode(text, out))
			return err_hint(err_new(INVALID, "bad_field", "'mode' is not a mode"),
					"send it in octal (\"0755\") or as \"rwxr-xr-x\"");
	}
	place->field = NULL;
	return OK;
}

static fallible chmod_path(struct place *place)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = door_success(&body);
	auto_json json = NULL;
	bool recursive = false;
	uint32_t mode = 0;

	TRY(place_read(place, &json));
	TRY(flag_of(place, json, "recursive", &recursive));
	TRY(inbox_files_mode_of(place, json, &mode));
	if (recursive)
		place_within(place, PLACE_LONG_MS);
	TRY(files_chmod(&place->files, place->path, mode, recursive));
	place_put_name(&out, "path", place->shown);
	entry_put_mode(&out, mode);
	return door_answer(place->x, &out);
}

fallible inbox_files_delete(struct http *x)
{
	return place_serve(x, "file.delete", delete);
}

fallible inbox_files_rename(struct http *x)
{
	return place_serve(x, "file.rename", rename_file);
}

fallible inbox_files_move(struct http *x)
{
	return place_serve(x, "file.move", move_file);
}

fallible inbox_files_mkdir(struct http *x)
{
	return place_serve(x, "directory.create", mkdir_path);
}

fallible inbox_files_exists(struct http *x)
{
	return place_serve(x, "file.stat", inbox_files_look_up);
}

fallible inbox_files_stat(struct http *x)
{
	return place_serve(x, "file.stat", stat_path);
}

fallible inbox_files_chmod(struct http *x)
{
	return place_serve(x, "file.chmod", chmod_path);
}
