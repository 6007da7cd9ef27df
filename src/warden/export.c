// A tree is walked in the order of its names, and written by libarchive as a pax tar, packed, with
// the digests of both. Of two trees what differs is written: a file is the same if it is the same
// inode, or if its attributes and its bytes are equal. Overlay attributes are not interpreted here:
// the kernel shows a snapshot's disk on its base as one tree.
//
// Names of a hard-linked file that are new in a layer are written together with its old ones, so
// that every reader links them.
//
// syscalls: openat close read pread64 write lseek fstat newfstatat readlinkat getdents64
// syscalls: flistxattr fgetxattr mmap munmap mremap brk madvise mkdirat mount move_mount fsopen
// syscalls: fsconfig fsmount fchdir chroot fsync fadvise64
#include "warden/export.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/path.h"
#include "types/image.h"
#include "warden/overlay_marks.h"
#include "warden/unpack.h"

#define PIECE 65536
#define DEPTH_MAX 256
#define REGIONS_MAX 4096 // of a sparse file
#define XATTRS_MAX 65536
#define WHITEOUT ".wh."
#define DIGEST_HEX (2 * SECRET_HASH)

struct export
{
	struct archive *tar, *packed;
	EVP_MD_CTX *tar_hash, *packed_hash;
	int out, failed; // errno of a write
	uint64_t put, files;
	bool over, collecting; // there is an old tree; only notes which inodes are written
	bool raw;
	const struct map *marks;
	struct map *touched; // by inode: one of its names is written
	struct map *seen;    // by inode: its first name
	struct buf path;
	char *room, *other;
};

void export_trees_close(struct export_trees *trees)
{
	fd_drop(&trees->base);
	fd_drop(&trees->usr);
	fd_drop(&trees->disk);
	fd_drop(&trees->parent);
}

// ------------------------------------------------------------------------------------------ mounts

static fallible export_attach(int tree, int root, const char *name)
{
	if (tree < 0)
		return OK;
	if (mkdirat(root, name, 0755) || mount_attach(tree, root, name))
		return err_sys(errno, "mount '%s' of an export", name);
	return OK;
}

static fallible export_overlay(int root, const char *lowers, const char *at)
{
	const struct mount_option options[] = {
		{"source", "overlay"}, {"lowerdir", lowers}, {NULL, NULL}};
	auto_fd tree = mount_new("overlay", options, MOUNT_STILL);

	if (tree < 0 || mount_attach(tree, root, at))
		return err_sys(errno, "mount the overlay '%s'", lowers);
	return OK;
}

fallible export_mount(struct export_trees *trees)
{
	static const struct mount_option options[] = {
		{"source", "export"}, {"mode", "0755"}, {"size", "64k"}, {NULL, NULL}};
	auto_fd root = -1;

	root = mount_new("tmpfs", options, MOUNT_SAFE | MOUNT_ATTR_NOEXEC);
	if (root < 0 || mount_private() || mount_attach(root, AT_FDCWD, "/") || fchdir(root))
		return err_sys(errno, "enter the root of an export");
	TRY(export_attach(trees->base, root, "base"));
	TRY(export_attach(trees->usr, root, "usr"));
	TRY(export_attach(trees->disk, root, "disk"));
	TRY(export_attach(trees->parent, root, "parent"));
	if (trees->disk >= 0 && !trees->raw) {
		if (mkdirat(root, "all", 0755))
			return err_sys(errno, "make a directory of an export");
		TRY(export_overlay(root, "disk/r/u:base", "all"));
	}
	if (trees->disk >= 0 && trees->usr >= 0)
		TRY(export_overlay(root, "disk/usr/u:usr", "all/usr"));
	trees->marks = map_new();
	if (trees->raw)
		TRY(overlay_marks_read(trees->disk, trees->marks));
	return chroot(".") ? err_sys(errno, "change the root of an export") : OK;
}

// ----------------------------------------------------------------------------------------- writing

