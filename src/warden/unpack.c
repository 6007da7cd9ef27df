// libarchive reads, in the jail. Device nodes, pipes and sockets are dropped. Of extended
// attributes only user.* is kept, without those that an overlay could interpret. Sizes that the
// archive claims are ignored: bytes are counted as they are written. Names are untrusted: paths are
// resolved with RESOLVE_IN_ROOT, as if the root directory were "/", so no symlink leads outside.
// The last component is replaced if it exists. Ids beyond a box's range become nobody's. Whiteouts
// of a layer remove only entries of the layers below it.
//
// syscalls: read pwrite64 ftruncate fsetxattr close mmap munmap mremap brk madvise lseek openat
// syscalls: flistxattr fremovexattr
// syscalls: openat2 mkdirat unlinkat symlinkat linkat newfstatat fstat fchown fchownat fchmod utimensat
// syscalls: getdents64 renameat2 mknodat
#include "warden/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/path.h"
#include "warden/overlay_marks.h"

#define INPUT_SIZE 65536
#define FILE_SIZE_MAX (1ll << 40) // holes are free, but bounded
#define BOMB_FREE (100ull << 20)
#define BOMB_RATIO 200
#define XATTR_LIST_MAX 65536
#define XATTR_MAX 65536
#define TAIL 512
#define SPARSE_BLOCK 4096

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define NOBODY 65534
#define DEPTH_MAX 256

struct extract_attrs {
	mode_t mode;
	uint64_t uid, gid; // ids outside a box's range become nobody's
	struct timespec mtime;
};

static fallible extract_explain(int errnum, const char *what, const char *path)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
		return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
	case EFBIG:
		return err_new(TOO_LARGE, "archive_too_large", "'%.100s' is too large", path);
	case ENOTDIR:
	case ELOOP:
	case EEXIST:
	case ENAMETOOLONG:
		return err_new(INVALID, "bad_archive",
			       "'%.100s' leads through what is no directory", path);
	default:
		return err_sys(errnum, "%s '%.100s'", what, path);
	}
}

static void extract_init(struct extract *extract, int root)
{
	*extract = (struct extract){
		.root = root, .parent = BUF_INIT(UNPACK_NAME_MAX), .parent_fd = -1};
}

// The removed or replaced directory may be the cached parent, or an ancestor of it.
static void forget_parent(struct extract *extract)
{
	if (extract->parent_fd >= 0)
		close(extract->parent_fd);
	extract->parent_fd = -1;
}

static void extract_done(struct extract *extract)
{
	forget_parent(extract);
	buf_done(&extract->parent);
	map_free(extract->fresh);
	extract->fresh = NULL;
}

// Begins the next layer: from here on its paths are recorded if `layered`, because its whiteouts
// apply to the layers below only.
static void extract_layer(struct extract *extract, bool layered)
{
	map_free(extract->fresh);
	extract->fresh = layered ? map_new() : NULL;
}

// "/a/./b//c/" becomes "a/b/c". INVALID bad_archive for "..", a name too long or too deep.
static fallible extract_clean(const char *path, struct buf *out)
{
	struct str rest = str_of(path), part;
	int depth = 0;

	buf_clear(out);
	if (weak(PATHS)) {
		buf_text(out, path);
		return OK;
	}
	while (str_cut(&rest, '/', &part)) {
		if (!part.len || str_is(part, "."))
			continue;
		if (str_is(part, ".."))
			return err_new(INVALID, "bad_archive", "'%.100s' leads out of the archive",
				       path);
		if (part.len > NAME_MAX || ++depth > DEPTH_MAX)
			return err_new(INVALID, "bad_archive", "'%.100s' is too long or too deep",
				       path);
		if (out->len)
			buf_char(out, '/');
		buf_str(out, part);
	}
	buf_text(out, "");
	if (!buf_ok(out))
		return err_new(INVALID, "bad_archive", "'%.100s...' is too long", path);
	return OK;
}

static int extract_open_in(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
			       .resolve = weak(PATHS) ? 0
						      : RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

	return (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));
}

