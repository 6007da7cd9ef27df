// Walks directories only, by descriptors, without following links. Paths of the file are resolved
// beneath the tree: the writer of the file can mark directories of that disk, which is a box's own.
//
// syscalls: openat openat2 close getdents64 fgetxattr fsetxattr read fstat unlinkat syncfs lseek
#include "warden/overlay_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "os/path.h"
#include "warden/disk_driver.h"

#define OVERLAY_DEPTH_MAX 256

static const char *const overlay_names[] = {"trusted.overlay.opaque", "trusted.overlay.redirect"};
#define OVERLAY_NAMES (sizeof(overlay_names) / sizeof(*overlay_names))

struct overlay_walk {
	struct map *marks;
	size_t bytes;
	struct buf path;
	char *value;
};

const char *overlay_mark_name(size_t n)
{
	return n < OVERLAY_NAMES ? overlay_names[n] : NULL;
}

static fallible overlay_marks_too_large(void)
{
	return err_new(TOO_LARGE, "archive_too_large",
		       "too many directories, or too deep, hide what lies below them");
}

static fallible overlay_look(struct overlay_walk *walk, int dir)
{
	for (size_t i = 0; i < OVERLAY_NAMES; i++) {
		ssize_t len = fgetxattr(dir, overlay_names[i], walk->value, OVERLAY_MARK_VALUE - 1);
		auto_free char *key = NULL;

		if (len < 0 && (errno == ENODATA || errno == ENOTSUP))
			continue;
		if (len < 0)
			return err_sys(errno, "read the marks of '%.100s'", walk->path.at);
		walk->value[len] = 0;
		key = mem_fmt("%s %s", overlay_names[i], walk->path.at ? walk->path.at : "");
		walk->bytes += strlen(key) + (size_t)len + 2;
		if (walk->bytes > OVERLAY_MARKS_MAX)
			return overlay_marks_too_large();
		map_put(walk->marks, str_of(key), mem_str(walk->value));
	}
	return OK;
}

static fallible overlay_walk(struct overlay_walk *walk, int parent, const char *name, int depth)
{
	auto_fd dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = walk->path.len;
	struct dirent *entry;
	auto_dir list = NULL;

	if (dir < 0)
		return err_sys(errno, "open '%.100s'", walk->path.at ? walk->path.at : name);
	TRY(overlay_look(walk, dir));
	list = path_list(dir, ".");
	if (!list)
		return err_sys(errno, "list a directory");
	while ((entry = path_next(list))) {
		if (entry->d_type != DT_DIR)
			continue;
		if (len)
			buf_char(&walk->path, '/');
		buf_text(&walk->path, entry->d_name);
		if (!buf_ok(&walk->path) || depth > OVERLAY_DEPTH_MAX)
			return overlay_marks_too_large();
		TRY(overlay_walk(walk, dir, entry->d_name, depth + 1));
		walk->path.len = len;
		walk->path.at[len] = 0;
	}
	return OK;
}

static void overlay_walk_done(struct overlay_walk *walk)
{
	buf_done(&walk->path);
	free(walk->value);
}

fallible overlay_marks_read(int tree, struct map *out)
{
	on_exit_call(overlay_walk_done) struct overlay_walk walk = {
		.marks = out,
		.path = BUF_INIT(OVERLAY_MARK_VALUE),
		.value = mem_new(OVERLAY_MARK_VALUE)};

	return overlay_walk(&walk, tree, ".", 0);
}

void overlay_marks_done(struct map *marks)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(marks, &at, &key, &value);)
		free(value);
	map_free(marks);
}

const char *overlay_mark(const struct map *marks, const char *name, const char *path)
{
	auto_free char *key = mem_fmt("%s %s", name, path);

	return map_get(marks, str_of(key));
}

bool overlay_mark_put(struct buf *out, const char *name, const char *path, struct str value)
{
	for (size_t i = 0; i < OVERLAY_NAMES; i++) {
		if (strcmp(name, overlay_names[i]) != 0 || value.len >= OVERLAY_MARK_VALUE)
			continue;
		buf_add(out, name, strlen(name) + 1);
		buf_add(out, path, strlen(path) + 1);
		buf_add(out, value.at, value.len);
		buf_char(out, 0);
		return buf_ok(out);
	}
	return false;
}

static fallible overlay_marks_bad(void)
{
	return err_new(INVALID, "bad_archive", "the marks of directories are damaged");
}

// Cuts one text with its NUL.
static bool overlay_text(struct str *rest, struct str *out)
{
	return str_cut(rest, 0, out) && rest->at && out->len < OVERLAY_MARK_VALUE;
}

static fallible overlay_set(int tree, struct str name, struct str path, struct str value)
{
	auto_fd dir = -1;

	for (size_t i = 0; i < OVERLAY_NAMES; i++) {
		if (!str_is(name, overlay_names[i]))
			continue;
		TRY(path_open(tree, path.at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, &dir));
		return fsetxattr(dir, name.at, value.at, value.len, 0)
			       ? err_sys(errno, "mark '%.100s'", path.at)
			       : OK;
	}
	return overlay_marks_bad();
}

fallible overlay_marks_apply(struct disk_copy *copy)
{
	auto_buf text = BUF_INIT(OVERLAY_MARKS_MAX + 1);
	struct str rest, name, path, value;
	auto_fd tree = openat(copy->fds[0], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (tree < 0)
		return err_sys(errno, "open an unpacked disk");
	TRY(path_read(tree, OVERLAY_MARKS, &text));
	rest = buf_view(&text);
	while (rest.len) {
		if (!overlay_text(&rest, &name) || !overlay_text(&rest, &path) ||
		    !overlay_text(&rest, &value))
			return overlay_marks_bad();
		TRY(overlay_set(tree, name, path, value));
	}
	if (unlinkat(tree, OVERLAY_MARKS, 0) || syncfs(tree))
		return err_sys(errno, "write the marks of directories out");
	return OK;
}