static fallible export_explain(struct export *export, struct archive *archive)
{
	const char *why = archive_error_string(archive);

	switch (export->failed) {
	case ENOSPC:
	case EDQUOT:
		return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
	case EFBIG: // RLIMIT_FSIZE of the jail
		return err_new(NO_SPACE, "disk_full", "the disk of the host has no room for it");
	default:
		return err_sys(export->failed ? export->failed : archive_errno(archive),
			       "write '%.100s': %s", export->path.len ? export->path.at : "",
			       why ? why : "unknown");
	}
}

static la_ssize_t put_packed(struct archive *archive, void *arg, const void *bytes, size_t len)
{
	struct export *export = arg;

	if (fd_write_all(export->out, bytes, len)) {
		export->failed = errno;
		archive_set_error(archive, errno, "cannot write on");
		return -1;
	}
	export->put += len;
	return EVP_DigestUpdate(export->packed_hash, bytes, len) == 1 ? (la_ssize_t)len : -1;
}

static la_ssize_t put_tar(struct archive *archive, void *arg, const void *bytes, size_t len)
{
	struct export *export = arg;
	size_t at = 0;

	while (at < len) {
		la_ssize_t put = archive_write_data(export->packed, (const char *)bytes + at,
						    len - at);

		if (put <= 0) {
			archive_set_error(archive, EIO, "%s",
					  archive_error_string(export->packed)
						  ? archive_error_string(export->packed)
						  : "cannot pack on");
			return -1;
		}
		at += (size_t)put;
	}
	return EVP_DigestUpdate(export->tar_hash, bytes, len) == 1 ? (la_ssize_t)len : -1;
}

static fallible export_open(struct export *export, bool zstd)
{
	struct archive_entry *whole = archive_entry_new();
	struct archive *packed = export->packed;
	bool ok = whole && packed && export->tar && export->tar_hash && export->packed_hash &&
		  EVP_DigestInit_ex(export->tar_hash, EVP_sha256(), NULL) == 1 &&
		  EVP_DigestInit_ex(export->packed_hash, EVP_sha256(), NULL) == 1;

	ok = ok && !archive_write_set_format_raw(packed) &&
	     !(zstd ? archive_write_add_filter_zstd(packed)
		    : archive_write_add_filter_gzip(packed)) &&
	     (zstd || !archive_write_set_filter_option(packed, "gzip", "timestamp", NULL)) &&
	     !archive_write_set_bytes_in_last_block(packed, 1) &&
	     !archive_write_open(packed, export, NULL, put_packed, NULL);
	if (ok) {
		archive_entry_set_filetype(whole, AE_IFREG);
		ok = !archive_write_header(packed, whole);
	}
	ok = ok && !archive_write_set_format_pax(export->tar) &&
	     !archive_write_set_format_option(export->tar, "pax", "xattrheader", "SCHILY") &&
	     !archive_write_set_bytes_in_last_block(export->tar, 1) &&
	     !archive_write_open(export->tar, export, NULL, put_tar, NULL);
	if (whole)
		archive_entry_free(whole);
	return ok ? OK : err_sys(ENOMEM, "start libarchive");
}

static fallible export_digest(EVP_MD_CTX *hash, char out[DIGEST_HEX + 1])
{
	uint8_t sum[SECRET_HASH];

	if (EVP_DigestFinal_ex(hash, sum, NULL) != 1)
		return err_sys(0, "hash a layer");
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
	return OK;
}

static fallible put_header(struct export *export, struct archive_entry *entry)
{
	int r = archive_write_header(export->tar, entry);

	// A warning concerns a name in an unknown character set: its bytes are written.
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return export_explain(export, export->tar);
	export->files++;
	if (export->raw && export->files > UNPACK_ENTRIES_MAX)
		return err_new(TOO_LARGE, "archive_too_large", "there are more than %d files",
			       UNPACK_ENTRIES_MAX);
	return OK;
}

static fallible put_data(struct export *export, const char *bytes, size_t len)
{
	while (len > 0) {
		la_ssize_t put = archive_write_data(export->tar, bytes, len);

		if (put <= 0)
			return export_explain(export, export->tar);
		bytes += put;
		len -= (size_t)put;
	}
	return OK;
}

