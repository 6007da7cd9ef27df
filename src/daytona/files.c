// Files of the toolbox, except their transfer: list, info, folder, move, delete, permissions, find,
// search, replace. A walk is written to the answer as its items arrive: a short answer is one
// reply, a long one is sent in pieces. A walk that fails before the first piece is answered with an
// error; one that fails later leaves the answer incomplete.
#include <stdio.h>

#include "daytona/files_target.h"
#include "daytona/handlers.h"
#include "loop/closer.h"
#include "loop/pump.h"

#define PIECE (48 * 1024)
#define BODY_MAX (PIECE + 256 * 1024) // room for one more item with every byte escaped
#define REPLACE_SIZE_MAX (32 << 20)
#define REPLACE_FILES_MAX 1000
#define MODE_TEXT 11

// -------------------------------------------------------------------------------------- file info

// As Go prints it: "drwxr-xr-x".
static void info_spell_mode(const struct fileop_stat *stat, char out[MODE_TEXT])
{
	static const char types[] = "-dL?", letters[] = "rwxrwxrwx";

	out[0] = types[stat->type];
	for (int i = 0; i < 9; i++)
		out[1 + i] = stat->mode >> (8 - i) & 1 ? letters[i] : '-';
	out[10] = 0;
}

// "2026-01-31 08:00:00.123 +0000 UTC"
static void info_put_time(struct json_out *out, int64_t wall_us)
{
	auto_buf text = BUF_INIT(128), go = BUF_INIT(128);
	struct json_out iso = json_to(&text);
	struct str date, time;

	json_put_time(&iso, "", wall_us / 1000); // "":"2026-01-31T08:00:00.123Z"
	date = str_skip(buf_view(&text), 4);
	str_cut(&date, '"', &time);
	date = time;
	str_cut(&date, 'T', &time);
	if (date.len)
		buf_fmt(&go, STR_FMT " %.*s +0000 UTC", STR_ARG(time), (int)date.len - 1, date.at);
	json_put_str(out, "modTime", buf_view(&go));
	json_put_time(out, "modifiedAt", wall_us / 1000);
}

static struct str info_base_name(struct str path)
{
	size_t at = path.len;

	while (at > 0 && path.at[at - 1] != '/')
		at--;
	return at < path.len ? str_skip(path, at) : path;
}

// `path`: of a listing of several levels; at == NULL: left out.
static void info_put(struct json_out *out, struct str name, struct str path,
		     const struct fileop_stat *stat)
{
	char mode[MODE_TEXT], octal[8], owner[16], group[16];

	info_spell_mode(stat, mode);
	snprintf(octal, sizeof(octal), "%04o", stat->mode & 0777);
	snprintf(owner, sizeof(owner), "%u", stat->uid);
	snprintf(group, sizeof(group), "%u", stat->gid);
	json_begin(out, '{');
	json_put_str(out, "name", info_base_name(name));
	json_put_int(out, "size", (int64_t)stat->size);
	json_put_text(out, "mode", mode);
	info_put_time(out, stat->mtime_us);
	json_put_bool(out, "isDir", stat->type == FILEOP_DIRECTORY);
	json_put_text(out, "owner", owner);
	json_put_text(out, "group", group);
	json_put_text(out, "permissions", octal);
	if (path.at)
		json_put_str(out, "path", path);
	json_end(out, '}');
}

static fallible files_info(struct files_target *target)
{
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = json_to(&body);
	struct fileop_stat stat = {0};
	const char *path = NULL;

	TRY(files_target_query(target, "path", &path));
	TRY(files_stat(&target->files, path, true, &stat));
	info_put(&out, str_of(files_target_absolute(target, path)), (struct str){0}, &stat);
	return http_reply_json(target->x, 200, &body);
}

// ------------------------------------------------------------------------------------------ walks

struct walk_answer {
	struct http *x;
	struct files_walk *walk;
	struct buf body;
	struct json_out out;
	bool begun;
};

static void walk_answer_done(struct walk_answer *answer)
{
	http_back(answer->x);
	files_drop(answer->walk);
	buf_done(&answer->body);
}

#define auto_walk_answer on_exit_call(walk_answer_done) struct walk_answer

// Until the end, a walk for a client that has disconnected is cancelled.
static fallible walk_answer_begin(struct walk_answer *answer, struct http *x)
{
	answer->x = x;
	answer->body = BUF_INIT(BODY_MAX);
	answer->out = json_to(&answer->body);
	return http_away(x, HTTP_PROBE_HEAD);
}

