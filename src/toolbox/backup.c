// Backups. An archive is a tar compressed with zstd. A file worker in the box packs and unpacks the
// tar, with the ids of the box's user. The daemon only compresses and decompresses, one piece at a
// time in a worker thread. The archive gets its name when it is complete, and a restored directory
// is unpacked beside the old one and swapped in by two renames, so a failure leaves neither a torn
// archive nor a torn directory. Nothing is mounted.
//
// An upload sends parts of an archive to presigned URLs, a few at a time. Presigned URLs are
// secrets: errors name only the part and the host.
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/text.h"
#include "codec/zstd.h"
#include "gateway/upload_put.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/handlers.h"
#include "toolbox/helper_exec.h"
#include "toolbox/path_arg.h"

#define PIECE (128 * 1024)
#define OUT_MAX (2 * ZSTD_STEP)
#define SILENCE_MS 30000 // without progress in the box, or of an upload
#define LEVEL_FAST 1	 // used where upstream's default is lz4
#define LEVEL_ZSTD 3
#define EXCLUDES_MAX 1000
#define TRACKED_MAX 1000
#define TRACKED_BYTES (32 * 1024)
#define ARCHIVES "/var/backups/"
#define PATH_LONGEST 4096
#define LONG_MS 600000

static const char *const homes[] = {"/workspace", "/home", "/tmp", "/var/tmp", "/app"};
#define COUNT(list) (sizeof(list) / sizeof(*(list)))

struct backup {
	struct http *x;
	struct box_ref ref;
	struct files files;
	const char *dir, *archive;
	const char **excludes; // NULL-terminated
	size_t exclude_count;
	const char **tracked; // NULL-terminated, or NULL
	bool gitignore;
	int level;
};

static fallible bad_config(const char *field, const char *why)
{
	return err_new(INVALID, "bad_backup", "'%s' %s", field, why);
}

static bool is_beneath(struct str path, const char *home)
{
	size_t len = strlen(home);

	return str_starts(path, home) && (path.len == len || path.at[len] == '/');
}

static bool has_dots(struct str path)
{
	struct str part;

	while (str_cut(&path, '/', &part))
		if (str_is(part, ".."))
			return true;
	return false;
}

static bool is_archive(struct str path)
{
	return str_starts(path, ARCHIVES) && path.len > sizeof(ARCHIVES) - 1;
}

static fallible check_path(const char *field, struct str path)
{
	if (!path.len || path.at[0] != '/')
		return bad_config(field, "must be an absolute path");
	if (path.len > PATH_LONGEST)
		return bad_config(field, "may have 4096 bytes");
	if (has_dots(path))
		return bad_config(field, "must not contain '..'");
	return OK;
}

static fallible read_paths(struct backup *backup, const struct json *json)
{
	struct arena *arena = backup->x->arena;
	struct str dir = {0}, archive = {0};
	bool known = false;

	TRY(json_str(json_get(json, "dir"), "dir", &dir));
	TRY(check_path("dir", dir));
	while (dir.len > 1 && dir.at[dir.len - 1] == '/')
		dir.len--;
	for (size_t i = 0; i < COUNT(homes); i++)
		known |= is_beneath(dir, homes[i]);
	if (!known)
		return bad_config("dir", "must be in /workspace, /home, /tmp, /var/tmp or /app");
	TRY(json_str(json_get(json, "archivePath"), "archivePath", &archive));
	TRY(check_path("archivePath", archive));
	if (!is_archive(archive))
		return bad_config("archivePath", "must be a file in " ARCHIVES);
	backup->dir = arena_dup(arena, dir.at, dir.len);
	backup->archive = arena_dup(arena, archive.at, archive.len);
	return OK;
}

// Translates a glob of upstream's into ours. Prefixes and suffixes that mean "at any depth" are
// dropped: here a bare name already matches at any depth. A pattern with a leading slash is a path
// beneath the directory, or an absolute path if it begins with the directory's own path.
static const char *plain_glob(struct arena *arena, const char *dir, struct str glob)
{
	auto_buf plain = BUF_INIT(PATH_LONGEST + 1);

	if (str_starts(glob, dir) && glob.len > strlen(dir) && glob.at[strlen(dir)] == '/')
		glob = str_skip(glob, strlen(dir));
	while (str_starts(glob, "**/"))
		glob = str_skip(glob, 3);
	while (str_ends(glob, "/**"))
		glob.len -= 3;
	while (glob.len > 1 && str_ends(glob, "/"))
		glob.len--;
	while (glob.len) {
		size_t step = str_starts(glob, "/**/") ? 4 : 1;

		buf_char(&plain, glob.at[0]);
		glob = str_skip(glob, step);
	}
	return buf_ok(&plain) && plain.len ? arena_dup(arena, plain.at, plain.len) : NULL;
}