// The directory at `path`, made with all missing parents.
static fallible extract_make_way(int root, const char *path, int *out_fd)
{
	auto_buf walked = BUF_INIT(UNPACK_NAME_MAX);
	struct str rest = str_of(path), part;
	auto_fd at = extract_open_in(root, path, O_PATH | O_DIRECTORY);

	if (at < 0 && errno != ENOENT)
		return extract_explain(errno, "open", path);
	if (at >= 0) {
		*out_fd = take_fd(&at);
		return OK;
	}
	at = extract_open_in(root, "", O_PATH | O_DIRECTORY);
	while (at >= 0 && str_cut(&rest, '/', &part)) {
		size_t name = walked.len + (walked.len > 0);
		int next;

		if (walked.len)
			buf_char(&walked, '/');
		buf_str(&walked, part);
		if (!buf_ok(&walked))
			return extract_explain(ENOMEM, "name", path);
		if (mkdirat(at, walked.at + name, 0755) && errno != EEXIST)
			return extract_explain(errno, "make", path);
		next = extract_open_in(root, walked.at, O_PATH | O_DIRECTORY);
		if (next < 0) // a dangling link, or a file
			return extract_explain(ENOTDIR, "open", path);
		close(at);
		at = next;
	}
	if (at < 0)
		return extract_explain(errno, "open", path);
	*out_fd = take_fd(&at);
	return OK;
}

// Splits a clean path. Archives come directory by directory, so the last parent stays open.
static fallible extract_parent_of(struct extract *extract, const char *path, int *out_dir,
				  const char **out_name)
{
	const char *slash = strrchr(path, '/');
	struct str parent = {path, slash ? (size_t)(slash - path) : 0};

	*out_name = slash ? slash + 1 : path;
	if (extract->parent_fd < 0 || !str_eq(parent, buf_view(&extract->parent))) {
		forget_parent(extract);
		buf_clear(&extract->parent);
		buf_str(&extract->parent, parent);
		buf_text(&extract->parent, "");
		if (!buf_ok(&extract->parent))
			return extract_explain(ENOMEM, "name", path);
		TRY(extract_make_way(extract->root, extract->parent.at, &extract->parent_fd));
	}
	*out_dir = extract->parent_fd;
	return OK;
}

// Records a path and all its parents as made by this layer.
static void extract_state(struct extract *extract, const char *path)
{
	struct str s = str_of(path);

	while (extract->fresh && s.len) {
		if (!map_put(extract->fresh, s, extract)) // a set
			return;				  // known, hence all parents as well
		while (s.len && s.at[s.len - 1] != '/')
			s.len--;
		s.len -= s.len > 0;
	}
}

// Removes the entry `name`; a directory may stay if one is wanted.
static fallible extract_make_room(struct extract *extract, int dir, const char *name, bool for_dir,
				  bool *out_kept)
{
	struct stat st;

	*out_kept = false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK : extract_explain(errno, "look at", name);
	if (S_ISDIR(st.st_mode) && for_dir) {
		*out_kept = true;
		return OK;
	}
	TRY(path_remove(dir, name));
	if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
		forget_parent(extract);
	return OK;
}

// extract_make_room() may have closed the cached parent: look it up again.
static fallible extract_prepare(struct extract *extract, const char *path, bool for_dir,
				int *out_dir, const char **out_name, bool *out_kept)
{
	if (!*path)
		return err_new(INVALID, "bad_archive", "an entry has no name");
	TRY(extract_parent_of(extract, path, out_dir, out_name));
	TRY(extract_make_room(extract, *out_dir, *out_name, for_dir, out_kept));
	TRY(extract_parent_of(extract, path, out_dir, out_name));
	extract_state(extract, path);
	return OK;
}

// An id outside a box's range is nobody's.
static uid_t extract_id(const struct extract *extract, uint64_t id)
{
	return id < NOBODY || (extract->raw && id == NOBODY + 1) ? (uid_t)id : NOBODY;
}

static fallible extract_attributes(const struct extract *extract, int fd, const char *path,
				   const struct extract_attrs *attrs)
{
	const struct timespec times[2] = {attrs->mtime, attrs->mtime};

	if (fchown(fd, extract_id(extract, attrs->uid), extract_id(extract, attrs->gid)) ||
	    fchmod(fd, attrs->mode & 07777) || futimens(fd, times))
		return extract_explain(errno, "attrs", path);
	return OK;
}

