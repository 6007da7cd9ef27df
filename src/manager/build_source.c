// Tars for copy steps. A path of a sandbox is packed by a file worker there and read here, with a
// bound; an archive of a context is a stranger's: the jail unpacks it, and what it has written is
// packed by the jail again, so that nothing but zstd and tar is read in this process.
//
// syscalls: openat pread64 pwrite64 ftruncate
#include "manager/build_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/pipe.h"
#include "codec/tar.h"
#include "codec/zstd.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "manager/account.h"
#include "manager/build_files.h"
#include "manager/pull.h"
#include "manager/templates.h"
#include "types/image.h"

#define SOURCE_ROOM (256 * 1024)
#define SOURCE_SILENCE_MS 60000
#define SOURCE_LINKS_MAX 16
#define EXPORT_MS (40 * 60 * 1000)
#define UNPACKED_ROOT ".cove-archive"

void build_archive_done(struct build_archive *archive)
{
	free(archive->root);
	archive->root = NULL;
	if (archive->fd >= 0)
		closer_drop(&archive->fd);
}

// ------------------------------------------------------------------------------------------ spools

struct spool_io {
	int dir, fd, errnum;
	uint64_t at;
	const char *bytes;
	char *room;
	size_t len;
	ssize_t got;
};

static void spool_open_run(void *arg)
{
	struct spool_io *io = arg;

	io->fd = openat(io->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	io->errnum = errno;
}

static void spool_write_run(void *arg)
{
	struct spool_io *io = arg;

	io->errnum = 0;
	while (io->len && !io->errnum) {
		ssize_t put = pwrite(io->fd, io->bytes, io->len, (off_t)io->at);

		if (put < 0) {
			io->errnum = errno == EINTR ? 0 : errno;
			continue;
		}
		io->bytes += put;
		io->at += (uint64_t)put;
		io->len -= (size_t)put;
	}
}

static void spool_read_run(void *arg)
{
	struct spool_io *io = arg;

	do
		io->got = pread(io->fd, io->room, io->len, (off_t)io->at);
	while (io->got < 0 && errno == EINTR);
	io->errnum = errno;
}

static fallible spool_explain(int errnum)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
	return err_sys(errnum, "write a file of a build");
}

fallible build_source_spool(struct manager *manager, int *out)
{
	struct spool_io io = {.dir = manager->pull->builds};

	offload_run(spool_open_run, &io);
	if (io.fd < 0)
		return spool_explain(io.errnum);
	*out = io.fd;
	return OK;
}

static fallible spool_write(struct build_archive *archive, const void *bytes, size_t len)
{
	struct spool_io io = {.fd = archive->fd, .at = archive->bytes, .bytes = bytes, .len = len};

	offload_run(spool_write_run, &io);
	archive->bytes += len;
	return io.errnum ? spool_explain(io.errnum) : OK;
}

fallible build_source_empty(struct manager *manager, uint64_t bytes, int *out)
{
	static const char zeros[TAR_BLOCK];
	auto_build_archive file = {.fd = -1};

	TRY(build_source_spool(manager, &file.fd));
	while (file.bytes < bytes)
		TRY(spool_write(&file, zeros, sizeof(zeros)));
	*out = file.fd;
	file.fd = -1;
	return OK;
}

static fallible spool_read(int fd, uint64_t at, void *room, size_t size, size_t *out)
{
	struct spool_io io = {.fd = fd, .at = at, .room = room, .len = size};

	offload_run(spool_read_run, &io);
	if (io.got < 0)
		return err_sys(io.errnum, "read a file of a build");
	*out = (size_t)io.got;
	return OK;
}

static fallible source_too_large(void)
{
	return err_hint(err_new(TOO_LARGE, "archive_too_large", "too much is copied at once"),
			"copy less, or raise the quota of the tenant");
}

static uint64_t spool_max(struct manager *manager, const struct who *who)
{
	uint64_t left = account_disk_left(accounts_get(&manager->accounts, who->tenant));

	return left < BUILD_CONTEXT_MAX ? left : BUILD_CONTEXT_MAX;
}

// -------------------------------------------------------------------------------------- of a
// sandbox

// The directory above the first pattern of a path; all of it if there is none.
static char *source_fixed(const char *path)
{
	size_t len = strcspn(path, "*?[\\");

	if (!path[len])
		return mem_str(path);
	while (len && path[len - 1] != '/')
		len--;
	return mem_dup(path, len > 1 ? len - 1 : len);
}