static fallible read_excludes(struct backup *backup, const struct json *list)
{
	struct arena *arena = backup->x->arena;
	size_t count = list ? json_count(list) : 0;

	if (list)
		TRY(json_want(list, "excludes", JSON_ARRAY));
	if (count > EXCLUDES_MAX)
		return bad_config("excludes", "may have 1000 entries");
	backup->excludes = arena_take(arena, (EXCLUDES_MAX + 1) * sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		struct str glob = {0};
		const char *plain;

		TRY(json_str(json_at(list, i), "excludes", &glob));
		plain = plain_glob(arena, backup->dir, glob);
		if (plain)
			backup->excludes[backup->exclude_count++] = plain;
	}
	backup->excludes[backup->exclude_count] = NULL;
	return OK;
}

static fallible read_compression(struct backup *backup, const struct json *json)
{
	static const char *const formats[] = {"gzip", "lz4", "zstd"};
	struct str format = STR("lz4");
	uint64_t threads = 1;
	bool known = false;

	TRY(json_str(json_get(json, "format"), "compression.format", &format));
	TRY(json_u64(json_get(json, "threads"), "compression.threads", 1, 1024, &threads));
	for (size_t i = 0; i < COUNT(formats); i++)
		known |= str_is(format, formats[i]);
	if (!known)
		return bad_config("compression.format", "must be gzip, lz4 or zstd");
	backup->level = str_is(format, "lz4") ? LEVEL_FAST : LEVEL_ZSTD;
	return OK;
}

// Lists files that git tracks although an ignore rule names them: they are archived. The list is
// empty without git or outside a repository.
static fallible read_tracked(struct backup *backup)
{
	const char *argv[] = {"git",	  "-C",	       backup->dir,	     "ls-files", "-z",
			      "--cached", "--ignored", "--exclude-standard", NULL};
	struct http *x = backup->x;
	auto_helper_exec helper = {.argv = argv, .wall_ms = 60000, .output_max = TRACKED_BYTES};
	struct err *err = helper_exec_run(x, &helper);
	struct str rest, name;
	size_t count = 0;

	if (err && !strcmp(err_reason(err), "command_not_found")) {
		err_free(err);
		return OK;
	}
	TRY(err);
	if (helper.result.exit_code != 0)
		return OK;
	backup->tracked = arena_take(x->arena, (TRACKED_MAX + 1) * sizeof(char *));
	rest = buf_view(&helper.out);
	while (rest.len && str_cut(&rest, 0, &name)) {
		if (count == TRACKED_MAX || helper.out.len == TRACKED_BYTES)
			return bad_config("gitignore", "has too many files that are tracked all "
						       "the same; use 'excludes'");
		if (name.len)
			backup->tracked[count++] = arena_dup(x->arena, name.at, name.len);
	}
	backup->tracked[count] = NULL;
	return OK;
}

static fallible backup_read_body(struct backup *backup, struct json **json)
{
	TRY(gateway_json(backup->x, json, NULL));
	if (!*json)
		return bad_config("body", "is empty");
	TRY(json_want(*json, "body", JSON_OBJECT));
	return read_paths(backup, *json);
}

// One step of the (de)compressor, run in a worker thread.
struct zstd_step {
	struct zstd *zstd;
	struct str in;
	bool last, done;
	struct buf *out;
	struct err *err;
};

static void zstd_step_run(void *arg)
{
	struct zstd_step *step = arg;

	step->err = zstd_feed(step->zstd, &step->in, step->last, step->out, &step->done);
}

static fallible backup_compress(struct backup *backup, int pipe, int file)
{
	char *room = arena_take(backup->x->arena, PIECE);
	auto_zstd zstd = zstd_packer(backup->level);
	auto_buf out = BUF_INIT(OUT_MAX);
	struct zstd_step step = {.zstd = zstd, .out = &out};

	while (!step.done) {
		if (!step.in.len && !step.last) {
			size_t got = 0;

			TRY(files_tar_take(&backup->files, pipe, room, PIECE, SILENCE_MS, &got));
			step.in = (struct str){room, got};
			step.last = got == 0;
		}
		offload_run(zstd_step_run, &step);
		TRY(step.err);
		if (out.len)
			TRY(pump_put(file, out.at, out.len));
		buf_clear(&out);
	}
	return OK;
}