// A directory is returned open; set its attributes after it.
static fallible extract_dir(struct extract *extract, const char *path, int *out_fd)
{
	const char *name = ".";
	int dir = extract->root;
	bool kept = true;

	if (*path)
		TRY(extract_prepare(extract, path, true, &dir, &name, &kept));
	if (!kept && mkdirat(dir, name, 0700))
		return extract_explain(errno, "make", path);
	auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return extract_explain(errno, "open", path);
	*out_fd = take_fd(&fd);
	return OK;
}

// A file is returned open for writing; set its attributes after the last write.
static fallible extract_file(struct extract *extract, const char *path, int *out_fd)
{
	const char *name = "";
	bool kept;
	int dir = -1, fd;

	TRY(extract_prepare(extract, path, false, &dir, &name, &kept));
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return extract_explain(errno, "make", path);
	*out_fd = fd;
	return OK;
}

static fallible extract_symlink(struct extract *extract, const char *path, const char *target,
				const struct extract_attrs *attrs)
{
	const struct timespec times[2] = {attrs->mtime, attrs->mtime};
	const char *name = "";
	bool kept;
	int dir = -1;

	if (!*target || strlen(target) > UNPACK_NAME_MAX - 1)
		return err_new(INVALID, "bad_archive", "the link '%.100s' leads nowhere", path);
	TRY(extract_prepare(extract, path, false, &dir, &name, &kept));
	if (symlinkat(target, dir, name) ||
	    fchownat(dir, name, extract_id(extract, attrs->uid), extract_id(extract, attrs->gid),
		     AT_SYMLINK_NOFOLLOW) ||
	    utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		return extract_explain(errno, "link", path);
	return OK;
}

// `path` and `to` are clean.
static fallible extract_link(struct extract *extract, const char *path, const char *to)
{
	const char *slash = strrchr(to, '/'), *name = "";
	auto_buf above = BUF_INIT(UNPACK_NAME_MAX);
	struct stat st;
	bool kept;
	int dir = -1;

	buf_add(&above, to, slash ? (size_t)(slash - to) : 0);
	auto_fd from = extract_open_in(extract->root, above.len ? above.at : "",
				       O_PATH | O_DIRECTORY);

	slash = slash ? slash + 1 : to;
	// Checked before the name is freed: both may be the same file.
	if (from < 0 || fstatat(from, slash, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
		return err_new(INVALID, "bad_archive", "'%.100s' is a hard link to no file", path);
	if (!strcmp(path, to))
		return OK;
	TRY(extract_prepare(extract, path, false, &dir, &name, &kept));
	if (linkat(from, slash, dir, name, 0))
		return errno == ENOENT ? err_new(INVALID, "bad_archive",
						 "'%.100s' is a hard link to no file", path)
				       : extract_explain(errno, "link", path);
	return OK;
}

// Removes from the directory `path` the entries of the layers below.
static fallible clear_lower(struct extract *extract, struct buf *path, int depth)
{
	auto_fd fd = extract_open_in(extract->root, path->at, O_RDONLY | O_DIRECTORY);
	auto_dir list = fd < 0 ? NULL : fdopendir(fd); // one descriptor a level: see jail.c
	struct dirent *entry;
	size_t len = path->len;

	if (!list)
		return errno == ENOENT || errno == ENOTDIR
			       ? OK
			       : extract_explain(errno, "list", path->at);
	take_fd(&fd);
	while ((entry = path_next(list))) {
		if (path->len)
			buf_char(path, '/');
		buf_text(path, entry->d_name);
		if (!buf_ok(path) || depth > DEPTH_MAX)
			return extract_explain(ENAMETOOLONG, "clear", entry->d_name);
		if (!map_get(extract->fresh, buf_view(path)))
			TRY(path_remove(dirfd(list), entry->d_name));
		else if (entry->d_type == DT_DIR)
			TRY(clear_lower(extract, path, depth + 1));
		path->len = len;
		path->at[len] = 0;
	}
	return OK;
}

static fallible clear_opaque(struct extract *extract, const char *path, const char *name)
{
	auto_buf dir = BUF_INIT(UNPACK_NAME_MAX);

	buf_add(&dir, path, name > path ? (size_t)(name - path - 1) : 0);
	buf_text(&dir, "");
	if (!buf_ok(&dir))
		return extract_explain(ENOMEM, "name", path);
	extract_state(extract, dir.at);
	forget_parent(extract);
	return clear_lower(extract, &dir, 0);
}

// `path` may end with the name of a whiteout; *out says whether it does.
static fallible extract_whiteout(struct extract *extract, const char *path, bool *out)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	auto_buf above = BUF_INIT(UNPACK_NAME_MAX);
	auto_buf hidden = BUF_INIT(UNPACK_NAME_MAX);

	*out = str_starts(str_of(name), WHITEOUT);
	if (!*out)
		return OK;
	if (!strcmp(name, WHITEOUT) || !strcmp(name, WHITEOUT ".") || !strcmp(name, WHITEOUT ".."))
		return err_new(INVALID, "bad_archive", "the whiteout '%.100s' hides no file", path);
	if (!extract->fresh) // the lowest layer hides nothing
		return OK;
	if (!strcmp(name, OPAQUE))
		return clear_opaque(extract, path, name);
	if (str_starts(str_of(name), WHITEOUT WHITEOUT))
		return OK; // metadata of aufs
	name += strlen(WHITEOUT);
	buf_add(&above, path, slash ? (size_t)(slash - path) : 0);
	buf_text(&above, "");
	buf_fmt(&hidden, "%s%s%s", above.at, above.len ? "/" : "", name);
	if (!buf_ok(&above) || !buf_ok(&hidden))
		return extract_explain(ENOMEM, "name", path);
	if (map_get(extract->fresh,
		    buf_view(&hidden))) { // made by this layer: its own entries stay
		forget_parent(extract);
		return clear_lower(extract, &hidden, 0);
	}
	auto_fd dir = extract_open_in(extract->root, above.at, O_RDONLY | O_DIRECTORY);

	if (dir < 0)
		return errno == ENOENT || errno == ENOTDIR ? OK
							   : extract_explain(errno, "open", path);
	forget_parent(extract);
	return path_remove(dir, name);
}

struct input {
	int fd;
	uint64_t bytes;
	char tail[TAIL]; // the last bytes that were read
	char room[INPUT_SIZE];
};

struct reader {
	struct unpack *unpack;
	struct archive *archive;
	struct input *input;
	uint64_t bytes; // from this archive
	struct buf path, target;
};

void unpack_begin(struct unpack *unpack, int root, uint64_t bytes_max)
{
	*unpack = (struct unpack){.bytes_max = bytes_max};
	extract_init(&unpack->extract, root);
}

void unpack_done(struct unpack *unpack)
{
	extract_done(&unpack->extract);
	buf_done(&unpack->marks);
}

static void keep_tail(struct input *input, const char *bytes, size_t len)
{
	if (len >= TAIL) {
		memcpy(input->tail, bytes + len - TAIL, TAIL);
		return;
	}
	memmove(input->tail, input->tail + len, TAIL - len);
	memcpy(input->tail + TAIL - len, bytes, len);
}

static la_ssize_t unpack_take(struct archive *archive, void *arg, const void **out)
{
	struct input *input = arg;
	ssize_t got;

	do
		got = read(input->fd, input->room, sizeof(input->room));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		archive_set_error(archive, errno, "cannot read on");
	if (got > 0)
		keep_tail(input, input->room, (size_t)got);
	input->bytes += got > 0 ? (uint64_t)got : 0;
	*out = input->room;
	return got;
}

// The tar inside of a packed layer: a second archive reads what the first one has unpacked.
struct plain {
	struct archive *packed;
	EVP_MD_CTX *hash;
};

static la_ssize_t plain_take(struct archive *archive, void *arg, const void **out)
{
	struct plain *plain = arg;
	la_int64_t at;
	size_t len = 0;
	int r = archive_read_data_block(plain->packed, out, &len, &at);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK || EVP_DigestUpdate(plain->hash, *out, len) != 1) {
		archive_set_error(archive, archive_errno(plain->packed), "%s",
				  archive_error_string(plain->packed)
					  ? archive_error_string(plain->packed)
					  : "cannot unpack on");
		return -1;
	}
	return (la_ssize_t)len;
}

static fallible unpack_explain(struct archive *archive)
{
	const char *why = archive_error_string(archive);

	if (archive_errno(archive) == ENOMEM)
		return err_new(TOO_LARGE, "archive_too_large", "unpacking takes too much memory");
	return err_hint(err_new(INVALID, "bad_archive", "this is no whole archive: %.120s",
				why ? why : "unknown"),
			"give a tar, plain or packed by gzip, bzip2, xz or zstd");
}

static struct extract_attrs attributes_of(struct archive_entry *entry)
{
	// Negative ids are as invalid in a box as those beyond its range.
	return (struct extract_attrs){
		.mode = archive_entry_perm(entry),
		.uid = (uint64_t)archive_entry_uid(entry),
		.gid = (uint64_t)archive_entry_gid(entry),
		.mtime = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)},
	};
}

