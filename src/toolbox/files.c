// File operations that take one or two paths and have a short answer, and metadata of files in
// JSON. Modes are given in octal or as nine letters, in the notation of ls(1); a mode beyond 07777
// is refused. Errors of the box become responses in path_arg.c and gateway/error_response.c; only
// what is special to one operation is here.
#include "toolbox/files.h"

#include <stdio.h>

#include "toolbox/handlers.h"

static const char letters[] = "rwxrwxrwx";

// Nine letters; set-id and sticky bits are shown as ls(1) shows them.
static void files_entry_spell(uint32_t mode, char out[10])
{
	for (int i = 0; i < 9; i++)
		out[i] = mode >> (8 - i) & 1 ? letters[i] : '-';
	if (mode & 04000)
		out[2] = mode & 0100 ? 's' : 'S';
	if (mode & 02000)
		out[5] = mode & 0010 ? 's' : 'S';
	if (mode & 01000)
		out[8] = mode & 0001 ? 't' : 'T';
	out[9] = 0;
}

bool entry_mode(struct str text, uint32_t *out)
{
	uint32_t mode = 0;

	if (text.len != 9)
		return str_to_mode(text, out);
	for (int i = 0; i < 9; i++) {
		if (text.at[i] != letters[i] && text.at[i] != '-')
			return false;
		mode |= (uint32_t)(text.at[i] != '-') << (8 - i);
	}
	*out = mode;
	return true;
}

void entry_put_stat(struct json_out *out, const struct fileop_stat *stat)
{
	static const char *const words[] = {"file", "directory", "symlink", "other"};
	char mode[10];

	files_entry_spell(stat->mode, mode);
	json_put_text(out, "type", words[stat->type]);
	json_put_int(out, "size", (int64_t)stat->size);
	json_put_time(out, "modifiedAt", stat->mtime_us / 1000);
	json_put_text(out, "mode", mode);
	json_put_begin(out, "permissions", '{');
	json_put_bool(out, "readable", stat->mode & 0400);
	json_put_bool(out, "writable", stat->mode & 0200);
	json_put_bool(out, "executable", stat->mode & 0100);
	json_end(out, '}');
}

static void put_octal(struct json_out *out, uint32_t mode)
{
	char text[8];

	snprintf(text, sizeof(text), "%04o", mode & 07777);
	json_put_text(out, "octal", text);
}

static void entry_put_owner(struct json_out *out, const struct fileop_stat *stat)
{
	put_octal(out, stat->mode);
	json_put_int(out, "uid", stat->uid);
	json_put_int(out, "gid", stat->gid);
	json_put_int(out, "links", stat->links);
	json_put_int(out, "inode", (int64_t)stat->inode);
	json_put_time(out, "changedAt", stat->ctime_us / 1000);
}

void entry_put_mode(struct json_out *out, uint32_t mode)
{
	char text[10];

	files_entry_spell(mode, text);
	json_put_text(out, "mode", text);
	put_octal(out, mode);
}

const char *entry_etag(struct http *x, const struct fileop_stat *stat)
{
	return arena_fmt(x->arena, "\"%llx-%llx-%llx\"", (unsigned long long)stat->mtime_us,
			 (unsigned long long)stat->size, (unsigned long long)stat->inode);
}

fallible files_too_large(struct path_arg *path_arg, uint64_t size)
{
	path_arg->actual_size = size;
	path_arg->max_size = FILES_CONTENT_MAX;
	return err_hint(err_new(TOO_LARGE, "file_too_large",
				"%llu bytes are more than the %d that fit into JSON",
				(unsigned long long)size, FILES_CONTENT_MAX),
			"use /api/read/stream, or GET and PUT /api/files/PATH");
}

// ---------------------------------------------------------------------------- operations

