// Changes of a worktree. A new file is made in a directory of cove's own in the root, which never
// travels, and gets its place by a rename: in exchange with the old file, if there is one, so that
// the path is never missing. Deleted files are moved into that directory, so that they can be moved
// back. Each parent is opened component by component without following links.
#include "sync/apply.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/secret.h"
#include "os/fd.h"
#include "os/path.h"
#include "sync/scan.h"

#define PIECE (256 * 1024)
#define NAME_ROOM 32

enum apply_step { APPLY_CREATED, APPLY_EXCHANGED, APPLY_MOVED, APPLY_MADE, APPLY_REMOVED };

struct apply_undo {
	struct apply_undo *next; // done before this one
	enum apply_step step;
	size_t number; // of the file in the stage
	mode_t mode;   // of a removed directory
	char path[];
};

struct apply {
	int root, spool, stage;
	char stage_name[64];
	const struct plan *plan;
	struct apply_undo *undo;
	struct stat owner;
};

static void apply_note(struct apply *apply, enum apply_step step, const char *path, size_t number)
{
	struct apply_undo *undo = mem_new(sizeof(*undo) + strlen(path) + 1);

	undo->next = apply->undo;
	undo->step = step;
	undo->number = number;
	memcpy(undo->path, path, strlen(path) + 1);
	apply->undo = undo;
}

static fallible apply_failed(const char *what, const char *path, int errnum)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_new(NO_SPACE, "cannot_apply", "cannot %s '%s': %s", what, path,
			       strerror(errnum));
	return err_new(INVALID, "cannot_apply", "cannot %s '%s': %s", what, path, strerror(errnum));
}

// The superuser changes worktrees of others, and leaves files that are theirs.
static void apply_own(const struct apply *apply, int dir, const char *name)
{
	if (geteuid() == 0)
		(void)!fchownat(dir, name, apply->owner.st_uid, apply->owner.st_gid,
				AT_SYMLINK_NOFOLLOW);
}