// More than fits: into the room that the host has, or into what cove takes.
static struct err *unpack_over(const struct unpack *unpack)
{
	unsigned long long mib = unpack->bytes_max >> 20;

	if (unpack->bytes_max < UNPACK_BYTES_MAX)
		return err_new(NO_SPACE, "disk_full",
			       "the disk of the host has room for %llu MiB of the archive", mib);
	return err_new(TOO_LARGE, "archive_too_large",
		       "the archive has more than %llu MiB when unpacked", mib);
}

static fallible unpack_account(struct reader *reader, size_t len)
{
	struct unpack *unpack = reader->unpack;

	unpack->bytes += len;
	reader->bytes += len;
	if (unpack->bytes > unpack->bytes_max)
		return unpack_over(unpack);
	if (!weak(RATIO) && !unpack->extract.raw && reader->bytes > BOMB_FREE &&
	    reader->bytes / BOMB_RATIO > reader->input->bytes)
		return err_new(TOO_LARGE, "archive_bomb",
			       "the archive expands to more than %d times its size", BOMB_RATIO);
	return OK;
}

static fallible write_at(const struct reader *reader, int fd, const char *bytes, size_t len,
			 off_t at)
{
	while (len > 0) {
		ssize_t put = pwrite(fd, bytes, len, at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && (errno == ENOSPC || errno == EDQUOT))
			return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
		if (put < 0 && errno == EFBIG) // RLIMIT_FSIZE of the jail
			return unpack_over(reader->unpack);
		if (put < 0)
			return err_sys(errno, "write '%.100s'", reader->path.at);
		bytes += put;
		at += put;
		len -= (size_t)put;
	}
	return OK;
}