static fallible backup_decompress(struct backup *backup, int file, int pipe)
{
	char *room = arena_take(backup->x->arena, PIECE);
	auto_zstd zstd = zstd_unpacker();
	auto_buf out = BUF_INIT(OUT_MAX);
	struct zstd_step step = {.zstd = zstd, .out = &out};
	uint64_t offset = 0;
	bool closed = false;

	while (!step.done) {
		bool full = out.len >= ZSTD_STEP;

		buf_clear(&out);
		if (!step.in.len && !full) {
			size_t got = 0;

			TRY(pump_get(file, offset, room, PIECE, &got));
			if (!got)
				return err_new(INVALID, "bad_archive",
					       "the archive ends too early");
			offset += got;
			step.in = (struct str){room, got};
		}
		offload_run(zstd_step_run, &step);
		TRY(step.err);
		// A file worker that gave up has closed the pipe: files_end() returns its error.
		TRY(files_tar_give(&backup->files, pipe, buf_view(&out), SILENCE_MS, &closed));
	}
	return OK;
}

// Closes the pipe and reads the file worker's result. Its error is preferred to ours: it is the
// cause.
static fallible backup_settle(int *pipe, struct files_walk *walk, struct err *ours)
{
	struct files_total total;
	struct err *theirs;

	close(*pipe);
	*pipe = -1;
	theirs = files_end(walk, &total);
	if (theirs) {
		err_free(ours);
		return theirs;
	}
	return ours;
}

static fallible backup_pack(struct backup *backup, uint64_t *out_size)
{
	struct files *files = &backup->files;
	struct files_upload *upload = NULL;
	struct files_walk *walk = NULL;
	struct files_pack spec = {.exclude = backup->excludes,
				  .gitignore = backup->gitignore,
				  .tracked = backup->tracked};
	struct fileop_stat stat = {0};
	struct err *err;
	int pipe = -1;

	TRY(files_begin(files, backup->archive, FILEOP_PARENTS, 0600, &upload));
	err = files_pack(files, backup->dir, &spec, &pipe, &walk);
	if (!err)
		err = backup_settle(&pipe, walk,
				    backup_compress(backup, pipe, files_upload_fd(upload)));
	if (err) {
		files_abort(upload);
		return err;
	}
	TRY(files_commit(upload, files->deadline, &stat));
	*out_size = stat.size;
	return OK;
}

static fallible unpack_beside(struct backup *backup, const char *beside)
{
	struct files *files = &backup->files;
	struct files_walk *walk = NULL;
	struct fileop_stat stat;
	struct err *err;
	int file = -1, pipe = -1;

	TRY(files_open(files, backup->archive, &file, &stat));
	err = files_unpack(files, beside, FILEOP_OWNERS, &pipe, &walk);
	if (!err)
		err = backup_settle(&pipe, walk, backup_decompress(backup, file, pipe));
	closer_drop(&file);
	return err;
}

// Swaps the new tree for the old one. If the second rename fails, the old tree is renamed back.
static fallible backup_exchange(struct backup *backup, const char *fresh, const char *old)
{
	struct files *files = &backup->files;
	bool exists = false;
	struct err *err;

	TRY(files_exists(files, backup->dir, &exists));
	if (exists)
		TRY(files_move(files, backup->dir, old, true));
	err = files_move(files, fresh, backup->dir, true);
	if (err && exists)
		err_free(files_move(files, old, backup->dir, true));
	if (!err && exists)
		err = files_remove(files, old, true);
	return err;
}

static fallible backup_unpack(struct backup *backup)
{
	struct arena *arena = backup->x->arena;
	auto_buf mark = BUF_INIT(32);
	const char *fresh, *old;
	struct err *err;
	uint8_t salt[8];

	secret_random(salt, sizeof(salt));
	text_hex(&mark, salt, sizeof(salt));
	fresh = arena_fmt(arena, "%s.new-%s", backup->dir, mark.at);
	old = arena_fmt(arena, "%s.old-%s", backup->dir, mark.at);
	err = unpack_beside(backup, fresh);
	if (!err)
		err = backup_exchange(backup, fresh, old);
	if (err)
		err_free(files_remove(&backup->files, fresh, true));
	return err;
}

