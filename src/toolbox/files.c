// File operations that take one or two paths and have a short answer. Errors of the box become
// responses in path_arg.c and gateway/error_response.c; only what is special to one operation is
// here.
#include "toolbox/files.h"

#include <stdio.h>

#include "toolbox/files_entry.h"
#include "toolbox/handlers.h"
#include "toolbox/path_arg.h"

#define BODY_MAX (64 * 1024)

static fallible flag_of(struct path_arg *path_arg, const struct json *json, const char *name,
			bool *out)
{
	path_arg->field = name;
	path_arg->code = "INVALID_TYPE";
	TRY(json_bool(json_get(json, name), name, out));
	path_arg->field = NULL;
	return OK;
}

static fallible delete (struct path_arg *path_arg)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);
	auto_json json = NULL;
	bool recursive = false;

	TRY(path_arg_read(path_arg, &json));
	TRY(flag_of(path_arg, json, "recursive", &recursive));
	if (recursive)
		path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_remove(&path_arg->files, path_arg->path, recursive));
	path_arg_put_name(&out, "path", path_arg->shown);
	return gateway_answer(path_arg->x, &out);
}

// A missing source has an error code of its own.
static fallible explain_move(struct path_arg *path_arg, const char *from, struct err *err)
{
	struct fileop_stat stat;
	struct err *missing;

	if (err && !strcmp(err_reason(err), "no_file")) {
		missing = files_stat(&path_arg->files, from, false, &stat);
		if (missing) {
			err_free(missing);
			return err;
		}
		err = err_recast(err, ERR_NOT_FOUND, "no_file",
				 "there is no directory to move '%.300s' into", from);
	}
	return path_arg_refused(path_arg, err);
}

// rename and move are the same operation; only the names of their fields differ.
static fallible toolbox_files_move_path(struct path_arg *path_arg, const char *from_name,
					const char *to_name)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);
	const char *from = NULL, *to = NULL;
	auto_json json = NULL;
	struct str shown;

	TRY(path_arg_json(path_arg, &json));
	TRY(path_arg_path(path_arg, json, to_name, &to));
	shown = path_arg->shown;
	TRY(path_arg_path(path_arg, json, from_name, &from));
	TRY(path_arg_lock(path_arg));
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(explain_move(path_arg, from, files_move(&path_arg->files, from, to, false)));
	path_arg_put_name(&out, "path", path_arg->shown);
	path_arg_put_name(&out, "newPath", shown);
	return gateway_answer(path_arg->x, &out);
}

static fallible rename_file(struct path_arg *path_arg)
{
	return toolbox_files_move_path(path_arg, "oldPath", "newPath");
}

static fallible move_file(struct path_arg *path_arg)
{
	return toolbox_files_move_path(path_arg, "sourcePath", "destinationPath");
}

// Without `recursive`, an existing directory or a missing parent is an error with the message of
// mkdir(1), which clients expect.
static fallible explain_mkdir(struct path_arg *path_arg, struct err *err)
{
	bool exists = err && !strcmp(err_reason(err), "file_exists");
	bool orphan = err && !strcmp(err_reason(err), "no_file");

	if (!exists && !orphan)
		return err;
	path_arg->stderr_text = arena_fmt(path_arg->x->arena,
					  "mkdir: cannot create directory '%s': %s", path_arg->path,
					  exists ? "File exists" : "No such file or directory");
	return err_hint(err_recast(err, ERR_CONFLICT, "fs_error", "%.300s", path_arg->stderr_text),
			"set \"recursive\": true to make parents and accept an existing directory");
}

static fallible mkdir_path(struct path_arg *path_arg)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);
	auto_json json = NULL;
	bool recursive = false;

	TRY(path_arg_read(path_arg, &json));
	TRY(flag_of(path_arg, json, "recursive", &recursive));
	TRY(explain_mkdir(path_arg, files_mkdir(&path_arg->files, path_arg->path, recursive,
						FILEOP_KEEP_MODE)));
	path_arg_put_name(&out, "path", path_arg->shown);
	json_put_bool(&out, "recursive", recursive);
	return gateway_answer(path_arg->x, &out);
}

static fallible toolbox_files_look_up(struct path_arg *path_arg)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);
	auto_json json = NULL;
	bool is_there = false;

	TRY(path_arg_read(path_arg, &json));
	TRY(files_exists(&path_arg->files, path_arg->path, &is_there));
	path_arg_put_name(&out, "path", path_arg->shown);
	json_put_bool(&out, "exists", is_there);
	return gateway_answer(path_arg->x, &out);
}

static fallible stat_path(struct path_arg *path_arg)
{
	auto_buf body = BUF_INIT(BODY_MAX), target = BUF_INIT(PATH_ARG_PATH_MAX);
	struct json_out out = gateway_success(&body);
	struct fileop_stat stat = {0};
	auto_json json = NULL;
	bool follow = true;

	TRY(path_arg_read(path_arg, &json));
	TRY(flag_of(path_arg, json, "followSymlinks", &follow));
	TRY(files_stat(&path_arg->files, path_arg->path, follow, &stat));
	if (stat.type == FILEOP_SYMLINK)
		TRY(files_readlink(&path_arg->files, path_arg->path, &target));
	path_arg_put_name(&out, "path", path_arg->shown);
	entry_put_stat(&out, &stat);
	entry_put_owner(&out, &stat);
	if (stat.type == FILEOP_SYMLINK)
		path_arg_put_name(&out, "target", buf_view(&target));
	return gateway_answer(path_arg->x, &out);
}

// Accepts "0755", "755", "rwxr-xr-x" or a number.
static fallible toolbox_files_mode_of(struct path_arg *path_arg, const struct json *json,
				      uint32_t *out)
{
	const struct json *value = json_get(json, "mode");
	struct str text = {0};
	uint64_t number = 0;

	path_arg->field = "mode";
	path_arg->code = "INVALID_MODE";
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
	path_arg->field = NULL;
	return OK;
}

static fallible chmod_path(struct path_arg *path_arg)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = gateway_success(&body);
	auto_json json = NULL;
	bool recursive = false;
	uint32_t mode = 0;

	TRY(path_arg_read(path_arg, &json));
	TRY(flag_of(path_arg, json, "recursive", &recursive));
	TRY(toolbox_files_mode_of(path_arg, json, &mode));
	if (recursive)
		path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_chmod(&path_arg->files, path_arg->path, mode, recursive));
	path_arg_put_name(&out, "path", path_arg->shown);
	entry_put_mode(&out, mode);
	return gateway_answer(path_arg->x, &out);
}

fallible toolbox_files_delete(struct http *x)
{
	return path_arg_serve(x, "file.delete", delete);
}

fallible toolbox_files_rename(struct http *x)
{
	return path_arg_serve(x, "file.rename", rename_file);
}

fallible toolbox_files_move(struct http *x)
{
	return path_arg_serve(x, "file.move", move_file);
}

fallible toolbox_files_mkdir(struct http *x)
{
	return path_arg_serve(x, "directory.create", mkdir_path);
}

fallible toolbox_files_exists(struct http *x)
{
	return path_arg_serve(x, "file.stat", toolbox_files_look_up);
}

fallible toolbox_files_stat(struct http *x)
{
	return path_arg_serve(x, "file.stat", stat_path);
}

fallible toolbox_files_chmod(struct http *x)
{
	return path_arg_serve(x, "file.chmod", chmod_path);
}