// Zeros in whole blocks become a hole, so that a disk does not grow by being packed.
static fallible write_sparse(const struct reader *reader, int fd, const char *bytes, size_t len,
			     off_t at)
{
	static const char zeros[SPARSE_BLOCK];

	while (len > 0) {
		size_t part = SPARSE_BLOCK - (size_t)at % SPARSE_BLOCK;

		part = part < len ? part : len;
		if (memcmp(bytes, zeros, part) != 0)
			TRY(write_at(reader, fd, bytes, part, at));
		bytes += part;
		at += (off_t)part;
		len -= part;
	}
	return OK;
}

static fallible write_data(struct reader *reader, int fd, la_int64_t size)
{
	bool raw = reader->unpack->extract.raw;
	la_int64_t at = 0, end = 0;
	const void *bytes;
	size_t len;
	int r;

	while ((r = archive_read_data_block(reader->archive, &bytes, &len, &at)) == ARCHIVE_OK) {
		if (at < 0 || at > FILE_SIZE_MAX || (uint64_t)at + len > FILE_SIZE_MAX)
			return err_new(TOO_LARGE, "archive_too_large", "'%.100s' is too large",
				       reader->path.at);
		TRY(unpack_account(reader, len));
		TRY(raw ? write_sparse(reader, fd, bytes, len, at)
			: write_at(reader, fd, bytes, len, at));
		end = at + (la_int64_t)len;
	}
	if (r != ARCHIVE_EOF)
		return unpack_explain(reader->archive);
	if (raw && size >= at)
		return ftruncate(fd, size) ? err_sys(errno, "size '%.100s'", reader->path.at) : OK;
	// A hole at the end shows only in the claimed size.
	if (at > end && at <= FILE_SIZE_MAX && ftruncate(fd, at))
		return errno == EFBIG ? unpack_over(reader->unpack)
				      : err_sys(errno, "size '%.100s'", reader->path.at);
	return OK;
}