// Maps every error to `reason`, except the errors that are the request's fault.
static struct err *backup_face(struct err *err, const char *reason)
{
	if (!strcmp(err_reason(err), "bad_backup") || !strcmp(err_reason(err), "no_space") ||
	    err_kind(err) == ERR_GONE || err_kind(err) == ERR_CANCELLED ||
	    !strcmp(err_reason(err), "no_sandbox"))
		return err;
	if (err_kind(err) == ERR_INVALID && !strcmp(err_reason(err), "bad_field"))
		return err_recast(err, ERR_INVALID, "bad_backup", "%s", err_message(err));
	if (!strcmp(err_reason(err), "bad_json") || !strcmp(err_reason(err), "bad_content_type"))
		return err;
	return err_recast(err, ERR_CONFLICT, reason, "%s", err_message(err));
}

static fallible backup_fail(struct backup *backup, const char *operation, const char *reason,
			    struct err *err)
{
	auto_buf context = BUF_INIT(32 * 1024);
	struct json_out out = json_to(&context);
	struct error_response_detail detail = {.operation = operation};

	json_begin(&out, '{');
	json_put_text(&out, "operation", operation);
	if (backup->dir)
		json_put_text(&out, "dir", backup->dir);
	if (backup->archive)
		json_put_text(&out, "archivePath", backup->archive);
	json_end(&out, '}');
	detail.context = buf_view(&context);
	return error_response_answer(backup->x, backup_face(err, reason), &detail);
}

static void backup_end(struct backup *backup)
{
	box_ref_end(&backup->ref);
}

static fallible backup_begin(struct backup *backup, struct http *x)
{
	backup->x = x;
	TRY(gateway_box(x, &backup->ref));
	backup->files = gateway_files(x, &backup->ref, LONG_MS);
	return OK;
}

static fallible toolbox_backup_pack(struct backup *backup, struct json **json, uint64_t *out_size)
{
	TRY(backup_read_body(backup, json));
	TRY(read_excludes(backup, json_get(*json, "excludes")));
	TRY(json_bool(json_get(*json, "gitignore"), "gitignore", &backup->gitignore));
	TRY(read_compression(backup, json_get(*json, "compression")));
	if (backup->gitignore)
		TRY(read_tracked(backup));
	return backup_pack(backup, out_size);
}

static fallible backup_answer(struct backup *backup, uint64_t size)
{
	auto_buf body = BUF_INIT(32 * 1024);
	struct json_out out = gateway_success(&body);

	if (size) {
		json_put_int(&out, "sizeBytes", (int64_t)size);
		json_put_text(&out, "archivePath", backup->archive);
	} else {
		json_put_text(&out, "dir", backup->dir);
	}
	return gateway_answer(backup->x, &out);
}

fallible toolbox_backup_create(struct http *x)
{
	on_exit_call(backup_end) struct backup backup = {.level = LEVEL_FAST};
	auto_json json = NULL;
	uint64_t size = 0;
	struct err *err = backup_begin(&backup, x);

	if (!err)
		err = toolbox_backup_pack(&backup, &json, &size);
	if (!err)
		return backup_answer(&backup, size);
	return backup_fail(&backup, "backup.create", "backup_create", err);
}

fallible toolbox_backup_restore(struct http *x)
{
	on_exit_call(backup_end) struct backup backup = {0};
	auto_json json = NULL;
	struct err *err = backup_begin(&backup, x);

	if (!err)
		err = backup_read_body(&backup, &json);
	if (!err)
		err = backup_unpack(&backup);
	if (!err)
		return backup_answer(&backup, 0);
	return backup_fail(&backup, "backup.restore", "backup_restore", err);
}

// ------------------------------------------------------------------------------- upload

// A few tasks upload one part after another. Each part is tried three times; a 4xx status and a
// forbidden address are final at once. The request gets all ETags or one error. It always waits for
// its tasks, because they read the archive fd that it holds.
#define PARTS_MAX 10000 // parts of one upload, the limit of object stores
#define AT_ONCE 4
#define TRIES 3
#define RETRY_MS 250
#define DIAL_MS 10000
#define ETAG_MAX 1024
#define URL_MAX 8192
#define HTTPS 443

struct part {
	uint64_t number, offset, size;
	struct url url;
	struct buf etag;
};