// Called after each item.
static fallible walk_answer_flow(struct walk_answer *answer)
{
	if (answer->body.len < PIECE && buf_ok(&answer->body))
		return OK;
	if (!buf_ok(&answer->body))
		return err_new(INTERNAL, "internal", "an entry did not fit");
	http_back(answer->x);
	if (!answer->begun)
		TRY(http_begin(answer->x, 200, NULL));
	answer->begun = true;
	TRY(http_write(answer->x, answer->body.at, answer->body.len));
	buf_clear(&answer->body);
	return OK;
}

// `tail` closes what the caller has opened.
static fallible walk_answer_end(struct walk_answer *answer, const char *tail)
{
	TRY(files_end(take_ptr(answer->walk), NULL));
	http_back(answer->x);
	buf_text(&answer->body, tail);
	if (!answer->begun)
		return http_reply_json(answer->x, 200, &answer->body);
	return http_end_with(answer->x, buf_view(&answer->body));
}

static void put_below(struct buf *to, const char *root, struct str path)
{
	buf_text(to, strcmp(root, "/") != 0 ? root : "");
	if (path.len)
		buf_char(to, '/');
	buf_str(to, path);
}

static fallible files_list_entries(struct files_target *target)
{
	auto_walk_answer answer = {.x = target->x};
	struct files_find find = {.flags = FILEOP_HIDDEN, .depth = 1};
	struct str depth = http_query(target->x, "depth");
	const char *path = NULL;
	struct fileop_entry entry;
	uint64_t levels = 1;
	bool more = true;

	TRY(files_target_query(target, "path", &path));
	if (depth.at && !str_to_u64(depth, 1, FILEOP_DEPTH_MAX, &levels))
		return err_new(INVALID, "bad_field", "'depth' must be within 1 and %d",
			       FILEOP_DEPTH_MAX);
	find.depth = (uint32_t)levels;
	files_target_within(target, FILES_TARGET_LONG_MS);
	TRY(walk_answer_begin(&answer, target->x));
	TRY(files_find(&target->files, path, &find, &answer.walk));
	json_begin(&answer.out, '[');
	TRY(files_next_entry(answer.walk, &entry, &more));
	while (more) {
		auto_buf whole = BUF_INIT(4 * FILEOP_PATH_MAX);

		put_below(&whole, files_target_absolute(target, path), entry.path);
		info_put(&answer.out, entry.path, depth.at ? buf_view(&whole) : (struct str){0},
			 &entry.stat);
		TRY(walk_answer_flow(&answer));
		TRY(files_next_entry(answer.walk, &entry, &more));
	}
	return walk_answer_end(&answer, "]");
}

// Files and directories whose base name matches a glob.
static fallible files_search(struct files_target *target)
{
	auto_walk_answer answer = {.x = target->x};
	struct files_find find = {.flags = FILEOP_HIDDEN};
	const char *path = NULL, *globs[2] = {NULL, NULL}, *root;
	struct fileop_entry entry;
	bool more = true;

	TRY(files_target_query(target, "path", &path));
	TRY(files_target_query(target, "pattern", &globs[0]));
	find.include = globs;
	files_target_within(target, FILES_TARGET_LONG_MS);
	root = files_target_absolute(target, path);
	TRY(walk_answer_begin(&answer, target->x));
	TRY(files_find(&target->files, path, &find, &answer.walk));
	json_begin(&answer.out, '{');
	json_put_begin(&answer.out, "files", '[');
	TRY(files_next_entry(answer.walk, &entry, &more));
	while (more) {
		auto_buf whole = BUF_INIT(4 * FILEOP_PATH_MAX);

		put_below(&whole, root, entry.path);
		json_add_str(&answer.out, buf_view(&whole));
		TRY(walk_answer_flow(&answer));
		TRY(files_next_entry(answer.walk, &entry, &more));
	}
	return walk_answer_end(&answer, "]}");
}

// Lines that contain a text; binary files are skipped.
static fallible files_find_text(struct files_target *target)
{
	auto_walk_answer answer = {.x = target->x};
	struct files_grep grep = {.flags = FILEOP_FIXED | FILEOP_HIDDEN};
	struct fileop_stat stat = {0};
	const char *path = NULL, *root;
	struct fileop_match match;
	bool more = true;

	TRY(files_target_query(target, "path", &path));
	grep.pattern = http_query(target->x, "pattern");
	if (!grep.pattern.len || grep.pattern.len > FILEOP_TEXT_MAX)
		return err_new(INVALID, "bad_field", "'pattern' must have 1 to %d bytes",
			       FILEOP_TEXT_MAX);
	files_target_within(target, FILES_TARGET_LONG_MS);
	root = files_target_absolute(target, path);
	TRY(files_stat(&target->files, path, true, &stat));
	TRY(walk_answer_begin(&answer, target->x));
	TRY(files_grep(&target->files, path, &grep, &answer.walk));
	json_begin(&answer.out, '[');
	TRY(files_next_match(answer.walk, &match, &more));
	while (more) {
		auto_buf whole = BUF_INIT(4 * FILEOP_PATH_MAX);

		put_below(&whole, root,
			  stat.type == FILEOP_DIRECTORY ? match.path : (struct str){0});
		json_begin(&answer.out, '{');
		json_put_str(&answer.out, "file", buf_view(&whole));
		json_put_int(&answer.out, "line", (int64_t)match.line);
		json_put_str(&answer.out, "content", match.text);
		json_end(&answer.out, '}');
		TRY(walk_answer_flow(&answer));
		TRY(files_next_match(answer.walk, &match, &more));
	}
	return walk_answer_end(&answer, "]");
}