bool unpack_is_raw_xattr(const char *name)
{
	return str_starts(str_of(name), "user.") || str_starts(str_of(name), "system.posix_acl_") ||
	       !strcmp(name, "security.capability");
}

static bool unpack_keeps_xattr(const struct unpack *unpack, const char *name)
{
	if (unpack->extract.raw)
		return unpack_is_raw_xattr(name);
	return str_starts(str_of(name), "user.") && !str_starts(str_of(name), "user.overlay.");
}

static void put_xattrs(struct unpack *unpack, struct archive_entry *entry, int fd, const char *path)
{
	const char *name;
	const void *value;
	size_t size;

	archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		if (unpack->extract.raw && name &&
		    overlay_mark_put(&unpack->marks, name, path, (struct str){value, size}))
			continue;
		if (!name || !unpack_keeps_xattr(unpack, name) || size > XATTR_MAX ||
		    fsetxattr(fd, name, value, size, 0)) // the file system has no room for it
			unpack->dropped.xattrs++;
	}
}

static fallible unpack_put_file(struct reader *reader, struct archive_entry *entry)
{
	struct extract_attrs attrs = attributes_of(entry);
	auto_fd fd = -1;

	TRY(extract_file(&reader->unpack->extract, reader->path.at, &fd));
	TRY(write_data(reader, fd, archive_entry_size(entry)));
	TRY(extract_attributes(&reader->unpack->extract, fd, reader->path.at, &attrs));
	put_xattrs(reader->unpack, entry, fd,
		   reader->path.at); // a change of owner drops capabilities
	return OK;
}

// Those of a lower layer's directory: the later entry has all that there is.
static void drop_xattrs(int fd)
{
	auto_free char *names = mem_new(XATTR_LIST_MAX);
	ssize_t len = flistxattr(fd, names, XATTR_LIST_MAX);

	for (const char *at = names; len > 0 && at < names + len; at += strlen(at) + 1)
		if (str_starts(str_of(at), "user."))
			fremovexattr(fd, at);
}

static fallible unpack_put_dir(struct reader *reader, struct archive_entry *entry)
{
	struct extract_attrs attrs = attributes_of(entry);
	auto_fd fd = -1;

	TRY(extract_dir(&reader->unpack->extract, reader->path.at, &fd));
	drop_xattrs(fd);
	TRY(extract_attributes(&reader->unpack->extract, fd, reader->path.at, &attrs));
	put_xattrs(reader->unpack, entry, fd, reader->path.at);
	return OK;
}

static void count_ids(struct unpack *unpack, const struct extract_attrs *attrs)
{
	uint64_t most = unpack->extract.raw ? NOBODY + 1 : NOBODY - 1;

	unpack->dropped.ids += attrs->uid > most || attrs->gid > most;
}

static void count_node(struct unpack *unpack, mode_t type)
{
	unpack->dropped.devices += type == AE_IFCHR || type == AE_IFBLK;
	unpack->dropped.fifos += type == AE_IFIFO;
	unpack->dropped.sockets += type == AE_IFSOCK;
}