struct parts {
	struct path_arg *path_arg;
	struct part *at;
	size_t count, next;
	int file;
	struct task *tasks[AT_ONCE];
	uint32_t running;
	struct err *err; // the first error
	uint64_t failed; // the number of its part; 0: none
	struct condition ended;
};

static fallible read_part(const struct json *json, struct part *part)
{
	struct str url = {0};

	TRY(json_want(json, "parts", JSON_OBJECT));
	if (!json_get(json, "partNumber") || !json_get(json, "offset") || !json_get(json, "size"))
		return bad_config("parts", "must have partNumber, url, offset and size");
	TRY(json_u64(json_get(json, "partNumber"), "parts.partNumber", 1, PARTS_MAX,
		     &part->number));
	TRY(json_u64(json_get(json, "offset"), "parts.offset", 0, 1ull << 53, &part->offset));
	TRY(json_u64(json_get(json, "size"), "parts.size", 1, 1ull << 53, &part->size));
	TRY(json_str(json_get(json, "url"), "parts.url", &url));
	part->etag = BUF_INIT(ETAG_MAX);
	if (url.len > URL_MAX || !url_absolute(url, &part->url) ||
	    !str_is(part->url.scheme, "https"))
		return bad_config("parts.url", "must be an https URL");
	return OK;
}

static fallible parts_read_body(struct parts *parts, const struct json *json)
{
	const struct json *list = json_get(json, "parts");
	struct str archive = {0};

	TRY(json_str(json_get(json, "archivePath"), "archivePath", &archive));
	if (!is_archive(archive) || has_dots(archive))
		return bad_config("archivePath", "must be a file in " ARCHIVES);
	TRY(path_arg_text(parts->path_arg, "archivePath", archive));
	TRY(json_want(list, "parts", JSON_ARRAY));
	parts->count = list ? json_count(list) : 0;
	if (!parts->count || parts->count > PARTS_MAX)
		return bad_config("parts", "must have 1 to 10000 entries");
	parts->at = arena_take(parts->path_arg->x->arena, parts->count * sizeof(*parts->at));
	memset(parts->at, 0, parts->count * sizeof(*parts->at));
	for (size_t i = 0; i < parts->count; i++)
		TRY(read_part(json_at(list, i), &parts->at[i]));
	return OK;
}

static fallible open_archive(struct parts *parts)
{
	struct path_arg *path_arg = parts->path_arg;
	struct fileop_stat stat;

	TRY(files_open(&path_arg->files, path_arg->path, &parts->file, &stat));
	for (size_t i = 0; i < parts->count; i++)
		if (parts->at[i].offset > stat.size ||
		    parts->at[i].size > stat.size - parts->at[i].offset)
			return bad_config("parts", "must lie inside of the archive");
	return OK;
}

static fallible parts_refused(int status)
{
	if (status >= 500 || status == 408 || status == 429)
		return err_new(BAD_PEER, "refused", "the server answered %d", status);
	return err_hint(err_new(FORBIDDEN, "refused", "the server answered %d", status),
			"the URL may have expired, or be signed for something else");
}

static fallible send_once(struct parts *parts, struct part *part)
{
	struct http *x = parts->path_arg->x;
	const struct url *url = &part->url;
	uint16_t port = url->port ? url->port : HTTPS;
	auto_free char *name = mem_dup(url->host.at, url->host.len);
	bool v6 = memchr(url->host.at, ':', url->host.len);
	auto_free char *bare = mem_fmt(v6 ? "[%s]" : "%s", name);
	auto_free char *host = mem_fmt("%s:%u", bare, port);
	struct upload_put put = {
		.name = name,
		.host = str_of(port == HTTPS ? bare : host),
		.file = parts->file,
		.offset = part->offset,
		.size = part->size,
	};
	auto_free char *target = mem_fmt(STR_FMT "%s" STR_FMT, STR_ARG(url->path),
					 url->query.len ? "?" : "", STR_ARG(url->query));
	on_exit_call(stream_close) struct stream stream = {.fd = -1};
	int status = 0;

	put.target = str_of(target);
	buf_clear(&part->etag);
	TRY(upload_put_connect(&gateway_of(x)->outbound, gateway_of(x)->loop, url->host, port,
			       loop_now(gateway_of(x)->loop) + DIAL_MS, &stream));
	TRY(upload_put_send(&stream, gateway_of(x)->outbound.trust, &put, SILENCE_MS, &status,
			    &part->etag));
	if (status < 200 || status > 299)
		return parts_refused(status);
	return part->etag.len ? OK : err_new(BAD_PEER, "bad_reply", "the server sent no ETag");
}

