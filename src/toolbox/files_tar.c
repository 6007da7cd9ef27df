// Trees as tar archives. A file worker in the box packs and unpacks; the archive passes through a
// pipe and the daemon parses none of it. The other end of the pipe is untrusted: the daemon never
// blocks in read(2) or write(2) on it, waits on the event loop, and gives up after a time without
// progress.
#include <errno.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "toolbox/files.h"
#include "toolbox/handlers.h"

#define ROOM (256 * 1024)
#define SILENCE_MS 60000
#define SETTLE_MS 5000 // what was sent before the client was gone

static fallible files_tar_wait_for(int fd, uint32_t events, int64_t silence_ms)
{
	uint32_t ready;
	struct err *err = task_wait_fd(fd, events, loop_now(task_loop()) + silence_ms, &ready);

	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_recast(err, ERR_TIMEOUT, "box_silent",
				  "nothing moved in the sandbox for too long");
	return err;
}

fallible files_tar_take(const struct files *files, int fd, void *room, size_t size,
			int64_t silence_ms, size_t *out)
{
	for (;;) {
		ssize_t n = pipe_take(box_at(files->box), fd, room, size);

		if (n >= 0) {
			*out = (size_t)n;
			return OK;
		}
		if (errno == EAGAIN)
			TRY(files_tar_wait_for(fd, EPOLLIN, silence_ms));
		else if (errno != EINTR)
			return err_sys(errno, "read an archive");
	}
}

fallible files_tar_give(const struct files *files, int fd, struct str bytes, int64_t silence_ms,
			bool *out_closed)
{
	while (bytes.len > 0 && !*out_closed) {
		ssize_t n = pipe_give(box_at(files->box), fd, bytes.at, bytes.len);

		if (n >= 0)
			bytes = str_skip(bytes, (size_t)n);
		else if (errno == EAGAIN)
			TRY(files_tar_wait_for(fd, EPOLLOUT, silence_ms));
		else if (errno == EPIPE)
			*out_closed = true;
		else if (errno != EINTR)
			return err_sys(errno, "write an archive");
	}
	return OK;
}

static fallible files_tar_read_path_arg(struct path_arg *path_arg)
{
	struct str path = http_query(path_arg->x, "path");

	TRY(path_arg_query(path_arg));
	return path_arg_text(path_arg, "path", path);
}

static fallible read_exclude(struct path_arg *path_arg, const char *const **out)
{
	struct str rest = path_arg->x->url.query, key, value;
	const char **globs = arena_take(path_arg->x->arena,
					(PATH_ARG_GLOBS_MAX + 1) * sizeof(*globs));
	size_t count = 0;

	while (url_pair(&rest, &key, &value)) {
		auto_buf text = BUF_INIT(PATH_ARG_GLOB_BYTES);
		auto_buf pair = BUF_INIT(4 * PATH_ARG_GLOB_BYTES);

		if (!str_is(key, "exclude"))
			continue;
		buf_text(&pair, "exclude=");
		buf_str(&pair, value);
		if (count == PATH_ARG_GLOBS_MAX || !buf_ok(&pair) ||
		    !url_query(buf_view(&pair), "exclude", &text) || !text.len || !buf_ok(&text)) {
			path_arg_at(path_arg, "exclude", "INVALID_PATTERN");
			return err_new(INVALID, "bad_field",
				       "'exclude' must be up to %d patterns of 1 to %d bytes",
				       PATH_ARG_GLOBS_MAX, PATH_ARG_GLOB_BYTES);
		}
		globs[count++] = arena_dup(path_arg->x->arena, text.at, text.len);
	}
	*out = globs;
	return OK;
}

static fallible copy_pipe(struct path_arg *path_arg, int fd)
{
	char *room = arena_take(path_arg->x->arena, ROOM);
	size_t n = 0;

	for (;;) {
		TRY(files_tar_take(&path_arg->files, fd, room, ROOM, SILENCE_MS, &n));
		if (n == 0)
			return OK;
		TRY(http_write(path_arg->x, room, n));
	}
}