// A whiteout, a pipe or a socket of a disk.
static fallible extract_node(struct extract *extract, const char *path, mode_t type, dev_t device,
			     const struct extract_attrs *attrs)
{
	const struct timespec times[2] = {attrs->mtime, attrs->mtime};
	bool is_socket = type == S_IFCHR && device == UNPACK_RAW_SOCKET, kept;
	const char *name = "";
	int dir = -1;

	if (type != S_IFIFO && (type != S_IFCHR || (device && !is_socket)))
		return err_new(INVALID, "bad_archive", "'%.100s' is a device", path);
	TRY(extract_prepare(extract, path, false, &dir, &name, &kept));
	if (is_socket)
		type = S_IFSOCK;
	if (mknodat(dir, name, type | (attrs->mode & 07777), type == S_IFCHR ? device : 0) ||
	    fchownat(dir, name, extract_id(extract, attrs->uid), extract_id(extract, attrs->gid),
		     AT_SYMLINK_NOFOLLOW) ||
	    utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		return extract_explain(errno, "make", path);
	return OK;
}

static fallible unpack_put(struct reader *reader, struct archive_entry *entry)
{
	struct extract *extract = &reader->unpack->extract;
	struct extract_attrs attrs = attributes_of(entry);
	const char *link = archive_entry_hardlink(entry);

	if (link) {
		TRY(extract_clean(link, &reader->target));
		return extract_link(extract, reader->path.at, reader->target.at);
	}
	switch (archive_entry_filetype(entry)) {
	case AE_IFREG:
		count_ids(reader->unpack, &attrs);
		return unpack_put_file(reader, entry);
	case AE_IFDIR:
		count_ids(reader->unpack, &attrs);
		return unpack_put_dir(reader, entry);
	case AE_IFLNK:
		count_ids(reader->unpack, &attrs);
		link = archive_entry_symlink(entry);
		return extract_symlink(extract, reader->path.at, link ? link : "", &attrs);
	default:
		if (extract->raw)
			return extract_node(extract, reader->path.at, archive_entry_filetype(entry),
					    archive_entry_rdev(entry), &attrs);
		if (weak(NODES) && !mknodat(extract->root, reader->path.at,
					    archive_entry_mode(entry), archive_entry_rdev(entry)))
			return OK;
		reader->unpack->files--; // a device node or pipe: not made
		count_node(reader->unpack, archive_entry_filetype(entry));
		return OK;
	}
}

static fallible unpack_entry(struct reader *reader, struct archive_entry *entry, int layer)
{
	const char *name = archive_entry_pathname(entry);
	bool done = false;

	if (!name)
		return err_new(INVALID, "bad_archive", "an entry has no name");
	if (++reader->unpack->entries > UNPACK_ENTRIES_MAX)
		return err_new(TOO_LARGE, "archive_too_large",
			       "the archive has more than %d entries", UNPACK_ENTRIES_MAX);
	TRY(extract_clean(name, &reader->path));
	if (layer >= 0)
		TRY(extract_whiteout(&reader->unpack->extract, reader->path.at, &done));
	if (done)
		return OK;
	reader->unpack->files++;
	return unpack_put(reader, entry);
}

// Reads what follows the archive too, so that its writer gets no EPIPE. A plain tar has no
// checksum, but ends with zeros: their absence reveals a truncated archive.
static fallible unpack_finish(struct reader *reader)
{
	static const char zeros[TAIL];
	struct input *input = reader->input;
	const void *bytes;
	la_ssize_t got;

	while ((got = unpack_take(reader->archive, input, &bytes)) > 0)
		if (input->bytes > UNPACK_BYTES_MAX)
			return err_new(TOO_LARGE, "archive_too_large", "the archive does not end");
	if (got < 0)
		return unpack_explain(reader->archive);
	if (archive_filter_code(reader->archive, 0) == ARCHIVE_FILTER_NONE &&
	    memcmp(input->tail, zeros, TAIL) != 0)
		return err_new(INVALID, "bad_archive", "the archive is truncated");
	return OK;
}

static fallible unpack_entries(struct reader *reader, int layer)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(reader->archive, &entry)) != ARCHIVE_EOF) {
		// A warning concerns a name in an unknown character set: its bytes are used.
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return unpack_explain(reader->archive);
		TRY(unpack_entry(reader, entry, layer));
	}
	return OK;
}

static fallible unpack_all(struct reader *reader, int layer)
{
	if (archive_read_open(reader->archive, reader->input, NULL, unpack_take, NULL))
		return unpack_explain(reader->archive);
	TRY(unpack_entries(reader, layer));
	return unpack_finish(reader);
}

static bool archive_unpacks(struct archive *archive)
{
	return archive && !archive_read_support_filter_gzip(archive) &&
	       !archive_read_support_filter_bzip2(archive) &&
	       !archive_read_support_filter_xz(archive) &&
	       !archive_read_support_filter_zstd(archive);
}

