// LIST, FIND, MKDIR, REMOVE and CHMOD of a file worker, by walks over directory fds (walk.c). No
// symlink is followed. A box that changes the tree meanwhile can only add or hide entries; removal
// of a directory that fills up again is retried a bounded number of times.
#include "init/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "codec/glob.h"
#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "os/fd.h"

#define AGAIN_MAX 64 // directories that were written to while being removed

static char target[PATH_MAX];

bool tree_is_included(const struct fileop_request *ask, const char *path)
{
	for (uint32_t i = 0; i < ask->includes; i++)
		if (glob_names(ask->globs[i], path))
			return true;
	return ask->includes == 0;
}

bool tree_is_excluded(const struct fileop_request *ask, const char *path)
{
	for (uint32_t i = 0; i < ask->excludes; i++)
		if (glob_hits(ask->globs[ask->includes + i], path))
			return true;
	return false;
}

bool tree_is_directory(const struct walk_at *at)
{
	struct stat st;

	if (at->type != DT_UNKNOWN)
		return at->type == DT_DIR;
	return fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

// Stats an entry of the current directory. False: gone.
static bool init_tree_look(const struct walk_at *at, struct fileop_entry *out)
{
	struct stat st;
	ssize_t n = 0;

	if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*out = (struct fileop_entry){.path = at->path, .target = STR("")};
	path_resolve_stat(&st, &out->stat);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(at->dir, at->name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		out->target = (struct str){target, n > 0 ? (size_t)n : 0};
	}
	return true;
}

// Sends the entry; at the limit sets `more`.
static void init_tree_report(struct reply_batch *batch, const struct fileop_request *ask,
			     const struct fileop_entry *entry, struct fileop_reply *reply)
{
	if (ask->limit && batch->count >= ask->limit) {
		reply->more = true;
		return;
	}
	fileop_put_entry(&batch->pack, entry);
	if (!reply_item(batch))
		reply->skipped++;
}

enum { TELL = 1, ENTER = 2 };

// Decides on an entry, and describes it in *out.
typedef unsigned judge_fn(const struct fileop_request *ask, const struct walk_at *at,
			  struct fileop_entry *out);

static bool tell_tree(const struct fileop_request *ask, judge_fn *judge, struct fileop_reply *reply)
{
	int root = path_resolve_open(ask->base, ask->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	struct reply_batch batch;
	struct walk_at at;
	enum walk_step step;

	if (root < 0)
		return false;
	walk_begin(root);
	reply_begin(&batch, FILEOP_ENTRIES);
	while (!reply->more && (step = walk_next(&at)) != WALK_END) {
		struct fileop_entry entry;
		unsigned verdict = step == WALK_LEFT ? 0 : judge(ask, &at, &entry);

		if (verdict & TELL)
			init_tree_report(&batch, ask, &entry, reply);
		if ((verdict & ENTER) && entry.stat.type == FILEOP_DIRECTORY && !walk_enter())
			reply->skipped++;
	}
	reply_flush(&batch);
	reply->count = batch.count;
	reply->skipped += walk_skipped();
	walk_end();
	return true;
}

static bool is_shown(const struct fileop_request *ask, const struct walk_at *at)
{
	return (ask->flags & FILEOP_HIDDEN) || at->name[0] != '.';
}

static unsigned judge_listed(const struct fileop_request *ask, const struct walk_at *at,
			     struct fileop_entry *out)
{
	if (!init_tree_look(at, out))
		return 0;
	return (is_shown(ask, at) ? TELL : 0) | (ask->flags & FILEOP_RECURSIVE ? ENTER : 0);
}

bool tree_list(const struct fileop_request *ask, struct fileop_reply *reply)
{
	return tell_tree(ask, judge_listed, reply);
}

static bool init_tree_is_wanted(const struct fileop_request *ask, const struct fileop_entry *entry)
{
	if (ask->types && !(ask->types & (1u << entry->stat.type)))
		return false;
	if (entry->stat.size < ask->min || (ask->max && entry->stat.size > ask->max))
		return false;
	return tree_is_included(ask, entry->path.at);
}

static unsigned judge_found(const struct fileop_request *ask, const struct walk_at *at,
			    struct fileop_entry *out)
{
	if (!is_shown(ask, at) || tree_is_excluded(ask, at->path.at) || !init_tree_look(at, out))
		return 0;
	return (init_tree_is_wanted(ask, out) ? TELL : 0) |
	       (!ask->depth || at->depth < ask->depth ? ENTER : 0);
}

bool tree_find(const struct fileop_request *ask, struct fileop_reply *reply)
{
	return tell_tree(ask, judge_found, reply);
}

bool tree_mkdir(const struct fileop_request *ask, struct fileop_reply *reply)
{
	bool parents = ask->flags & FILEOP_PARENTS;
	bool own_mode = ask->mode != FILEOP_KEEP_MODE;
	mode_t mode = own_mode ? (mode_t)ask->mode : 0755;
	auto_path_resolve resolved = {.dir = -1};
	struct stat st;
	bool made;

	(void)reply;
	if (!path_resolve_find(ask->base, ask->path, parents, false, &resolved))
		return false;
	errno = EEXIST;
	made = resolved.name[0] && mkdirat(resolved.dir, resolved.name, mode) == 0;
	if (made && own_mode)
		(void)!fchmodat(resolved.dir, resolved.name, mode, 0);
	if (!made && errno == EEXIST && parents)
		made = !resolved.name[0] ||
		       (fstatat(resolved.dir, resolved.name, &st, 0) == 0 && S_ISDIR(st.st_mode));
	return made;
}

struct erased {
	uint64_t count, left;
	int errnum, again;
};

static void erase_one(const struct walk_at *at, bool is_dir, struct erased *out)
{
	if (unlinkat(at->dir, at->name, is_dir ? AT_REMOVEDIR : 0) == 0) {
		out->count++;
		return;
	}
	if (errno == ENOENT)
		return;
	// A process has written into it meanwhile.
	if (is_dir && (errno == ENOTEMPTY || errno == EEXIST) && out->again++ < AGAIN_MAX &&
	    walk_enter())
		return;
	if (out->left++ == 0)
		out->errnum = errno;
}

static void erase_beneath(int root, struct erased *out)
{
	struct walk_at at;
	enum walk_step step;

	walk_begin(root);
	while ((step = walk_next(&at)) != WALK_END) {
		bool is_dir = step == WALK_LEFT || tree_is_directory(&at);

		if (step == WALK_ENTRY && is_dir && walk_enter())
			continue;
		// An entry that claims to be a directory and cannot be entered may still be
		// removed.
		erase_one(&at,
			  is_dir && (step == WALK_LEFT || (errno != ENOTDIR && errno != ELOOP)),
			  out);
	}
	out->left += walk_skipped();
	walk_end();
}

uint64_t tree_erase(int dir, const char *name, uint64_t *count)
{
	struct erased erased = {0};
	int root = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (root >= 0)
		erase_beneath(root, &erased);
	else if (errno == ENOENT)
		return 0;
	for (int i = 0; i < AGAIN_MAX && erased.left == 0; i++) {
		if (unlinkat(dir, name, root >= 0 ? AT_REMOVEDIR : 0) == 0) {
			erased.count++;
			break;
		}
		if (root < 0 || (errno != ENOTEMPTY && errno != EEXIST) || i == AGAIN_MAX - 1) {
			erased.left++;
			erased.errnum = errno;
			break;
		}
		root = openat(dir, name,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (root >= 0)
			erase_beneath(root, &erased);
	}
	*count += erased.count;
	errno = erased.errnum;
	return erased.left;
}

static bool remove_at(const struct fileop_request *ask, const struct path_resolve *resolved,
		      struct fileop_reply *reply)
{
	struct stat st;

	if (unlinkat(resolved->dir, resolved->name, 0) == 0) {
		reply->count = 1;
		return true;
	}
	if (errno != EISDIR && errno != EPERM)
		return false;
	if (fstatat(resolved->dir, resolved->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (!S_ISDIR(st.st_mode)) {
		errno = EPERM;
		return false;
	}
	if (ask->flags & FILEOP_RECURSIVE) {
		reply->skipped = tree_erase(resolved->dir, resolved->name, &reply->count);
		return reply->skipped == 0;
	}
	if (ask->flags & FILEOP_EMPTY)
		return unlinkat(resolved->dir, resolved->name, AT_REMOVEDIR) == 0;
	errno = EISDIR;
	return false;
}

bool tree_remove(const struct fileop_request *ask, struct fileop_reply *reply)
{
	auto_path_resolve resolved = {.dir = -1};

	if (!path_resolve_find(ask->base, ask->path, false, false, &resolved))
		return false;
	errno = ask->flags & FILEOP_RECURSIVE ? EBUSY : EISDIR;
	return resolved.name[0] && remove_at(ask, &resolved, reply);
}

// By an O_PATH fd, so that it cannot be replaced by a symlink.
static bool set_mode(int dir, const char *name, mode_t mode)
{
	auto_fd_errno fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[32];

	return fd >= 0 && chmod(path_resolve_of_fd(fd, path), mode) == 0;
}

static void set_modes_beneath(int root, mode_t mode, struct fileop_reply *reply)
{
	struct walk_at at;
	enum walk_step step;

	walk_begin(root);
	while ((step = walk_next(&at)) != WALK_END) {
		if (step == WALK_LEFT || at.type == DT_LNK)
			continue;
		if (set_mode(at.dir, at.name, mode))
			reply->count++;
		else
			reply->skipped++;
		if (tree_is_directory(&at) && !walk_enter())
			reply->skipped++;
	}
	walk_end();
}

bool tree_chmod(const struct fileop_request *ask, struct fileop_reply *reply)
{
	auto_fd_errno fd = path_resolve_open(ask->base, ask->path, O_PATH);
	mode_t mode = ask->mode & 07777;
	char path[32];
	int root = -1;

	if (fd < 0 || chmod(path_resolve_of_fd(fd, path), mode) < 0)
		return false;
	if (ask->flags & FILEOP_RECURSIVE)
		root = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	reply->count = 1;
	if (root >= 0)
		set_modes_beneath(root, mode, reply);
	return true;
}
