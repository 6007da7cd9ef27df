// Walks /usr for files that are not world-readable, or beneath a closed directory. Files of
// packages (dpkg's lists) do not count: anybody can download them.
#include "cli/user.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/path.h"

#define LISTS "/var/lib/dpkg/info"
#define LIST_MAX (32u << 20)
#define FOUND_MAX 256
#define NAMED_MAX 5
#define WALK_FDS 16

// nftw() has no user argument.
static struct {
	char *paths[FOUND_MAX];
	size_t count;
	char *closed; // the last closed directory: everything beneath it is closed, too
} walk;

static bool is_beneath(const char *path, const char *dir)
{
	size_t len = dir ? strlen(dir) : 0;

	return dir && !strncmp(path, dir, len) && path[len] == '/';
}

static int cli_user_look(const char *path, const struct stat *st, int type, struct FTW *where)
{
	bool beneath = is_beneath(path, walk.closed);

	(void)where;
	if (type == FTW_D && !beneath && (st->st_mode & 05) != 05) {
		free(walk.closed);
		walk.closed = mem_str(path);
		beneath = true;
	}
	if (!beneath && !(S_ISREG(st->st_mode) && !(st->st_mode & S_IROTH)))
		return 0;
	if (type != FTW_SL && walk.count < FOUND_MAX)
		walk.paths[walk.count++] = mem_str(path);
	return 0;
}

// Removes the files of one package from the map.
static void drop_listed(int dir, const char *list, struct map *found)
{
	auto_buf text = BUF_INIT(LIST_MAX);
	auto_err err = path_read(dir, list, &text);
	struct str rest = buf_view(&text), line;

	while (!err && map_count(found) && str_cut(&rest, '\n', &line))
		map_take(found, line);
}

static void drop_packaged(struct map *found)
{
	DIR *dir = map_count(found) ? opendir(LISTS) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (str_ends(str_of(entry->d_name), ".list"))
			drop_listed(dirfd(dir), entry->d_name, found);
	if (dir)
		closedir(dir);
}

// Skips files beneath a directory that is already listed.
static size_t cli_user_name(const struct map *found, char *room, size_t size)
{
	const char *last = NULL;
	size_t named = 0, len = 0;

	room[0] = 0;
	for (size_t i = 0; i < walk.count; i++) {
		const char *path = walk.paths[i];

		if (!map_get(found, str_of(path)) || is_beneath(path, last))
			continue;
		last = path;
		if (named++ < NAMED_MAX && len + strlen(path) + 3 < size)
			len += (size_t)snprintf(room + len, size - len, "%s%s", len ? ", " : "",
						path);
	}
	return named;
}

size_t cli_user_private(char *room, size_t size)
{
	struct map *found = map_new();
	size_t count;

	nftw("/usr", cli_user_look, WALK_FDS, FTW_PHYS | FTW_MOUNT);
	for (size_t i = 0; i < walk.count; i++)
		map_put(found, str_of(walk.paths[i]), walk.paths[i]);
	drop_packaged(found);
	count = cli_user_name(found, room, size);
	map_free(found);
	while (walk.count > 0)
		free(walk.paths[--walk.count]);
	free(walk.closed);
	walk.closed = NULL;
	return count;
}