// ---------------------------------------------------------------------------------------- changes

static fallible files_query_mode(struct files_target *target, uint32_t *out)
{
	struct str text = http_query(target->x, "mode");

	if (text.len && !str_to_mode(text, out))
		return err_new(INVALID, "bad_field", "'mode' must be octal, as 0755 is");
	return OK;
}

static fallible files_folder(struct files_target *target)
{
	uint32_t mode = FILEOP_KEEP_MODE;
	const char *path = NULL;

	TRY(files_target_query(target, "path", &path));
	TRY(files_query_mode(target, &mode));
	TRY(files_mkdir(&target->files, path, true, mode));
	return http_reply_empty(target->x, 201);
}

static fallible files_delete(struct files_target *target)
{
	const char *path = NULL;
	bool recursive = false;
	struct err *err;

	TRY(files_target_query(target, "path", &path));
	TRY(gateway_flag(target->x, "recursive", &recursive));
	if (recursive)
		files_target_within(target, FILES_TARGET_LONG_MS);
	err = files_remove(&target->files, path, recursive);
	if (err && !strcmp(err_reason(err), "is_directory"))
		return err_recast(err, ERR_INVALID, "not_recursive",
				  "it is a directory: delete it with recursive=true");
	return err ? err : http_reply_empty(target->x, 204);
}

// An existing target is refused, a directory too: mv would move into it.
static fallible files_move_to(struct files_target *target)
{
	const char *from = NULL, *to = NULL;
	bool exists = false;

	TRY(files_target_query(target, "source", &from));
	TRY(files_target_query(target, "destination", &to));
	files_target_within(target, FILES_TARGET_LONG_MS);
	TRY(files_exists(&target->files, to, &exists));
	if (exists)
		return err_new(CONFLICT, "file_exists", "the destination exists");
	TRY(files_move(&target->files, from, to, true));
	return http_reply_empty(target->x, 200);
}

static bool is_owner_word(struct str word)
{
	for (size_t i = 0; i < word.len; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-",
			    word.at[i]))
			return false;
	return word.len <= 255 && !(word.len && word.at[0] == '-');
}

// chown(1) knows the names of the sandbox's users. Only root of the sandbox may give files away;
// the mode that follows is then root's to set, too.
static fallible change_owner(struct files_target *target, const char *path)
{
	struct str owner = http_query(target->x, "owner"), group = http_query(target->x, "group");
	const char *argv[] = {"chown", "--", NULL, path, NULL};
	struct manager_exec_spec spec = {
		.argv = argv, .user = "root", .wall_ms = FILES_TARGET_SHORT_MS};
	struct http *x = target->x;
	struct exec_result result;
	auto_manager_exec run = NULL;

	if (!owner.len && !group.len)
		return OK;
	if (!is_owner_word(owner) || !is_owner_word(group))
		return err_new(INVALID, "bad_field",
			       "'owner' and 'group' must be names or numbers");
	argv[2] = arena_fmt(x->arena, STR_FMT "%s" STR_FMT, STR_ARG(owner), group.len ? ":" : "",
			    STR_ARG(group));
	TRY(manager_exec_start(gateway_of(x)->manager, gateway_who(x), x->params[0], &spec, &run));
	TRY(http_while_away(x, HTTP_PROBE_HEAD, manager_exec_wait(run, &result)));
	if (result.exit_code != 0)
		return err_new(INVALID, "bad_owner",
			       "the owner or group is unknown, or may not be given");
	target->files.user = "";
	return OK;
}

static fallible files_permissions(struct files_target *target)
{
	uint32_t mode = FILEOP_KEEP_MODE;
	struct fileop_stat stat = {0};
	const char *path = NULL;

	TRY(files_target_query(target, "path", &path));
	TRY(files_query_mode(target, &mode));
	TRY(files_stat(&target->files, path, true, &stat));
	TRY(change_owner(target, files_target_absolute(target, path)));
	if (mode != FILEOP_KEEP_MODE)
		TRY(files_chmod(&target->files, path, mode, false));
	return http_reply_empty(target->x, 200);
}