// Fills `room` as far as the file goes.
static fallible export_read(int fd, char *room, off_t at, size_t *out)
{
	size_t len = 0;

	while (len < PIECE) {
		ssize_t got = pread(fd, room + len, PIECE - len, at + (off_t)len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(errno, "read a file");
		if (got == 0)
			break;
		len += (size_t)got;
	}
	*out = len;
	return OK;
}

static fallible put_file_content(struct export *export, int fd, off_t size)
{
	size_t got = 0;

	for (off_t at = 0; at < size; at += (off_t)got) {
		TRY(export_read(fd, export->room, at, &got));
		if (got == 0)
			return err_sys(EIO, "'%.100s' became shorter", export->path.at);
		if ((off_t)got > size - at)
			got = (size_t)(size - at);
		TRY(put_data(export, export->room, got));
	}
	return OK;
}

// Holes are told, so that the unpacker does not take them for an expansion.
static void put_holes(struct archive_entry *entry, int fd, off_t size)
{
	off_t at = 0;

	for (int i = 0; i < REGIONS_MAX && at < size; i++) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;

		if (data < 0) {
			if (i == 0 || errno == ENXIO) // nothing but a hole up to the end
				archive_entry_sparse_add_entry(entry, size, 0);
			return;
		}
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || hole > size)
			hole = size;
		if (data == 0 && hole >= size)
			return;
		archive_entry_sparse_add_entry(entry, data, hole - data);
		at = hole;
	}
	if (at < size)
		archive_entry_sparse_add_entry(entry, at, size - at);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
	char **at;
	size_t count;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->at[i]);
	free(names->at);
}
#define auto_names on_exit_call(names_done) struct names

static void names_add(struct names *names, const char *name)
{
	if ((names->count & (names->count - 1)) == 0)
		names->at = mem_grow(names->at, names->count ? 2 * names->count : 1,
				     sizeof(*names->at));
	names->at[names->count++] = mem_str(name);
}

static void names_sort(struct names *names)
{
	if (names->count)
		qsort(names->at, names->count, sizeof(*names->at), compare_names);
}

static bool names_have(const struct names *names, const char *name)
{
	return names->count &&
	       bsearch(&name, names->at, names->count, sizeof(*names->at), compare_names);
}

// The attributes that a layer carries: those of overlays are none of a file.
static bool xattr_is_kept(const char *name, bool raw)
{
	if (raw)
		return unpack_is_raw_xattr(name);
	return str_starts(str_of(name), "user.") && !str_starts(str_of(name), "user.overlay.");
}

static fallible xattr_names(int fd, bool raw, struct names *out)
{
	auto_free char *list = mem_new(XATTRS_MAX);
	ssize_t len = flistxattr(fd, list, XATTRS_MAX);

	if (len < 0)
		return errno == ENOTSUP ? OK : err_sys(errno, "list the attributes of a file");
	for (const char *name = list; name < list + len; name += strlen(name) + 1)
		if (xattr_is_kept(name, raw))
			names_add(out, name);
	names_sort(out);
	return OK;
}

static fallible export_xattrs(struct export *export, struct archive_entry *entry, int fd)
{
	auto_names names = {0};

	TRY(xattr_names(fd, export->raw, &names));
	for (size_t i = names.count; i-- > 0;) { // libarchive writes the last one first
		ssize_t len = fgetxattr(fd, names.at[i], export->room, PIECE);

		if (len < 0)
			return err_sys(errno, "read an attribute of '%.100s'", export->path.at);
		archive_entry_xattr_add_entry(entry, names.at[i], export->room, (size_t)len);
	}
	return OK;
}

static fallible xattrs_text(int fd, char *room, struct buf *out)
{
	auto_names names = {0};

	TRY(xattr_names(fd, false, &names));
	for (size_t i = 0; i < names.count; i++) {
		ssize_t len = fgetxattr(fd, names.at[i], room, PIECE);

		if (len < 0)
			return err_sys(errno, "read an attribute of a file");
		buf_fmt(out, "%s=%zd:", names.at[i], len);
		buf_add(out, room, (size_t)len);
	}
	return buf_ok(out)
		       ? OK
		       : err_new(TOO_LARGE, "archive_too_large", "a file has too many attributes");
}