static fallible source_follow(const struct files *from, char **path, struct fileop_stat *out)
{
	for (int i = 0; i < SOURCE_LINKS_MAX; i++) {
		auto_buf target = BUF_INIT(FILEOP_PATH_MAX);
		auto_free char *link = *path;
		const char *slash;
		struct err *err = files_stat(from, link, false, out);

		*path = mem_str(link);
		if (err && err_kind(err) == ERR_NOT_FOUND) {
			err_free(err);
			return err_hint(err_new(INVALID, "no_source",
						"'%.200s' is not in what is copied from", link),
					"paths begin at its root");
		}
		TRY(err);
		if (out->type != FILEOP_SYMLINK)
			return OK;
		TRY(files_readlink(from, link, &target));
		buf_text(&target, "");
		slash = strrchr(link, '/');
		free(*path);
		*path = target.at[0] == '/' ? mem_str(target.at)
					    : mem_fmt("%.*s/%s", slash ? (int)(slash - link) : 0,
						      link, target.at);
	}
	return err_new(INVALID, "no_source", "'%.200s' is a link to too many others", *path);
}

static fallible source_take(const struct files *from, int pipe, struct build_archive *out,
			    uint64_t max)
{
	auto_free char *room = mem_new(SOURCE_ROOM);
	uint32_t ready;

	for (;;) {
		ssize_t got = pipe_take(box_at(from->box), pipe, room, SOURCE_ROOM);

		if (!got)
			return OK;
		if (got < 0 && errno == EAGAIN)
			TRY(task_wait_fd(pipe, EPOLLIN, loop_now(task_loop()) + SOURCE_SILENCE_MS,
					 &ready));
		else if (got < 0 && errno != EINTR)
			return err_sys(errno, "read an archive");
		if (got <= 0)
			continue;
		if (out->bytes + (uint64_t)got > max)
			return source_too_large();
		TRY(spool_write(out, room, (size_t)got));
	}
}

// What every sandbox has of its own is none of the image's.
static const char *const source_own[] = {"/proc/*", "/sys/*", "/dev/*", "/run/*", IMAGE_FILE, NULL};

static fallible source_pack(const struct files *from, const char *path, struct build_archive *out,
			    uint64_t max)
{
	struct files_pack pack = {.exclude = strcmp(path, "/") != 0 ? NULL : source_own};
	struct files_total total = {0};
	struct files_walk *walk = NULL;
	auto_closer_fd pipe = -1;
	struct err *err;

	TRY(files_pack(from, path, &pack, &pipe, &walk));
	err = source_take(from, pipe, out, max);
	closer_drop(&pipe);
	if (err) {
		files_drop(walk);
		return err;
	}
	return files_end(walk, &total);
}

fallible build_source_pack(struct manager *manager, const struct who *who, const struct files *from,
			   const char *source, struct build_archive *out)
{
	auto_build_archive made = {.fd = out->fd};
	auto_free char *absolute = mem_fmt("%s%s", source[0] == '/' ? "" : "/", source);
	auto_free char *fixed = source_fixed(absolute);
	auto_free char *path = mem_str(fixed[0] ? fixed : "/");
	struct fileop_stat stat;

	out->fd = -1;
	TRY(source_follow(from, &path, &stat));
	if (stat.type != FILEOP_REGULAR && stat.type != FILEOP_DIRECTORY)
		return err_new(INVALID, "no_source", "'%.200s' is no file or directory", path);
	if (made.fd < 0)
		TRY(build_source_spool(manager, &made.fd));
	made.root = mem_str(fixed);
	made.is_file = stat.type == FILEOP_REGULAR;
	made.is_directory = !made.is_file;
	TRY(source_pack(from, path, &made, spool_max(manager, who)));
	*out = made;
	made = (struct build_archive){.fd = -1};
	return OK;
}

// ---------------------------------------------------------------------------------- a step's own

static fallible source_put(struct manager *manager, const char *path, struct tar_head *entry,
			   struct str content, struct build_archive *out)
{
	static const char zeros[2 * TAR_BLOCK];
	auto_build_archive made = {.fd = -1, .is_file = true};
	auto_free char *head = mem_new(TAR_HEAD_MAX);
	size_t len = tar_write(entry, head, TAR_HEAD_MAX);

	if (!len)
		return err_new(INVALID, "bad_plan", "a path is too long");
	TRY(build_source_spool(manager, &made.fd));
	made.root = mem_str(path);
	TRY(spool_write(&made, head, len));
	if (content.len)
		TRY(spool_write(&made, content.at, content.len));
	TRY(spool_write(&made, zeros, tar_padding(content.len)));
	TRY(spool_write(&made, zeros, sizeof(zeros)));
	*out = made;
	made = (struct build_archive){.fd = -1};
	return OK;
}

fallible build_source_file(struct manager *manager, const char *path, struct str content,
			   struct build_archive *out)
{
	struct tar_head entry = {.type = TAR_FILE,
				 .path = STR("file"),
				 .target = STR(""),
				 .mode = 0644,
				 .size = content.len};

