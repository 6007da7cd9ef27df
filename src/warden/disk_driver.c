// Functions that every disk driver needs: the directories of a new disk, the list of the boxes
// whose disks lie in a directory, the error of a box that has none. None of them keeps any state.
//
// syscalls: renameat2 unlinkat mkdirat umask openat close getdents64 fstat newfstatat
#include "warden/disk_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/str.h"
#include "os/path.h"

static const char *const directories[] = {"r", "r/u", "r/w", "usr", "usr/u", "usr/w"};

fallible disk_make_directories(int root)
{
	mode_t mask = umask(022);
	int failed = 0;

	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories) && !failed; i++)
		failed = mkdirat(root, directories[i], 0755);
	umask(mask);
	return failed ? err_sys(errno, "make the directories of a disk") : OK;
}

fallible disk_none(const char *box)
{
	return err_hint(err_new(NOT_FOUND, "no_disk", "%s has no disk here", box),
			"its files are lost, or the disk driver was changed since");
}

fallible disk_below_use(uint64_t used)
{
	return err_hint(err_new(CONFLICT, "below_use", "the sandbox has %llu MB on its disk",
				(unsigned long long)used >> 20),
			"remove files in it, or choose a larger limit");
}

fallible disk_list(int dir, const char *suffix, void (*each)(void *arg, const char *box), void *arg)
{
	auto_dir list = path_list(dir, ".");
	struct dirent *entry;

	if (!list)
		return err_sys(errno, "list the disks");
	while ((entry = path_next(list))) {
		struct str name = str_of(entry->d_name);
		char box[ID_BOX_LEN + 1];

		if (name.len != ID_BOX_LEN + strlen(suffix) || !str_ends(name, suffix))
			continue;
		memcpy(box, name.at, ID_BOX_LEN);
		box[ID_BOX_LEN] = 0;
		if (id_is_box(str_of(box)) || id_is_volume(str_of(box)))
			each(arg, box);
	}
	return OK;
}

fallible disk_name(int dir, const char *from, const char *to, bool *out_found)
{
	*out_found = renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0;
	if (*out_found || errno == ENOENT)
		return OK;
	return err_sys(errno, "name the disk '%s'", to);
}

fallible disk_renew_work(int tree)
{
	static const char *const names[] = {"r/w", "usr/w"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		TRY(path_remove(tree, names[i]));
		if (mkdirat(tree, names[i], 0755))
			return err_sys(errno, "make a work directory");
	}
	return OK;
}

bool disk_is_whole(int tree)
{
	struct stat st;

	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
		if (fstatat(tree, directories[i], &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
			return false;
	return true;
}
