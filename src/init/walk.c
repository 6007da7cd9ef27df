// Walks a tree with one level per directory: its fd, and the last result of getdents64(). All
// memory is static; unused pages are not touched. A path that grows too long is skipped with
// everything beneath.
#include "init/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/path_resolve.h"

#define ROOM 16384

struct dirent_64 {
	uint64_t inode;
	int64_t offset;
	uint16_t len;
	unsigned char type;
	char name[];
};

static struct {
	struct level {
		int fd;
		size_t path_len; // of the directory, with its slash
		long at, len;
		_Alignas(8) char room[ROOM];
	} levels[FILEOP_DEPTH_MAX + 1];
	int depth; // number of levels in use
	char path[FILEOP_PATH_MAX + 1];
	const char *name; // of the last entry
	uint64_t skipped;
} walk;

static void walk_push(int fd, size_t path_len)
{
	struct level *level = &walk.levels[walk.depth++];

	level->fd = fd;
	level->path_len = path_len;
	level->at = level->len = 0;
}

void walk_begin(int root)
{
	walk.depth = 0;
	walk.skipped = 0;
	walk_push(root, 0);
}

void walk_end(void)
{
	int kept = errno;

	while (walk.depth > 0)
		close(walk.levels[--walk.depth].fd);
	errno = kept;
}

uint64_t walk_skipped(void)
{
	return walk.skipped;
}

// NULL at the end of the directory. A read error ends it too.
static const struct dirent_64 *next_name(struct level *level)
{
	for (;;) {
		const struct dirent_64 *entry;

		if (level->at >= level->len) {
			level->len = syscall(SYS_getdents64, level->fd, level->room, ROOM);
			level->at = 0;
			if (level->len <= 0)
				return NULL;
		}
		entry = (const struct dirent_64 *)(level->room + level->at);
		level->at += entry->len;
		if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0)
			return entry;
	}
}

static enum walk_step walk_leave(struct walk_at *at)
{
	struct level *level = &walk.levels[walk.depth - 1];

	close(level->fd);
	walk.depth--;
	if (walk.depth == 0)
		return WALK_END;
	walk.path[level->path_len - 1] = 0; // the trailing slash
	walk.name = walk.path + walk.levels[walk.depth - 1].path_len;
	*at = (struct walk_at){
		.dir = walk.levels[walk.depth - 1].fd,
		.name = walk.name,
		.path = {walk.path, level->path_len - 1},
		.type = DT_DIR,
		.depth = (uint32_t)walk.depth,
	};
	return WALK_LEFT;
}

enum walk_step walk_next(struct walk_at *at)
{
	while (walk.depth > 0) {
		struct level *level = &walk.levels[walk.depth - 1];
		const struct dirent_64 *entry = next_name(level);
		size_t len;

		if (!entry)
			return walk_leave(at);
		len = strlen(entry->name);
		if (level->path_len + len + 1 > FILEOP_PATH_MAX) {
			walk.skipped++;
			continue;
		}
		memcpy(walk.path + level->path_len, entry->name, len + 1);
		walk.name = walk.path + level->path_len;
		*at = (struct walk_at){
			.dir = level->fd,
			.name = walk.name,
			.path = {walk.path, level->path_len + len},
			.type = entry->type,
			.depth = (uint32_t)walk.depth,
		};
		return WALK_ENTRY;
	}
	return WALK_END;
}

bool walk_enter(void)
{
	struct level *level = &walk.levels[walk.depth - 1];
	size_t len = level->path_len + strlen(walk.name);
	int fd;

	if (walk.depth > FILEOP_DEPTH_MAX) {
		errno = EMLINK;
		return false;
	}
	fd = openat(level->fd, walk.name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || path_resolve_is_refused(fd))
		return false;
	walk.path[len] = '/';
	walk_push(fd, len + 1);
	return true;
}
