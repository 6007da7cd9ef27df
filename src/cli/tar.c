// Packs a directory in a thread. libarchive writes the pax headers; the walk is ours, because
// libarchive's has the order of the file system. It uses directory descriptors, follows no symlink
// and crosses no mount point.
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

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK
				       : err_new(INVALID, "cannot_pack", "cannot read '%s': %s",
						 path, strerror(errno));
	if (S_ISLNK(st.st_mode))
		return add_link(tar, dir, name, path, &st);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return OK; // devices, sockets and pipes are omitted
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return err_new(INVALID, "cannot_pack", "cannot read '%s': %s", path,
			       strerror(errno));
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

fallible tar_start(const char *dir, struct tar **out, int *out_fd)
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