static void reader_begin(struct reader *reader, struct unpack *unpack, int archive, int layer)
{
	*reader = (struct reader){.unpack = unpack,
				  .archive = archive_read_new(),
				  .input = mem_new_of(struct input),
				  .path = BUF_INIT(UNPACK_NAME_MAX),
				  .target = BUF_INIT(UNPACK_NAME_MAX)};
	reader->input->fd = archive;
	memset(reader->input->tail, 1, TAIL);
	extract_layer(&unpack->extract, layer > 0);
}

static void reader_end(struct reader *reader)
{
	archive_read_free(reader->archive);
	free(reader->input);
	buf_done(&reader->path);
	buf_done(&reader->target);
}

fallible unpack_tar(struct unpack *unpack, int archive, int layer)
{
	on_exit_call(reader_end) struct reader reader;

	reader_begin(&reader, unpack, archive, layer);
	if (!archive_unpacks(reader.archive) || archive_read_support_format_tar(reader.archive))
		return err_sys(ENOMEM, "start libarchive");
	return unpack_all(&reader, layer);
}

// Reads on to the end of the packed stream, and compares.
static fallible plain_check(struct reader *reader, struct plain *plain, const char *digest)
{
	uint8_t sum[SECRET_HASH];
	char hex[2 * SECRET_HASH + 1];
	const void *bytes;
	la_ssize_t got;

	while ((got = plain_take(reader->archive, plain, &bytes)) > 0)
		TRY(unpack_account(reader, (size_t)got));
	if (got < 0)
		return unpack_explain(reader->archive);
	if (EVP_DigestFinal_ex(plain->hash, sum, NULL) != 1)
		return err_sys(0, "hash a layer");
	for (int i = 0; i < SECRET_HASH; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	if (!weak(DIGEST) && strcmp(hex, digest) != 0)
		return err_hint(err_new(INVALID, "digest_mismatch",
					"a layer, unpacked, does not match the digest in the "
					"configuration: %s",
					digest),
				"the image is damaged: build or push it again");
	return OK;
}

static fallible plain_unpack(struct reader *reader, struct plain *plain, int layer,
			     const char *digest)
{
	struct archive_entry *whole;
	int r;

	if (!archive_unpacks(plain->packed) || archive_read_support_format_raw(plain->packed) ||
	    archive_read_support_format_empty(plain->packed) || !reader->archive ||
	    archive_read_support_format_tar(reader->archive) || !plain->hash ||
	    EVP_DigestInit_ex(plain->hash, EVP_sha256(), NULL) != 1)
		return err_sys(ENOMEM, "start libarchive");
	if (archive_read_open(plain->packed, reader->input, NULL, unpack_take, NULL))
		return unpack_explain(plain->packed);
	r = archive_read_next_header(plain->packed, &whole);
	if (r == ARCHIVE_OK) {
		if (archive_read_open(reader->archive, plain, NULL, plain_take, NULL))
			return unpack_explain(reader->archive);
		TRY(unpack_entries(reader, layer));
	} else if (r != ARCHIVE_EOF) {
		return unpack_explain(plain->packed);
	}
	return plain_check(reader, plain, digest);
}

fallible unpack_layer(struct unpack *unpack, int archive, int layer, const char *digest)
{
	struct plain plain = {.packed = archive_read_new(), .hash = EVP_MD_CTX_new()};
	on_exit_call(reader_end) struct reader reader;
	struct err *err;

	reader_begin(&reader, unpack, archive, layer);
	err = plain_unpack(&reader, &plain, layer, digest);
	archive_read_free(plain.packed);
	EVP_MD_CTX_free(plain.hash);
	return err;
}

fallible unpack_raw(struct unpack *unpack, int archive, const char *digest)
{
	auto_fd marks = -1;

	unpack->extract.raw = true;
	unpack->marks = BUF_INIT(OVERLAY_MARKS_MAX);
	TRY(unpack_layer(unpack, archive, -1, digest));
	if (unpack->dropped.xattrs || unpack->dropped.ids)
		return err_sys(EIO, "set the attributes of %u files", unpack->dropped.xattrs);
	marks = openat(unpack->extract.root, OVERLAY_MARKS, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		       0600);
	if (marks < 0 || fd_write_all(marks, unpack->marks.at, unpack->marks.len))
		return extract_explain(errno, "write", OVERLAY_MARKS);
	return OK;
}
