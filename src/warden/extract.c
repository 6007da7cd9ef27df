// Creates the entries of an archive below a root directory, in the jail. Paths are resolved with
// RESOLVE_IN_ROOT, so no symlink leads outside. The last component is replaced if it exists. Ids
// beyond a box's range become nobody's. Whiteouts of a layer remove only entries of the layers
// below it.
//
// syscalls: openat openat2 close mkdirat unlinkat symlinkat linkat newfstatat fstat fchown
// syscalls: fchownat fchmod utimensat getdents64 renameat2
#include "warden/extract.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "os/path.h"

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define NOBODY 65534

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

void extract_init(struct extract *extract, int root)
{
	*extract = (struct extract){
		.root = root, .parent = BUF_INIT(EXTRACT_NAME_MAX), .parent_fd = -1};
}

// The removed or replaced directory may be the cached parent, or an ancestor of it.
static void forget_parent(struct extract *extract)
{
	if (extract->parent_fd >= 0)
		close(extract->parent_fd);
	extract->parent_fd = -1;
}

void extract_done(struct extract *extract)
{
	forget_parent(extract);
	buf_done(&extract->parent);
	map_free(extract->fresh);
	extract->fresh = NULL;
}

void extract_layer(struct extract *extract, bool layered)
{
	map_free(extract->fresh);
	extract->fresh = layered ? map_new() : NULL;
}

fallible extract_clean(const char *path, struct buf *out)
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
		if (part.len > NAME_MAX || ++depth > EXTRACT_DEPTH_MAX)
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
	auto_buf walked = BUF_INIT(EXTRACT_NAME_MAX);
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
static uid_t extract_id(uint64_t id)
{
	return id < NOBODY ? (uid_t)id : NOBODY;
}

fallible extract_attributes(int fd, const char *path, const struct extract_attrs *attrs)
{
	const struct timespec times[2] = {attrs->mtime, attrs->mtime};

	if (fchown(fd, extract_id(attrs->uid), extract_id(attrs->gid)) ||
	    fchmod(fd, attrs->mode & 07777) || futimens(fd, times))
		return extract_explain(errno, "attrs", path);
	return OK;
}

fallible extract_dir(struct extract *extract, const char *path, const struct extract_attrs *attrs)
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
	return extract_attributes(fd, path, attrs);
}

fallible extract_file(struct extract *extract, const char *path, int *out_fd)
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

fallible extract_symlink(struct extract *extract, const char *path, const char *target,
			 const struct extract_attrs *attrs)
{
	const struct timespec times[2] = {attrs->mtime, attrs->mtime};
	const char *name = "";
	bool kept;
	int dir = -1;

	if (!*target || strlen(target) > EXTRACT_NAME_MAX - 1)
		return err_new(INVALID, "bad_archive", "the link '%.100s' leads nowhere", path);
	TRY(extract_prepare(extract, path, false, &dir, &name, &kept));
	if (symlinkat(target, dir, name) ||
	    fchownat(dir, name, extract_id(attrs->uid), extract_id(attrs->gid),
		     AT_SYMLINK_NOFOLLOW) ||
	    utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		return extract_explain(errno, "link", path);
	return OK;
}

fallible extract_link(struct extract *extract, const char *path, const char *to)
{
	const char *slash = strrchr(to, '/'), *name = "";
	auto_buf above = BUF_INIT(EXTRACT_NAME_MAX);
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
		if (!buf_ok(path) || depth > EXTRACT_DEPTH_MAX)
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
	auto_buf dir = BUF_INIT(EXTRACT_NAME_MAX);

	buf_add(&dir, path, name > path ? (size_t)(name - path - 1) : 0);
	buf_text(&dir, "");
	if (!buf_ok(&dir))
		return extract_explain(ENOMEM, "name", path);
	extract_state(extract, dir.at);
	forget_parent(extract);
	return clear_lower(extract, &dir, 0);
}

fallible extract_whiteout(struct extract *extract, const char *path, bool *out)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	auto_buf above = BUF_INIT(EXTRACT_NAME_MAX);
	auto_buf hidden = BUF_INIT(EXTRACT_NAME_MAX);

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
	if (map_get(extract->fresh, buf_view(&hidden)))
		return OK; // made by this layer
	auto_fd dir = extract_open_in(extract->root, above.at, O_RDONLY | O_DIRECTORY);

	if (dir < 0)
		return errno == ENOENT || errno == ENOTDIR ? OK
							   : extract_explain(errno, "open", path);
	forget_parent(extract);
	return path_remove(dir, name);
}