static void drop_walk(struct files_walk **walk)
{
	files_drop(*walk);
}

fallible toolbox_files_pack(struct path_arg *path_arg)
{
	on_exit_call(drop_walk) struct files_walk *walk = NULL;
	struct files_pack spec = {0};
	struct files_total total = {0};
	struct http *x = path_arg->x;
	auto_fd fd = -1;

	TRY(files_tar_read_path_arg(path_arg));
	TRY(read_exclude(path_arg, &spec.exclude));
	TRY(gateway_flag(x, "gitignore", &spec.gitignore));
	TRY(gateway_flag(x, "stats", &spec.stats));
	path_arg->files.deadline = CLOCK_NEVER;
	TRY(files_pack(&path_arg->files, path_arg->path, &spec, &fd, &walk));
	http_be_patient(x);
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	TRY(http_begin(x, 200, spec.stats ? "application/octet-stream" : "application/x-tar"));
	if (str_is(x->head.method, "HEAD"))
		return http_end(x);
	TRY(copy_pipe(path_arg, fd));
	// On failure the reply is left incomplete, which tells the client that the archive is not
	// whole.
	TRY(files_end(take_ptr(walk), &total));
	return http_end(x);
}

// Bytes after the end of the archive are read and ignored.
static fallible files_tar_feed(struct path_arg *path_arg, int fd, bool *out_closed)
{
	struct http *x = path_arg->x;
	char *room = arena_take(x->arena, ROOM);
	size_t n = 1;

	while (n > 0 && !*out_closed) {
		TRY(http_read(x, room, ROOM, &n));
		TRY(files_tar_give(&path_arg->files, fd, (struct str){room, n}, SILENCE_MS,
				   out_closed));
	}
	return OK;
}

static fallible skip_rest(struct http *x)
{
	char *room = arena_take(x->arena, ROOM);
	size_t n = 1;

	while (n > 0)
		TRY(http_read(x, room, ROOM, &n));
	return OK;
}

static void files_tar_end_sync(struct box **box)
{
	if (*box)
		files_sync_end(*box);
}

// The worker has read the pipe to its end when it answers: nothing of this archive comes later.
static void files_tar_settle(struct files_walk *walk)
{
	task_shield(true);
	files_within(walk, loop_now(task_loop()) + SETTLE_MS);
	err_free(files_end(walk, &(struct files_total){0}));
	task_shield(false);
}

fallible toolbox_files_unpack(struct path_arg *path_arg)
{
	on_exit_call(files_tar_end_sync) struct box *syncing = NULL;
	on_exit_call(drop_walk) struct files_walk *walk = NULL;
	struct json_out *out;
	struct files_total total = {0};
	bool closed = false, sync = false;
	struct err *err;
	auto_fd fd = -1;

	TRY(gateway_flag(path_arg->x, "sync", &sync));
	if (sync) {
		syncing = path_arg->files.box;
		files_sync_begin(syncing);
	}
	TRY(files_tar_read_path_arg(path_arg));
	path_arg->files.deadline = CLOCK_NEVER;
	TRY(files_unpack(&path_arg->files, path_arg->path, 0, &fd, &walk));
	err = files_tar_feed(path_arg, fd, &closed);
	close(take_fd(&fd));
	if (err) {
		files_tar_settle(take_ptr(walk));
		return err;
	}
	TRY(files_end(take_ptr(walk), &total));
	if (closed)
		TRY(skip_rest(path_arg->x));
	out = path_arg_success(path_arg);
	json_put_int(out, "count", (int64_t)total.count);
	json_put_int(out, "bytes", (int64_t)total.bytes);
	json_put_int(out, "skipped", (int64_t)total.skipped);
	if (total.note[0])
		json_put_text(out, "firstSkipped", total.note);
	return path_arg_answer(path_arg);
}