// Opens the directory of a path; `make`: missing ones are made. *out_name is its last component.
static fallible apply_parent(struct apply *apply, const char *path, bool make, int *out,
			     const char **out_name)
{
	auto_fd dir = openat(apply->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *at = path, *slash;

	if (dir < 0)
		return apply_failed("open", ".", errno);
	for (; (slash = strchr(at, '/')); at = slash + 1) {
		auto_free char *name = mem_dup(at, (size_t)(slash - at));
		auto_free char *above = mem_dup(path, (size_t)(slash - path));
		int next;

		if (make && mkdirat(dir, name, 0777) == 0) {
			apply_note(apply, APPLY_MADE, above, 0);
			apply_own(apply, dir, name);
		}
		next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return apply_failed("enter", above, errno);
		close(dir);
		dir = next;
	}
	*out = take_fd(&dir);
	*out_name = at;
	return OK;
}

static const char *apply_name(char room[NAME_ROOM], size_t number)
{
	snprintf(room, NAME_ROOM, "%zu", number);
	return room;
}

// ------------------------------------------------------------------------------------- staging

static fallible apply_copy(const struct apply *apply, int to, const struct listed_file *file)
{
	auto_free char *room = mem_new(PIECE);
	uint64_t left = file->size, at = file->content;

	while (left > 0) {
		size_t want = left < PIECE ? (size_t)left : PIECE;
		ssize_t got = pread(apply->spool, room, want, (off_t)at);

		if (got <= 0)
			return err_sys(got ? errno : EIO, "read the spool of a sync");
		if (fd_write_all(to, room, (size_t)got) < 0)
			return apply_failed("write", file->path, errno);
		at += (uint64_t)got;
		left -= (uint64_t)got;
	}
	return OK;
}

static fallible apply_stage(struct apply *apply, size_t number, const struct listed_file *file)
{
	char name[NAME_ROOM];
	auto_fd fd = -1;

	apply_name(name, number);
	if (file->is_link) {
		auto_free char *target = mem_new(PATH_MAX);

		if (file->size >= PATH_MAX || pread(apply->spool, target, file->size,
						    (off_t)file->content) != (ssize_t)file->size)
			return err_sys(EIO, "read the spool of a sync");
		target[file->size] = 0;
		if (symlinkat(target, apply->stage, name))
			return apply_failed("make", file->path, errno);
		apply_own(apply, apply->stage, name);
		return OK;
	}
	fd = openat(apply->stage, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return apply_failed("make", file->path, errno);
	TRY(apply_copy(apply, fd, file));
	apply_own(apply, apply->stage, name);
	return fchmod(fd, file->mode & 0777) ? apply_failed("change", file->path, errno) : OK;
}

static fallible apply_stage_all(struct apply *apply)
{
	for (size_t i = 0; i < apply->plan->change_count; i++)
		if (apply->plan->changes[i].to)
			TRY(apply_stage(apply, i, apply->plan->changes[i].to));
	return OK;
}

// ------------------------------------------------------------------------------------- renames

static fallible apply_conflict(const char *path, const char *why)
{
	return err_hint(err_new(CONFLICT, "sync_conflict", "'%s' %s", path, why),
			"nothing was changed");
}

// The file that a rename took from its place must be the one that was compared.
static fallible apply_check(const struct apply *apply, size_t number,
			    const struct plan_change *change)
{
	struct listed_file found = {.path = NULL};
	char name[NAME_ROOM];
	bool exists;

	TRY(scan_file(apply->stage, apply_name(name, number), change->path, INT64_MAX, &found,
		      &exists));
	if (!exists || !file_list_same(&found, change->from))
		return apply_conflict(change->path, "was changed on this host during the sync");
	return OK;
}

static fallible apply_delete(struct apply *apply, size_t number)
{
	const struct plan_change *change = &apply->plan->changes[number];
	char stage_name[NAME_ROOM];
	const char *name = "";
	auto_fd dir = -1;

	TRY(apply_parent(apply, change->path, false, &dir, &name));
	if (renameat2(dir, name, apply->stage, apply_name(stage_name, number), RENAME_NOREPLACE))
		return apply_failed("remove", change->path, errno);
	apply_note(apply, APPLY_MOVED, change->path, number);
	return apply_check(apply, number, change);
}

// An empty directory has the place of a new file.
static bool apply_clear(struct apply *apply, int dir, const char *name, const char *path)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
	    unlinkat(dir, name, AT_REMOVEDIR))
		return false;
	apply_note(apply, APPLY_REMOVED, path, 0);
	apply->undo->mode = st.st_mode & 0777;
	return true;
}

static fallible apply_write(struct apply *apply, size_t number)
{
	const struct plan_change *change = &apply->plan->changes[number];
	unsigned flags = change->from ? RENAME_EXCHANGE : RENAME_NOREPLACE;
	char stage_name[NAME_ROOM];
	const char *name = "";
	auto_fd dir = -1;
	int failed;

	apply_name(stage_name, number);
	TRY(apply_parent(apply, change->path, true, &dir, &name));
	failed = renameat2(apply->stage, stage_name, dir, name, flags);
	if (failed && errno == EEXIST && apply_clear(apply, dir, name, change->path))
		failed = renameat2(apply->stage, stage_name, dir, name, flags);
	if (failed && errno == EEXIST)
		return apply_conflict(change->path,
				      "exists on this host and was never synced: git ignores it");
	if (failed)
		return apply_failed("replace", change->path, errno);
	apply_note(apply, change->from ? APPLY_EXCHANGED : APPLY_CREATED, change->path, number);
	return change->from ? apply_check(apply, number, change) : OK;
}

// Whether a file is written beneath the directory.
static bool apply_needs(const struct plan *plan, const char *directory)
{
	auto_free char *prefix = mem_fmt("%s/", directory);

	for (size_t i = 0; i < plan->change_count; i++)
		if (plan->changes[i].to && str_starts(str_of(plan->changes[i].path), prefix))
			return true;
	return false;
}

// Directories that lost their last file go, as git does it.
static void apply_prune(struct apply *apply, const char *deleted)
{
	auto_free char *path = mem_str(deleted);
	char *slash;

	while ((slash = strrchr(path, '/'))) {
		const char *name = "";
		auto_fd dir = -1;
		auto_err err = NULL;

		*slash = 0;
		err = apply_parent(apply, path, false, &dir, &name);
		if (err || !apply_clear(apply, dir, name, path))
			break;
		if (apply_needs(apply->plan, path)) {
			(void)!mkdirat(dir, name, apply->undo->mode);
			apply_note(apply, APPLY_MADE, path, 0);
			break;
		}
	}
}