// ---------------------------------------------------------------------------------------- replace

static fallible replace_load(struct files_target *target, const char *path, struct buf *out)
{
	struct fileop_stat stat = {0};
	auto_closer_fd fd = -1;
	size_t len = 1;

	TRY(files_read(&target->files, path, out, &fd, &stat));
	if (fd < 0)
		return OK;
	if (stat.size > REPLACE_SIZE_MAX)
		return err_new(TOO_LARGE, "file_too_large", "the file has more than %d bytes",
			       REPLACE_SIZE_MAX);
	while (len) {
		char *room = buf_space(out, PIECE);

		if (!room)
			return err_new(TOO_LARGE, "file_too_large", "the file is too large");
		TRY(pump_get(fd, out->len, room, PIECE, &len));
		buf_grew(out, len);
	}
	return OK;
}

// False: the pattern is not in it.
static bool replace_text(struct str text, struct str pattern, struct str value, struct buf *out)
{
	const char *at;
	bool found = false;

	while (text.len && (at = memmem(text.at, text.len, pattern.at, pattern.len))) {
		buf_add(out, text.at, (size_t)(at - text.at));
		buf_str(out, value);
		text = str_skip(text, (size_t)(at - text.at) + pattern.len);
		found = true;
	}
	buf_str(out, text);
	return found;
}

static fallible replace_store(struct files_target *target, const char *path, struct str text)
{
	struct files_upload *upload = NULL;
	struct fileop_stat stat;
	struct err *err;

	TRY(files_begin(&target->files, path, 0, FILEOP_KEEP_MODE, &upload));
	err = pump_put(files_upload_fd(upload), text.at, text.len);
	if (err) {
		files_abort(upload);
		return err;
	}
	return files_commit(upload, target->files.deadline, &stat);
}

static fallible replace_file(struct files_target *target, struct str name, struct str pattern,
			     struct str value)
{
	auto_buf before = BUF_INIT(REPLACE_SIZE_MAX + 2 * PIECE);
	auto_buf after = BUF_INIT(2 * REPLACE_SIZE_MAX);
	const char *path = NULL;

	TRY(files_target_path(target, name, "files", &path));
	files_target_within(target, FILES_TARGET_SHORT_MS);
	TRY(replace_load(target, path, &before));
	if (!replace_text(buf_view(&before), pattern, value, &after))
		return OK;
	if (!buf_ok(&after))
		return err_new(TOO_LARGE, "file_too_large", "the file would be too large");
	return replace_store(target, path, buf_view(&after));
}

static fallible files_replace(struct files_target *target)
{
	auto_buf answer = BUF_INIT(8 << 20);
	struct json_out out = json_to(&answer);
	struct str pattern = {0}, value = {0};
	auto_json body = NULL;
	struct json *files;

	TRY(gateway_object(target->x, &body));
	files = json_get(body, "files");
	if (!files)
		return err_new(INVALID, "bad_field", "'files' is missing");
	TRY(json_want(files, "files", JSON_ARRAY));
	TRY(json_str(json_get(body, "pattern"), "pattern", &pattern));
	TRY(json_str(json_get(body, "newValue"), "newValue", &value));
	if (!pattern.len)
		return err_new(INVALID, "bad_field", "'pattern' is empty");
	if (json_count(files) > REPLACE_FILES_MAX)
		return err_new(INVALID, "bad_field", "'files' may have %d entries",
			       REPLACE_FILES_MAX);
	json_begin(&out, '[');
	for (size_t i = 0; i < json_count(files); i++) {
		struct str name = json_chars(json_at(files, i));
		auto_err err = replace_file(target, name, pattern, value);

		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		json_begin(&out, '{');
		json_put_str(&out, "file", name);
		json_put_bool(&out, "success", !err);
		if (err)
			json_put_text(&out, "error", err_message(err));
		json_end(&out, '}');
	}
	json_end(&out, ']');
	return http_reply_json(target->x, 200, &answer);
}

// ------------------------------------------------------------------------------------------ routes

#define SERVE(name, work)                                                                          \
	fallible daytona_files_##name(struct http *x)                                              \
	{                                                                                          \
		return files_target_serve(x, work);                                                \
	}
SERVE(list, files_list_entries)
SERVE(info, files_info)
SERVE(folder, files_folder)
SERVE(delete, files_delete)
SERVE(move, files_move_to)
SERVE(permissions, files_permissions)
SERVE(find, files_find_text)
SERVE(search, files_search)
SERVE(replace, files_replace)