	return source_put(manager, path, &entry, content, out);
}

fallible build_source_link(struct manager *manager, const char *path, const char *target,
			   struct build_archive *out)
{
	struct tar_head entry = {
		.type = TAR_SYMLINK, .path = STR("link"), .target = str_of(target), .mode = 0777};

	return source_put(manager, path, &entry, STR(""), out);
}

// ----------------------------------------------------------------------------------- of an archive

static fallible source_import(struct manager *manager, const struct who *who, const char *name,
			      const struct build_found *found, int fd)
{
	auto_free char *room = mem_new(SOURCE_ROOM);
	auto_templates_import import = NULL;
	struct template made;

	TRY(templates_import_begin(manager, who, str_of(name), &import));
	for (uint64_t done = 0; done < found->bytes;) {
		uint64_t left = found->bytes - done;
		size_t got = 0;

		TRY(spool_read(fd, found->at + done, room,
			       left < SOURCE_ROOM ? (size_t)left : SOURCE_ROOM, &got));
		if (!got)
			return err_new(INVALID, "bad_archive", "the context ends too early");
		TRY(templates_import_write(import, room, got));
		done += got;
	}
	return templates_import_end(import, &made);
}

// The warden packs the template into the file.
static fallible source_export(struct manager *manager, const struct who *who, const char *name,
			      int fd, uint64_t *out_bytes)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_EXPORT, .zstd = true};
	int none[ORDER_FDS_MAX];

	snprintf(order.name, sizeof(order.name), "%s", name);
	TRY(templates_resolve(manager, who, order.name));
	TRY(ask_order_with(manager->ask, &order, fd, answer, none,
			   loop_now(manager->loop) + EXPORT_MS));
	*out_bytes = answer->bytes;
	return OK;
}

struct source_feed {
	struct zstd *zstd;
	struct str *in;
	bool last, done;
	struct buf *out;
	struct err *err;
};

static void source_feed_run(void *arg)
{
	struct source_feed *feed = arg;

	feed->err = zstd_feed(feed->zstd, feed->in, feed->last, feed->out, &feed->done);
}

static fallible source_unzstd(int fd, uint64_t bytes, struct build_archive *out, uint64_t max)
{
	auto_free char *room = mem_new(SOURCE_ROOM);
	auto_zstd zstd = zstd_unpacker();
	auto_buf plain = BUF_INIT(4 * ZSTD_STEP);
	struct source_feed feed = {.zstd = zstd, .out = &plain};
	uint64_t at = 0;
	struct str in = {0};

	feed.in = &in;
	while (!feed.done) {
		size_t got = 0;

		if (!in.len && at < bytes) {
			uint64_t left = bytes - at;

			TRY(spool_read(fd, at, room,
				       left < SOURCE_ROOM ? (size_t)left : SOURCE_ROOM, &got));
			if (!got)
				return err_new(INVALID, "bad_archive", "the archive ends early");
			in = (struct str){room, got};
			at += got;
		}
		feed.last = at == bytes;
		offload_run(source_feed_run, &feed);
		TRY(feed.err);
		if (out->bytes + plain.len > max)
			return source_too_large();
		if (plain.len)
			TRY(spool_write(out, plain.at, plain.len));
		if (!plain.len && feed.last && !in.len && !feed.done)
			return err_new(INVALID, "bad_archive", "the archive ends early");
		buf_clear(&plain);
	}
	return OK;
}

static fallible source_repack(struct manager *manager, const struct who *who, const char *name,
			      struct build_archive *out)
{
	auto_closer_fd packed = -1;
	uint64_t bytes = 0;

	TRY(build_source_spool(manager, &packed));
	TRY(source_export(manager, who, name, packed, &bytes));
	TRY(build_source_spool(manager, &out->fd));
	return source_unzstd(packed, bytes, out, spool_max(manager, who));
}

fallible build_source_unpack(struct manager *manager, const struct who *who, const char *name,
			     const struct build_found *found, int fd, struct build_archive *out)
{
	auto_build_archive made = {.fd = -1, .root = mem_str(UNPACKED_ROOT), .is_directory = true};
	struct err *err, *gone;

	err = source_import(manager, who, name, found, fd);
	if (err && !strcmp(err_reason(err), "bad_archive"))
		return err_hint(err, "COPY takes a file as it is, without unpacking it");
	TRY(err);
	err = source_repack(manager, who, name, &made);
	task_shield(true);
	gone = templates_forget(manager, who, str_of(name));
	task_shield(false);
	if (err || gone) {
		if (err)
			err_free(gone);
		return err ? err : gone;
	}
	*out = made;
	made = (struct build_archive){.fd = -1};
	return OK;
}