fallible toolbox_files_delete(struct path_arg *path_arg)
{
	bool recursive = false;

	TRY(path_arg_read(path_arg));
	TRY(path_arg_flag(path_arg, "recursive", &recursive));
	if (recursive)
		path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_remove(&path_arg->files, path_arg->path, recursive));
	path_arg_success(path_arg);
	return path_arg_answer(path_arg);
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
static fallible files_move_path(struct path_arg *path_arg, const char *from_name,
				const char *to_name)
{
	struct json_out *out;
	const char *from = NULL, *to = NULL;
	struct str shown;

	TRY(path_arg_json(path_arg));
	TRY(path_arg_path(path_arg, to_name, &to));
	shown = path_arg->shown;
	TRY(path_arg_path(path_arg, from_name, &from));
	TRY(path_arg_lock(path_arg));
	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(explain_move(path_arg, from, files_move(&path_arg->files, from, to, false)));
	out = path_arg_success(path_arg);
	path_arg_put_name(out, "newPath", shown);
	return path_arg_answer(path_arg);
}

fallible toolbox_files_rename(struct path_arg *path_arg)
{
	return files_move_path(path_arg, "oldPath", "newPath");
}

fallible toolbox_files_move(struct path_arg *path_arg)
{
	return files_move_path(path_arg, "sourcePath", "destinationPath");
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

fallible toolbox_files_mkdir(struct path_arg *path_arg)
{
	struct json_out *out;
	bool recursive = false;

	TRY(path_arg_read(path_arg));
	TRY(path_arg_flag(path_arg, "recursive", &recursive));
	TRY(explain_mkdir(path_arg, files_mkdir(&path_arg->files, path_arg->path, recursive,
						FILEOP_KEEP_MODE)));
	out = path_arg_success(path_arg);
	json_put_bool(out, "recursive", recursive);
	return path_arg_answer(path_arg);
}

fallible toolbox_files_exists(struct path_arg *path_arg)
{
	struct json_out *out;
	bool is_there = false;

	TRY(path_arg_read(path_arg));
	TRY(files_exists(&path_arg->files, path_arg->path, &is_there));
	out = path_arg_success(path_arg);
	json_put_bool(out, "exists", is_there);
	return path_arg_answer(path_arg);
}

fallible toolbox_files_stat(struct path_arg *path_arg)
{
	auto_buf target = BUF_INIT(PATH_ARG_PATH_MAX);
	struct json_out *out;
	struct fileop_stat stat = {0};
	bool follow = true;

	TRY(path_arg_read(path_arg));
	TRY(path_arg_flag(path_arg, "followSymlinks", &follow));
	TRY(files_stat(&path_arg->files, path_arg->path, follow, &stat));
	if (stat.type == FILEOP_SYMLINK)
		TRY(files_readlink(&path_arg->files, path_arg->path, &target));
	out = path_arg_success(path_arg);
	entry_put_stat(out, &stat);
	entry_put_owner(out, &stat);
	if (stat.type == FILEOP_SYMLINK)
		path_arg_put_name(out, "target", buf_view(&target));
	return path_arg_answer(path_arg);
}

// Accepts "0755", "755", "rwxr-xr-x" or a number.
static fallible files_mode_of(struct path_arg *path_arg, uint32_t *out)
{
	const struct json *value = json_get(path_arg->json, "mode");
	struct str text = {0};
	uint64_t number = 0;

	path_arg_at(path_arg, "mode", "INVALID_MODE");
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

fallible toolbox_files_chmod(struct path_arg *path_arg)
{
	struct json_out *out;
	bool recursive = false;
	uint32_t mode = 0;

	TRY(path_arg_read(path_arg));
	TRY(path_arg_flag(path_arg, "recursive", &recursive));
	TRY(files_mode_of(path_arg, &mode));
	if (recursive)
		path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_chmod(&path_arg->files, path_arg->path, mode, recursive));
	out = path_arg_success(path_arg);
	entry_put_mode(out, mode);
	return path_arg_answer(path_arg);
}