static fallible apply_rename_all(struct apply *apply)
{
	const struct plan *plan = apply->plan;

	for (size_t i = 0; i < plan->change_count; i++)
		if (!plan->changes[i].to)
			TRY(apply_delete(apply, i));
	for (size_t i = 0; i < plan->change_count; i++)
		if (!plan->changes[i].to)
			apply_prune(apply, plan->changes[i].path);
	for (size_t i = 0; i < plan->change_count; i++)
		if (plan->changes[i].to)
			TRY(apply_write(apply, i));
	return OK;
}

// ---------------------------------------------------------------------------------------- undo

static bool apply_undo_one(struct apply *apply, const struct apply_undo *undo)
{
	char stage_name[NAME_ROOM];
	const char *name = "";
	auto_fd dir = -1;
	auto_err err = apply_parent(apply, undo->path, false, &dir, &name);

	apply_name(stage_name, undo->number);
	if (err)
		return false;
	switch (undo->step) {
	case APPLY_CREATED:
		return !renameat2(dir, name, apply->stage, stage_name, RENAME_NOREPLACE);
	case APPLY_EXCHANGED:
		return !renameat2(apply->stage, stage_name, dir, name, RENAME_EXCHANGE);
	case APPLY_MOVED:
		return !renameat2(apply->stage, stage_name, dir, name, RENAME_NOREPLACE);
	case APPLY_MADE:
		return !unlinkat(dir, name, AT_REMOVEDIR);
	case APPLY_REMOVED:
		return !mkdirat(dir, name, 0700) && !fchmodat(dir, name, undo->mode, 0);
	}
	return false;
}

// The step that could not be undone leaves its file in the stage, which is kept then.
static fallible apply_undo_all(struct apply *apply, struct err *err)
{
	bool undone = true;

	for (const struct apply_undo *undo = apply->undo; undo; undo = undo->next)
		undone &= apply_undo_one(apply, undo);
	if (undone)
		return err;
	// Under another name: the next sync must not remove it.
	(void)!renameat(apply->root, apply->stage_name, apply->root, apply->stage_name + 1);
	err = err_hint(err, "not every change could be undone; old files are in '%s'",
		       apply->stage_name + 1);
	apply->stage_name[0] = 0;
	return err;
}

static void apply_done(struct apply *apply)
{
	while (apply->undo) {
		struct apply_undo *undo = apply->undo;

		apply->undo = undo->next;
		free(undo);
	}
	fd_drop(&apply->stage);
}

fallible apply_plan(int root, int spool, const struct plan *plan)
{
	on_exit_call(apply_done) struct apply apply = {
		.root = root, .spool = spool, .stage = -1, .plan = plan};
	char random[17];
	struct err *err;

	if (!plan->change_count)
		return OK;
	secret_hex(random, 8);
	snprintf(apply.stage_name, sizeof(apply.stage_name), FILE_LIST_STAGE "%s", random);
	if (fstat(root, &apply.owner))
		return apply_failed("open", ".", errno);
	if (mkdirat(root, apply.stage_name, 0700))
		return apply_failed("write into", ".", errno);
	TRY(path_dir(root, apply.stage_name, 0700, &apply.stage));
	err = apply_stage_all(&apply);
	if (!err)
		err = apply_rename_all(&apply);
	if (err)
		err = apply_undo_all(&apply, err);
	if (apply.stage_name[0]) {
		struct err *removed = path_remove(root, apply.stage_name);

		if (err)
			err_free(removed);
		else
			err = removed;
	}
	return err;
}

fallible apply_clean(int root)
{
	auto_dir list = path_list(root, ".");
	struct dirent *entry;

	while (list && (entry = path_next(list)))
		if (str_starts(str_of(entry->d_name), FILE_LIST_STAGE))
			TRY(path_remove(root, entry->d_name), "remove what a killed sync left");
	return OK;
}
