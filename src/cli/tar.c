// Packs a directory in a thread, and unpacks a hostile stream. libarchive writes and reads the pax
// headers. The walk is ours, because libarchive's has the order of the file system: it uses
// directory descriptors, follows no symlink and crosses no mount point.
//
// Unpacking is confined to a directory: no absolute paths, no "..", no symlink is followed, no
// special files, no set-id bits.
#include "cli/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/weak.h"

#define DEPTH_MAX 256
#define PIECE (256 * 1024)

struct tar {
	pthread_t thread;
	int dir, out;
	dev_t dev;
	struct archive *archive, *disk;
	struct archive_entry_linkresolver *links;
	char *piece;
	struct err *err;
	tar_leave_fn *leave; // NULL: nothing is left out
	void *leave_arg;
};

static fallible tar_failed(const struct tar *tar, const char *path)
{
	if (archive_errno(tar->archive) == EPIPE)
		return err_new(CANCELLED, "pipe_closed", "the reader of the archive is gone");
	return err_new(INVALID, "cannot_pack", "cannot pack '%s': %s", path,
		       archive_error_string(tar->archive));
}

// Exactly the size in the header: a file that shrank is padded by libarchive, one that grew is cut.
static fallible add_content(struct tar *tar, int fd, const char *path, int64_t size)
{
	while (size > 0) {
		size_t want = size < PIECE ? (size_t)size : PIECE;
		ssize_t n = read(fd, tar->piece, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_new(INVALID, "cannot_pack", "cannot read '%s': %s", path,
				       strerror(errno));
		if (n == 0)
			return OK;
		if (archive_write_data(tar->archive, tar->piece, (size_t)n) < 0)
			return tar_failed(tar, path);
		size -= n;
	}
	return OK;
}

static void entry_done(struct archive_entry **entry)
{
	archive_entry_free(*entry);
}

static fallible cli_tar_add(struct tar *tar, int fd, const char *path, const struct stat *st)
{
	on_exit_call(entry_done) struct archive_entry *entry = archive_entry_new();
	struct archive_entry *late = NULL, *now = entry;

	archive_entry_copy_pathname(entry, path);
	if (archive_read_disk_entry_from_file(tar->disk, entry, fd, st) < ARCHIVE_WARN)
		return err_new(INVALID, "cannot_pack", "cannot read '%s': %s", path,
			       archive_error_string(tar->disk));
	archive_entry_linkify(tar->links, &now, &late); // a second hard link becomes a link entry
	if (archive_write_header(tar->archive, entry) < ARCHIVE_WARN)
		return tar_failed(tar, path);
	if (S_ISREG(st->st_mode) && archive_entry_size(entry) > 0)
		TRY(add_content(tar, fd, path, archive_entry_size(entry)));
	return OK;
}

static fallible add_link(struct tar *tar, int dir, const char *name, const char *path,
			 const struct stat *st)
{
	on_exit_call(entry_done) struct archive_entry *entry = archive_entry_new();
	char target[4096 - 1024];
	ssize_t len = readlinkat(dir, name, target, sizeof(target) - 1);

	if (len < 0)
		return err_new(INVALID, "cannot_pack", "cannot read '%s': %s", path,
			       strerror(errno));
	target[len] = 0;
	archive_entry_copy_pathname(entry, path);
	archive_entry_copy_stat(entry, st);
	archive_entry_copy_symlink(entry, target);
	if (archive_write_header(tar->archive, entry) < ARCHIVE_WARN)
		return tar_failed(tar, path);
	return OK;
}

static int not_dots(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static fallible cli_tar_walk(struct tar *tar, int dir, const char *prefix, int depth);

static fallible cli_tar_visit(struct tar *tar, int dir, const char *name, const char *prefix,
			      int depth)
{
	auto_free char *path = mem_fmt("%s%s", prefix, name);
	struct stat st;
	auto_fd fd = -1;
	int left;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK
				       : err_new(INVALID, "cannot_pack", "cannot read '%s': %s",
						 path, strerror(errno));
	left = tar->leave ? tar->leave(tar->leave_arg, path, S_ISDIR(st.st_mode)) : 0;
	if (left == 1 || (left && !S_ISDIR(st.st_mode)))
		return OK;
	if (S_ISLNK(st.st_mode))
		return add_link(tar, dir, name, path, &st);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return OK; // devices, sockets and pipes are omitted
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return err_new(INVALID, "cannot_pack", "cannot read '%s': %s", path,
			       strerror(errno));
	if (!left)
		TRY(cli_tar_add(tar, fd, path, &st));
	if (S_ISDIR(st.st_mode) && st.st_dev == tar->dev) {
		auto_free char *inner = mem_fmt("%s/", path);

		return cli_tar_walk(tar, fd, inner, depth + 1);
	}
	return OK;
}

static fallible cli_tar_walk(struct tar *tar, int dir, const char *prefix, int depth)
{
	struct dirent **names = NULL;
	struct err *err = OK;
	int count;

	if (depth > DEPTH_MAX)
		return err_new(INVALID, "too_deep", "'%s' is nested too deeply", prefix);
	count = scandirat(dir, ".", &names, not_dots, by_bytes);
	if (count < 0)
		return err_new(INVALID, "cannot_pack", "cannot list '%s': %s", prefix,
			       strerror(errno));
	for (int i = 0; i < count; i++) {
		if (!err)
			err = cli_tar_visit(tar, dir, names[i]->d_name, prefix, depth);
		free(names[i]);
	}
	free(names);
	return err;
}

static void *labour(void *arg)
{
	struct tar *tar = arg;
	struct stat st;

	fstat(tar->dir, &st);
	tar->dev = st.st_dev;
	tar->err = cli_tar_walk(tar, tar->dir, "", 0);
	if (!tar->err && archive_write_close(tar->archive) < ARCHIVE_WARN)
		tar->err = tar_failed(tar, ".");
	close(tar->out); // EOF for the reader
	tar->out = -1;
	return NULL;
}

fallible tar_start(const char *dir, tar_leave_fn *leave, void *arg, struct tar **out, int *out_fd)
{
	struct tar *tar;
	int ends[2], root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_new(INVALID, "not_dir", "cannot open '%s': %s", dir, strerror(errno));
	if (pipe2(ends, O_CLOEXEC)) {
		close(root);
		return err_sys(errno, "make a pipe");
	}
	tar = mem_new_of(struct tar);
	tar->dir = root;
	tar->leave = leave;
	tar->leave_arg = arg;
	tar->out = ends[1];
	tar->piece = mem_new(PIECE);
	tar->archive = archive_write_new();
	archive_write_set_format_pax_restricted(tar->archive);
	archive_write_set_bytes_in_last_block(tar->archive, 1);
	archive_write_open_fd(tar->archive, tar->out);
	tar->disk = archive_read_disk_new();
	archive_read_disk_set_behavior(tar->disk, ARCHIVE_READDISK_NO_FFLAGS |
							  ARCHIVE_READDISK_NO_ACL |
							  ARCHIVE_READDISK_NO_SPARSE);
	tar->links = archive_entry_linkresolver_new();
	archive_entry_linkresolver_set_strategy(tar->links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
	if (pthread_create(&tar->thread, NULL, labour, tar)) {
		close(ends[0]);
		close(ends[1]);
		tar->thread = 0;
		return err_while(tar_end(tar), "start a thread");
	}
	*out = tar;
	*out_fd = ends[0];
	return OK;
}

fallible tar_end(struct tar *tar)
{
	struct err *err;

	if (tar->thread)
		pthread_join(tar->thread, NULL);
	err = tar->thread ? tar->err : err_sys(EAGAIN, "start a thread");
	archive_write_free(tar->archive);
	archive_read_free(tar->disk);
	archive_entry_linkresolver_free(tar->links);
	close(tar->dir);
	free(tar->piece);
	free(tar);
	return err;
}

fallible tar_close(struct tar *tar, int *fd, struct err *sent)
{
	struct err *packed;

	close(take_fd(fd)); // ends a tar thread that is not read any more
	packed = tar_end(tar);
	if (packed && err_kind(packed) != ERR_CANCELLED) {
		err_free(sent);
		return packed;
	}
	err_free(packed);
	return sent;
}

#define FLAGS                                                                                      \
	(ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_UNLINK |                    \
	 ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |                       \
	 ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS)

struct untar {
	untar_read_fn *read;
	void *arg;
	struct err *err; // of `read`
	struct archive *in, *out;
};

static la_ssize_t untar_on_read(struct archive *archive, void *arg, const void **at)
{
	struct untar *untar = arg;
	size_t len = 0;

	if (!untar->err)
		untar->err = untar->read(untar->arg, at, &len);
	if (!untar->err)
		return (la_ssize_t)len;
	archive_set_error(archive, EIO, "cannot be read");
	return ARCHIVE_FATAL;
}

static void untar_done(struct untar *untar)
{
	archive_read_free(untar->in);
	archive_write_free(untar->out);
	err_free(untar->err);
}

static fallible untar_failed(struct untar *untar, struct archive *archive, const char *what)
{
	const char *words = archive_error_string(archive);

	if (untar->err)
		return take_ptr(untar->err);
	return err_new(INVALID, what, "cannot unpack: %s", words ? words : "unknown");
}

static fallible untar_copy(struct untar *untar)
{
	for (;;) {
		const void *at;
		size_t len;
		la_int64_t offset;
		int got = archive_read_data_block(untar->in, &at, &len, &offset);

		if (got == ARCHIVE_EOF)
			return OK;
		if (got < ARCHIVE_WARN)
			return untar_failed(untar, untar->in, "bad_archive");
		if (archive_write_data_block(untar->out, at, len, offset) < ARCHIVE_WARN)
			return untar_failed(untar, untar->out, "cannot_unpack");
	}
}

static bool is_plain(const struct archive_entry *entry)
{
	mode_t type = archive_entry_filetype((struct archive_entry *)entry);

	return archive_entry_hardlink((struct archive_entry *)entry) || S_ISREG(type) ||
	       S_ISDIR(type) || S_ISLNK(type);
}

static fallible untar_place(struct untar *untar, struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);

	if (!name || !is_plain(entry))
		return OK;
	if (strcmp(name, ".") == 0 || strcmp(name, "./") == 0)
		return OK; // the directory itself
	archive_entry_set_perm(entry, archive_entry_perm(entry) & 01777);
	if (archive_write_header(untar->out, entry) < ARCHIVE_WARN)
		return untar_failed(untar, untar->out, "cannot_unpack");
	if (archive_entry_size(entry) > 0)
		TRY(untar_copy(untar));
	if (archive_write_finish_entry(untar->out) < ARCHIVE_WARN)
		return untar_failed(untar, untar->out, "cannot_unpack");
	return OK;
}

static fallible untar_unpack(struct untar *untar)
{
	struct archive_entry *entry;

	// Plain tar only: the box chooses the first bytes, and some of libarchive's filters start
	// programs.
	archive_read_support_format_tar(untar->in);
	if (weak(COPY_FILTERS))
		archive_read_support_filter_all(untar->in);
	archive_write_disk_set_options(untar->out, FLAGS);
	if (archive_read_open(untar->in, untar, NULL, untar_on_read, NULL) < ARCHIVE_WARN)
		return untar_failed(untar, untar->in, "bad_archive");
	for (;;) {
		int got = archive_read_next_header(untar->in, &entry);

		if (got == ARCHIVE_EOF)
			break;
		if (got < ARCHIVE_WARN)
			return untar_failed(untar, untar->in, "bad_archive");
		TRY(untar_place(untar, entry));
	}
	if (archive_write_close(untar->out) < ARCHIVE_WARN) // times and modes of directories
		return untar_failed(untar, untar->out, "cannot_unpack");
	return OK;
}

fallible untar(const char *dir, untar_read_fn *read, void *arg)
{
	auto_fd here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	on_exit_call(untar_done) struct untar untar = {
		.read = read,
		.arg = arg,
		.in = archive_read_new(),
		.out = archive_write_disk_new(),
	};
	struct err *err;

	if (here < 0 || chdir(dir))
		return err_new(INVALID, "cannot_unpack", "cannot enter '%s': %s", dir,
			       strerror(errno));
	err = untar_unpack(&untar);
	if (fchdir(here) && !err)
		return err_sys(errno, "return to the working directory");
	return err;
}
