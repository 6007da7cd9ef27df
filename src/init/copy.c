// Copies a tree within the box. The copy is walked beside the original, with one fd per level of
// both. Everything is created with O_EXCL or its like, so a box that interferes can only make it
// fail.
#include "init/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/walk.h"

#define CHUNK (1 << 20)

static char target[PATH_MAX];
static int mirror[FILEOP_DEPTH_MAX + 2]; // directories of the copy, by depth
static struct stat stats[FILEOP_DEPTH_MAX + 2];

static void init_copy_attributes(int dir, const char *name, const struct stat *st)
{
	struct timespec times[2] = {st->st_atim, st->st_mtim};

	// Without the right to chown or to set times both are left out.
	(void)!fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
	if (!S_ISLNK(st->st_mode))
		(void)!fchmodat(dir, name, st->st_mode & 07777, 0);
	(void)!utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW);
}

static bool init_copy_move_bytes(int from, int to)
{
	ssize_t n;

	do {
		n = copy_file_range(from, NULL, to, NULL, CHUNK, 0);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		return true;
	if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
		return false;
	do {
		n = sendfile(to, from, NULL, CHUNK);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n == 0;
}

static bool init_copy_file(int dir, const char *name, int new_dir, const char *new_name)
{
	int from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int to = from < 0 ? -1
			  : openat(new_dir, new_name,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool done = to >= 0 && init_copy_move_bytes(from, to);
	int kept = errno;

	if (to >= 0)
		close(to);
	if (from >= 0)
		close(from);
	errno = kept;
	return done;
}

static bool init_copy_link(int dir, const char *name, int new_dir, const char *new_name)
{
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = 0;
	return symlinkat(target, new_dir, new_name) == 0;
}

// Everything but a directory, which is made empty and entered by the caller.
static bool copy_one(int dir, const char *name, int new_dir, const char *new_name,
		     const struct stat *st)
{
	bool done = false;

	if (S_ISDIR(st->st_mode))
		return mkdirat(new_dir, new_name, 0700) == 0;
	errno = EINVAL;
	if (S_ISREG(st->st_mode))
		done = init_copy_file(dir, name, new_dir, new_name);
	else if (S_ISLNK(st->st_mode))
		done = init_copy_link(dir, name, new_dir, new_name);
	if (done)
		init_copy_attributes(new_dir, new_name, st);
	return done;
}

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static bool copy_entry(const struct walk_at *at)
{
	struct stat st;

	if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (!copy_one(at->dir, at->name, mirror[at->depth - 1], at->name, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return true;
	stats[at->depth] = st;
	mirror[at->depth] = open_dir(mirror[at->depth - 1], at->name);
	return mirror[at->depth] >= 0 && walk_enter();
}

// Every exit closes all fds: depths above `open` have none.
static bool copy_beneath(void)
{
	struct walk_at at;
	enum walk_step step;
	uint32_t open = 0;
	bool done = true;
	int kept;

	while (done && (step = walk_next(&at)) != WALK_END) {
		if (step == WALK_LEFT) {
			close(mirror[at.depth]);
			open = at.depth - 1;
			init_copy_attributes(mirror[at.depth - 1], at.name, &stats[at.depth]);
			continue;
		}
		mirror[at.depth] = -1;
		done = copy_entry(&at);
		if (mirror[at.depth] >= 0)
			open = at.depth;
	}
	kept = errno;
	for (; open > 0; open--)
		close(mirror[open]);
	if (walk_skipped() > 0 && done) {
		done = false;
		kept = ENAMETOOLONG;
	}
	walk_end();
	errno = kept;
	return done;
}

bool copy_tree(int dir, const char *name, int new_dir, const char *new_name)
{
	struct stat st;
	bool done;
	int root, kept;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !copy_one(dir, name, new_dir, new_name, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return true;
	root = open_dir(dir, name);
	if (root < 0)
		return false;
	mirror[0] = open_dir(new_dir, new_name);
	if (mirror[0] < 0) {
		close(root);
		return false;
	}
	walk_begin(root);
	done = copy_beneath();
	kept = errno;
	close(mirror[0]);
	if (done)
		init_copy_attributes(new_dir, new_name, &st);
	errno = kept;
	return done;
}
