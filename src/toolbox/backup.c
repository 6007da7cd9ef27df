// An archive is a tar compressed with zstd. A file worker in the box packs and unpacks the tar,
// with the ids of the box's user. The daemon only compresses and decompresses, one piece at a time
// in a worker thread. The archive gets its name when it is complete, and a restored directory is
// unpacked beside the old one and swapped in by two renames, so a failure leaves neither a torn
// archive nor a torn directory. Nothing is mounted.
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/secret.h"
#include "codec/text.h"
#include "codec/zstd.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "loop/pump.h"
#include "toolbox/handlers.h"
#include "toolbox/helper_exec.h"

#define PIECE (128 * 1024)
#define OUT_MAX (2 * ZSTD_STEP)
#define SILENCE_MS 30000
#define LEVEL_FAST 1 // used where upstream's default is lz4
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
	if (!str_starts(archive, ARCHIVES) || archive.len == sizeof(ARCHIVES) - 1)
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

static fallible zstd_step_do(struct zstd_step *step)
{
	offload_run(zstd_step_run, step);
	return step->err;
}

// Reads the next bytes of a pipe whose other end is in the box; *out = 0 at its end.
static fallible backup_take(const struct backup *backup, int pipe, void *room, size_t *out)
{
	for (;;) {
		ssize_t n = pipe_take(box_at(backup->files.box), pipe, room, PIECE);
		uint32_t events;

		if (n >= 0) {
			*out = (size_t)n;
			return OK;
		}
		if (errno != EAGAIN)
			return err_sys(errno, "read a pipe of the sandbox");
		TRY(task_wait_fd(pipe, EPOLLIN, clock_ms() + SILENCE_MS, &events));
	}
}

static fallible backup_give(const struct backup *backup, int pipe, struct str bytes)
{
	while (bytes.len) {
		ssize_t n = pipe_give(box_at(backup->files.box), pipe, bytes.at, bytes.len);
		uint32_t events;

		if (n >= 0) {
			bytes = str_skip(bytes, (size_t)n);
			continue;
		}
		if (errno == EPIPE) // the file worker gave up: files_end() returns its error
			return OK;
		if (errno != EAGAIN)
			return err_sys(errno, "write to a pipe of the sandbox");
		TRY(task_wait_fd(pipe, EPOLLOUT, clock_ms() + SILENCE_MS, &events));
	}
	return OK;
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

			TRY(backup_take(backup, pipe, room, &got));
			step.in = (struct str){room, got};
			step.last = got == 0;
		}
		TRY(zstd_step_do(&step));
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
		TRY(zstd_step_do(&step));
		TRY(backup_give(backup, pipe, buf_view(&out)));
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
	struct files_pack spec = {backup->excludes, backup->gitignore, backup->tracked};
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

static void backup_fail(struct backup *backup, const char *operation, const char *reason,
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
	error_response_answer(backup->x, backup_face(err, reason), &detail);
}

static void backup_end(struct backup *backup)
{
	box_ref_end(&backup->ref);
}

static fallible backup_begin(struct backup *backup, struct http *x)
{
	struct gateway *gateway = gateway_of(x);

	backup->x = x;
	TRY(box_ref_begin(gateway->manager, gateway_who(x), x->params[0], &backup->ref));
	backup->files = (struct files){
		.box = backup->ref.box,
		.user = "",
		.deadline = loop_now(gateway->loop) + LONG_MS,
	};
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
	backup_fail(&backup, "backup.create", "backup_create", err);
	return OK;
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
	backup_fail(&backup, "backup.restore", "backup_restore", err);
	return OK;
}