static fallible parts_send(struct parts *parts, struct part *part)
{
	struct loop *loop = gateway_of(parts->path_arg->x)->loop;

	for (int tries = 1;; tries++) {
		struct err *err = send_once(parts, part);

		if (!err || tries == TRIES ||
		    (err_kind(err) != ERR_BAD_PEER && err_kind(err) != ERR_TIMEOUT) ||
		    !strcmp(err_reason(err), "unknown_name"))
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(loop) + (RETRY_MS << tries)));
	}
}

static void parts_send_parts(void *arg)
{
	struct parts *parts = arg;

	while (!parts->err && parts->next < parts->count) {
		struct part *part = &parts->at[parts->next++];
		struct err *err = parts_send(parts, part);

		if (!err || parts->err) {
			err_free(err);
			continue;
		}
		parts->err = err;
		parts->failed = part->number;
	}
	for (size_t i = 0; i < AT_ONCE; i++)
		if (parts->tasks[i] == task_current())
			parts->tasks[i] = NULL;
	parts->running--;
	condition_signal(&parts->ended);
}

static fallible send_all(struct parts *parts)
{
	struct http *x = parts->path_arg->x;
	struct err *gone;

	condition_init(&parts->ended);
	gone = http_away(x, HTTP_PROBE_HEAD);
	if (gone)
		return gone;
	while (parts->running < AT_ONCE && parts->running < parts->count) {
		parts->tasks[parts->running++] = task_start(gateway_of(x)->loop, "parts",
							    parts_send_parts, parts);
	}
	while (parts->running && !parts->err && !gone)
		gone = condition_wait(&parts->ended, CLOCK_NEVER);
	for (size_t i = 0; i < AT_ONCE; i++)
		if (parts->tasks[i])
			task_cancel(parts->tasks[i]);
	task_shield(true);
	while (parts->running)
		err_free(condition_wait(&parts->ended, CLOCK_NEVER));
	task_shield(false);
	http_back(x);
	if (!gone)
		return take_ptr(parts->err);
	err_free(take_ptr(parts->err));
	return gone;
}

static fallible parts_answer(struct parts *parts)
{
	auto_buf body = BUF_INIT(16 << 20);
	struct json_out out = gateway_success(&body);

	json_put_begin(&out, "parts", '[');
	for (size_t i = 0; i < parts->count; i++) {
		json_begin(&out, '{');
		json_put_int(&out, "partNumber", (int64_t)parts->at[i].number);
		json_put_str(&out, "etag", buf_view(&parts->at[i].etag));
		json_end(&out, '}');
	}
	json_end(&out, ']');
	return gateway_answer(parts->path_arg->x, &out);
}

static void parts_end(struct parts *parts)
{
	closer_drop(&parts->file);
	for (size_t i = 0; parts->at && i < parts->count; i++)
		buf_done(&parts->at[i].etag);
}

// Errors of the request, the sandbox or the client keep their reason.
static fallible parts_face(const struct parts *parts, struct err *err)
{
	static const char *const own[] = {"bad_backup", "bad_json", "bad_content_type",
					  "not_global"};

	if (!err || err_kind(err) == ERR_CANCELLED || err_kind(err) == ERR_GONE)
		return err;
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (!strcmp(err_reason(err), own[i]))
			return err;
	if (!strcmp(err_reason(err), "bad_field"))
		return err_recast(err, ERR_INVALID, "bad_backup", "%s", err_message(err));
	if (!parts->failed)
		return err_recast(err, ERR_CONFLICT, "backup_create", "%s", err_message(err));
	return err_recast(err, ERR_CONFLICT, "backup_create", "part %llu was not sent: %s",
			  (unsigned long long)parts->failed, err_message(err));
}

fallible toolbox_backup_upload(struct path_arg *path_arg)
{
	on_exit_call(parts_end) struct parts parts = {.path_arg = path_arg, .file = -1};
	struct err *err = path_arg_json(path_arg);

	path_arg->field = path_arg->code = NULL;
	if (!err)
		err = parts_read_body(&parts, path_arg->json);
	path_arg->field = path_arg->code = NULL;
	if (!err)
		err = open_archive(&parts);
	if (!err)
		err = send_all(&parts);
	TRY(parts_face(&parts, err));
	return parts_answer(&parts);
}