static void entry_drop(struct archive_entry **entry)
{
	archive_entry_free(*entry);
}
#define auto_entry on_exit_call(entry_drop) struct archive_entry *

static fallible export_entry(const struct export *export, const struct stat *st,
			     struct archive_entry **out)
{
	struct archive_entry *entry = archive_entry_new();

	if (!entry)
		return err_sys(ENOMEM, "describe a file");
	archive_entry_copy_pathname(entry, export->path.len ? export->path.at : "./");
	archive_entry_set_mode(entry, st->st_mode);
	archive_entry_set_uid(entry, st->st_uid);
	archive_entry_set_gid(entry, st->st_gid);
	archive_entry_set_mtime(entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(entry, S_ISREG(st->st_mode) ? st->st_size : 0);
	if (S_ISCHR(st->st_mode))
		archive_entry_set_rdev(entry, st->st_rdev);
	*out = entry;
	return OK;
}

static fallible put_file(struct export *export, int dir, const char *name, const struct stat *st)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	auto_entry entry = NULL;

	if (fd < 0)
		return err_sys(errno, "open '%.100s'", export->path.at);
	if (export->raw && st->st_size > UNPACK_RAW_MAX)
		return err_new(TOO_LARGE, "archive_too_large", "'%.100s' is too large",
			       export->path.at);
	TRY(export_entry(export, st, &entry));
	TRY(export_xattrs(export, entry, fd));
	if (st->st_blocks * 512 < st->st_size)
		put_holes(entry, fd, st->st_size);
	TRY(put_header(export, entry));
	return put_file_content(export, fd, st->st_size);
}

static fallible put_link(struct export *export, const struct stat *st, const char *first)
{
	auto_entry entry = NULL;

	TRY(export_entry(export, st, &entry));
	archive_entry_set_size(entry, 0);
	archive_entry_copy_hardlink(entry, first);
	return put_header(export, entry);
}

static fallible put_symlink(struct export *export, int dir, const char *name, const struct stat *st)
{
	ssize_t len = readlinkat(dir, name, export->room, UNPACK_NAME_MAX);
	auto_entry entry = NULL;

	if (len < 0 || len == UNPACK_NAME_MAX)
		return err_sys(len < 0 ? errno : ENAMETOOLONG, "read the link '%.100s'",
			       export->path.at);
	export->room[len] = 0;
	TRY(export_entry(export, st, &entry));
	archive_entry_copy_symlink(entry, export->room);
	return put_header(export, entry);
}

static fallible put_directory(struct export *export, int fd, const struct stat *st)
{
	auto_entry entry = NULL;
	const char *name;

	TRY(export_entry(export, st, &entry));
	TRY(export_xattrs(export, entry, fd));
	for (size_t i = 0; export->raw && (name = overlay_mark_name(i)); i++) {
		const char *value = overlay_mark(export->marks, name, export->path.at);

		if (value)
			archive_entry_xattr_add_entry(entry, name, value, strlen(value));
	}
	return put_header(export, entry);
}

static fallible put_other(struct export *export, const struct stat *st)
{
	auto_entry entry = NULL;

	TRY(export_entry(export, st, &entry));
	return put_header(export, entry);
}

// --------------------------------------------------------------------------------------- comparing

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool has_same_attributes(const struct stat *a, const struct stat *b)
{
	return a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_gid == b->st_gid &&
	       (S_ISDIR(a->st_mode) || a->st_size == b->st_size) &&
	       is_same_time(&a->st_mtim, &b->st_mtim);
}

static fallible has_same_xattrs(struct export *export, int a, int b, bool *out)
{
	auto_buf one = BUF_INIT(4 * XATTRS_MAX), other = BUF_INIT(4 * XATTRS_MAX);

	TRY(xattrs_text(a, export->room, &one));
	TRY(xattrs_text(b, export->room, &other));
	*out = str_eq(buf_view(&one), buf_view(&other));
	return OK;
}

static fallible has_same_bytes(struct export *export, int a, int b, bool *out)
{
	size_t one = 1, other = 1;

	for (off_t at = 0; one; at += (off_t)one) {
		TRY(export_read(a, export->room, at, &one));
		TRY(export_read(b, export->other, at, &other));
		*out = one == other && !memcmp(export->room, export->other, one);
		if (!*out)
			return OK;
	}
	return OK;
}

static fallible is_same_file(struct export *export, int now, int old, const char *name, bool *out)
{
	auto_fd a = openat(now, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_fd b = openat(old, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (a < 0 || b < 0)
		return err_sys(errno, "open '%.100s' to compare", export->path.at);
	TRY(has_same_xattrs(export, a, b, out));
	return *out ? has_same_bytes(export, a, b, out) : OK;
}

static bool is_same_symlink(struct export *export, int now, int old, const char *name)
{
	ssize_t one = readlinkat(now, name, export->room, PIECE);
	ssize_t other = readlinkat(old, name, export->other, PIECE);

	return one > 0 && one == other && !memcmp(export->room, export->other, (size_t)one);
}

// Whether what is no directory is as in the old tree.
static fallible is_unchanged(struct export *export, int now, int old, const char *name,
			     const struct stat *st, bool *out)
{
	struct stat before;

	*out = false;
	if (old < 0 || fstatat(old, name, &before, AT_SYMLINK_NOFOLLOW))
		return OK;
	*out = is_same_inode(st, &before);
	if (*out || !has_same_attributes(st, &before))
		return OK;
	if (S_ISLNK(st->st_mode))
		*out = is_same_symlink(export, now, old, name);
	else if (S_ISREG(st->st_mode))
		return is_same_file(export, now, old, name, out);
	else
		*out = true;
	return OK;
}

// ----------------------------------------------------------------------------------------- walking

// Of a disk, the upper directories: r/u and usr/u. The work directories are made anew.
static bool export_is_listed(const struct export *export, const char *name, int depth)
{
	if (export->raw && depth == 0)
		return !strcmp(name, "r") || !strcmp(name, "usr");
	if (export->raw)
		return depth > 1 || !strcmp(name, "u");
	return depth > 0 || strcmp(name, &IMAGE_FILE[1]) != 0;
}

static fallible export_list(const struct export *export, int dir, int depth, struct names *out)
{
	struct dirent *entry;
	auto_dir list = path_list(dir, ".");

	if (!list)
		return err_sys(errno, "list a directory");
	errno = 0;
	while ((entry = path_next(list))) {
		if (export_is_listed(export, entry->d_name, depth))
			names_add(out, entry->d_name);
		errno = 0;
	}
	if (errno)
		return err_sys(errno, "list a directory");
	names_sort(out);
	return OK;
}

static fallible export_push(struct export *export, const char *name)
{
	if (export->path.len)
		buf_char(&export->path, '/');
	buf_text(&export->path, name);
	if (!buf_ok(&export->path))
		return err_new(TOO_LARGE, "archive_too_large",
			       "a file lies too deep: its path is longer than %d bytes",
			       UNPACK_NAME_MAX);
	return OK;
}

static void export_pop(struct export *export, size_t len)
{
	export->path.len = len;
	if (export->path.at)
		export->path.at[len] = 0;
}

static fallible put_whiteout(struct export *export, const char *name)
{
	struct stat st = {.st_mode = S_IFREG | 0600};
	auto_free char *hidden = mem_fmt(WHITEOUT "%s", name);
	size_t len = export->path.len;
	struct err *err = export_push(export, hidden);

	if (!err)
		err = put_other(export, &st);
	export_pop(export, len);
	return err;
}

static fallible export_linked(struct export *export, int now, const char *name,
			      const struct stat *st, bool changed)
{
	char key[48];
	const char *first;

	snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino);
	if (export->collecting) {
		if (changed)
			map_put(export->touched, str_of(key), export);
		return OK;
	}
	if (export->over && !map_get(export->touched, str_of(key)))
		return OK;
	first = map_get(export->seen, str_of(key));
	if (first)
		return put_link(export, st, first);
	map_put(export->seen, str_of(key), mem_str(export->path.at));
	return put_file(export, now, name, st);
}

// Whiteouts, pipes and sockets of a disk; a tar has no sockets.
static fallible put_node(struct export *export, const struct stat *st)
{
	struct stat node = *st;

	if (S_ISSOCK(st->st_mode)) {
		node.st_mode = S_IFCHR | (st->st_mode & 07777);
		node.st_rdev = UNPACK_RAW_SOCKET;
	}
	return put_other(export, &node);
}

static fallible export_leaf(struct export *export, int now, int old, const char *name,
			    const struct stat *st)
{
	bool same = false;

	TRY(is_unchanged(export, now, old, name, st, &same));
	if (S_ISREG(st->st_mode) && st->st_nlink > 1)
		return export_linked(export, now, name, st, !same);
	if (same || export->collecting)
		return OK;
	if (S_ISREG(st->st_mode))
		return put_file(export, now, name, st);
	if (S_ISLNK(st->st_mode))
		return put_symlink(export, now, name, st);
	if (export->raw)
		return put_node(export, st);
	if (S_ISFIFO(st->st_mode))
		return put_other(export, st);
	return OK; // a socket: no layer can hold it
}

static fallible export_dir(struct export *export, int now, int old, int depth);

// `old` is -1 or the directory of that name there.
static fallible export_directory(struct export *export, int now, int old, int depth)
{
	struct stat st, before;
	bool same = false;

	if (fstat(now, &st) || (old >= 0 && fstat(old, &before)))
		return err_sys(errno, "look at '%.100s'", export->path.at);
	if (old >= 0 && has_same_attributes(&st, &before))
		TRY(has_same_xattrs(export, now, old, &same));
	if (export->raw) { // its time is set when its entries are there
		TRY(export_dir(export, now, old, depth));
		return put_directory(export, now, &st);
	}
	if (!same && !export->collecting)
		TRY(put_directory(export, now, &st));
	return export_dir(export, now, old, depth);
}

static fallible export_enter(struct export *export, int now, int old, const char *name, int depth)
{
	auto_fd dir = openat(now, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd before = -1;

	if (dir < 0)
		return err_sys(errno, "open '%.100s'", export->path.at);
	if (depth > DEPTH_MAX)
		return err_new(TOO_LARGE, "archive_too_large",
			       "there are more than %d directories in one another", DEPTH_MAX);
	if (old >= 0)
		before = openat(old, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (old >= 0 && before < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		return err_sys(errno, "open '%.100s' in the tree below", export->path.at);
	return export_directory(export, dir, before, depth);
}

static fallible export_one(struct export *export, int now, int old, const char *name, int depth)
{
	struct stat st;

	if (!export->raw && str_starts(str_of(name), WHITEOUT))
		return err_hint(err_new(INVALID, "bad_archive",
					"'%.100s' has a name by which an image hides files",
					export->path.at),
				"no image can hold a file whose name begins with " WHITEOUT);
	if (fstatat(now, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(errno, "look at '%.100s'", export->path.at);
	return S_ISDIR(st.st_mode) ? export_enter(export, now, old, name, depth)
				   : export_leaf(export, now, old, name, &st);
}

static fallible export_dir(struct export *export, int now, int old, int depth)
{
	auto_names names = {0}, before = {0};
	size_t len = export->path.len;

	TRY(export_list(export, now, depth, &names));
	if (old >= 0)
		TRY(export_list(export, old, depth, &before));
	for (size_t i = 0; i < before.count && !export->collecting; i++)
		if (!names_have(&names, before.at[i]))
			TRY(put_whiteout(export, before.at[i]));
	for (size_t i = 0; i < names.count; i++) {
		struct err *err = export_push(export, names.at[i]);

		if (!err)
			err = export_one(export, now, old, names.at[i], depth + 1);
		TRY(err);
		export_pop(export, len);
	}
	return OK;
}

static fallible export_walk(struct export *export, int now, int old)
{
	if (old >= 0) {
		export->over = export->collecting = true;
		TRY(export_directory(export, now, old, 0));
		export->collecting = false;
	}
	TRY(export_directory(export, now, old, 0));
	if (archive_write_close(export->tar) || archive_write_close(export->packed))
		return export_explain(export, export->tar);
	return OK;
}

static void export_hash_free(EVP_MD_CTX **hash)
{
	EVP_MD_CTX_free(*hash);
}

// What a sandbox of the template takes its environment from.
static fallible put_config(struct export *export, int now)
{
	auto_fd fd = openat(now, &IMAGE_FILE[1],
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > IMAGE_BYTES_MAX)
		return OK;
	for (off_t at = 0; at < st.st_size; at += (off_t)got) {
		TRY(export_read(fd, export->room, at, &got));
		if (got == 0)
			return OK;
		if (fd_write_all(export->out, export->room, got))
			return err_sys(errno, "write a configuration");
	}
	return OK;
}

static void export_done(struct export *export)
{
	struct str key;
	void *value;

	archive_write_free(export->tar);
	archive_write_free(export->packed);
	EVP_MD_CTX_free(export->tar_hash);
	EVP_MD_CTX_free(export->packed_hash);
	for (size_t at = 0; map_next(export->seen, &at, &key, &value);)
		free(value);
	map_free(export->seen);
	map_free(export->touched);
	buf_done(&export->path);
	free(export->room);
	free(export->other);
}

// Reads the written file from the disk, not from memory.
static fallible export_read_back(struct export *export, const struct answer *sums)
{
	on_exit_call(export_hash_free) EVP_MD_CTX *hash = EVP_MD_CTX_new();
	char digest[DIGEST_HEX + 1];
	size_t got = 1;

	if (!hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
		return err_sys(ENOMEM, "hash an archive");
	if (fsync(export->out) || posix_fadvise(export->out, 0, 0, POSIX_FADV_DONTNEED))
		return err_sys(errno, "write an archive out");
	for (off_t at = 0; got; at += (off_t)got) {
		TRY(export_read(export->out, export->room, at, &got));
		if (EVP_DigestUpdate(hash, export->room, got) != 1)
			return err_sys(ENOMEM, "hash an archive");
	}
	TRY(export_digest(hash, digest));
	return strcmp(digest, sums->digest) ? err_sys(EIO, "read back what was written") : OK;
}

fallible export_write(const struct export_trees *trees, int out, bool zstd, struct answer *sums)
{
	on_exit_call(export_done) struct export export = {
		.tar = archive_write_new(),
		.packed = archive_write_new(),
		.tar_hash = EVP_MD_CTX_new(),
		.packed_hash = EVP_MD_CTX_new(),
		.out = out,
		.raw = trees->raw,
		.marks = trees->marks,
		.touched = map_new(),
		.seen = map_new(),
		.path = BUF_INIT(UNPACK_NAME_MAX),
		.room = mem_new(PIECE),
		.other = mem_new(PIECE),
	};
	const char *now = trees->raw ? "disk" : trees->disk >= 0 ? "all" : "base";
	const char *old = trees->parent >= 0 ? "parent" : trees->changes ? "base" : NULL;
	auto_fd now_dir = openat(AT_FDCWD, now, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd old_dir = -1;

	if (old)
		old_dir = openat(AT_FDCWD, old, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (now_dir < 0 || (old && old_dir < 0))
		return err_sys(errno, "open the files of a template");
	TRY(export_open(&export, zstd));
	TRY(export_walk(&export, now_dir, old_dir));
	if (!trees->raw)
		TRY(put_config(&export, now_dir));
	TRY(export_digest(export.tar_hash, sums->diff_id));
	TRY(export_digest(export.packed_hash, sums->digest));
	if (trees->raw)
		TRY(export_read_back(&export, sums));
	sums->files = export.files;
	sums->bytes = export.put;
	return OK;
}
