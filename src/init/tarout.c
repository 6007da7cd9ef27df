// Packs a tree as a tar into a pipe, with splice where possible; or lists it there (FILEOP_STATS).
// A file that shrinks while it is read is padded with zeroes, one that grows is cut: the archive
// stays valid, and the answer counts them.
//
// A file with several names is packed once; its other names become hard links to the first. The
// table of names is bounded: a file beyond it is packed again.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codec/tar.h"
#include "init/gitignore.h"
#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "init/tree.h"
#include "os/fd.h"

#define PIPE_SIZE (256 * 1024)
#define CHUNK (1 << 20)
#define LINK_BUCKETS 4096
#define LINKS_MAX 262144

// A file with several names, and the first of them.
struct link_name {
	struct link_name *next;
	dev_t device;
	ino_t inode;
	char name[];
};

static struct {
	int pipe;
	struct fileop_reply *reply;
	char head[TAR_HEAD_MAX];
	char target[PATH_MAX];
	char name[FILEOP_PATH_MAX + 2];
	char scratch[65536];
	struct link_name *links[LINK_BUCKETS];
	uint32_t link_count;
	int errnum;    // of an ignore file that could not be read
	bool lists;    // FILEOP_STATS
	size_t filled; // bytes of a list that are in `scratch`
} out;

static bool put(const void *bytes, size_t len)
{
	return fd_write_all(out.pipe, bytes, len) == 0;
}

static bool put_zeroes(uint64_t len)
{
	memset(out.scratch, 0, sizeof(out.scratch));
	while (len > 0) {
		size_t n = len < sizeof(out.scratch) ? (size_t)len : sizeof(out.scratch);

		if (!put(out.scratch, n))
			return false;
		len -= n;
	}
	return true;
}

static bool tarout_put_head(const struct tar_head *head)
{
	size_t len = tar_write(head, out.head, sizeof(out.head));

	if (len == 0) {
		out.reply->skipped++;
		return true;
	}
	return put(out.head, len);
}

// Copies some bytes of the file: how many, 0 at its end or on a read error, -1 if the pipe broke.
static ssize_t tarout_move_some(int fd, size_t len)
{
	ssize_t n;

	do {
		n = splice(fd, NULL, out.pipe, NULL, len, SPLICE_F_MOVE);
	} while (n < 0 && errno == EINTR);
	if (n >= 0 || errno == EPIPE)
		return n;
	n = read(fd, out.scratch, len < sizeof(out.scratch) ? len : sizeof(out.scratch));
	if (n <= 0)
		return 0;
	return put(out.scratch, (size_t)n) ? n : -1;
}

static bool put_bytes(int fd, uint64_t size)
{
	uint64_t left = size;

	while (left > 0) {
		ssize_t n = tarout_move_some(fd, left < CHUNK ? (size_t)left : CHUNK);

		if (n < 0)
			return false;
		if (n == 0)
			break;
		left -= (uint64_t)n;
	}
	out.reply->bytes += size - left;
	out.reply->skipped += left > 0;
	return put_zeroes(left + tar_padding(size));
}

static void tarout_fill(struct tar_head *head, enum tar_type type, const struct stat *st)
{
	*head = (struct tar_head){
		.type = type,
		.path = str_of(out.name),
		.target = STR(""),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime = st->st_mtim.tv_sec,
	};
}

static struct link_name **links_at(const struct stat *st)
{
	return &out.links[(st->st_ino ^ st->st_dev) % LINK_BUCKETS];
}

// The name under which it was packed; NULL: not yet.
static const char *links_find(const struct stat *st)
{
	if (st->st_nlink < 2)
		return NULL;
	for (const struct link_name *at = *links_at(st); at; at = at->next)
		if (at->inode == st->st_ino && at->device == st->st_dev)
			return at->name;
	return NULL;
}

static void links_add(const struct stat *st)
{
	size_t len = strlen(out.name) + 1;
	struct link_name *made;

	if (st->st_nlink < 2 || out.link_count == LINKS_MAX)
		return;
	made = malloc(sizeof(*made) + len);
	if (!made)
		return;
	*made = (struct link_name){*links_at(st), st->st_dev, st->st_ino};
	memcpy(made->name, out.name, len);
	*links_at(st) = made;
	out.link_count++;
}

static void links_drop(void)
{
	for (int i = 0; i < LINK_BUCKETS; i++)
		while (out.links[i]) {
			struct link_name *first = out.links[i];

			out.links[i] = first->next;
			free(first);
		}
	out.link_count = 0;
}

static bool pack_file(int dir, const char *name)
{
	auto_fd_errno fd = openat(dir, name,
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct tar_head head;
	const char *first;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		out.reply->skipped++;
		return true;
	}
	first = links_find(&st);
	tarout_fill(&head, first ? TAR_HARDLINK : TAR_FILE, &st);
	out.reply->count++;
	if (first) {
		head.target = str_of(first);
		return tarout_put_head(&head);
	}
	links_add(&st);
	head.size = (uint64_t)st.st_size;
	return tarout_put_head(&head) && put_bytes(fd, head.size);
}

static bool pack_link(int dir, const char *name, const struct stat *st)
{
	ssize_t n = readlinkat(dir, name, out.target, sizeof(out.target) - 1);
	struct tar_head head;

	if (n < 0) {
		out.reply->skipped++;
		return true;
	}
	out.target[n] = 0;
	tarout_fill(&head, TAR_SYMLINK, st);
	head.target = (struct str){out.target, (size_t)n};
	out.reply->count++;
	return tarout_put_head(&head);
}

static bool list_flush(void)
{
	size_t len = out.filled;

	out.filled = 0;
	return put(out.scratch, len);
}

static bool list_put(const char *text, size_t len)
{
	if (out.filled + len > sizeof(out.scratch) && !list_flush())
		return false;
	memcpy(out.scratch + out.filled, text, len);
	out.filled += len;
	return true;
}

static long long list_ns(const struct timespec *time)
{
	return (long long)((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec);
}

// The time by which the kernel dates a file that changes from now on, or an earlier one.
static bool list_begin(void)
{
	struct timespec now;
	char text[64];
	int len;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	len = snprintf(text, sizeof(text), "stats %lld", list_ns(&now));
	return list_put(text, (size_t)len + 1);
}

static bool list_one(int dir, const char *name, struct str path, const struct stat *st)
{
	char type = S_ISREG(st->st_mode) ? 'f' : S_ISLNK(st->st_mode) ? 'l' : 'd';
	ssize_t n = 0;
	int len;

	if (type == 'l')
		n = readlinkat(dir, name, out.target, sizeof(out.target) - 1);
	if (n < 0) {
		out.reply->skipped++;
		return true;
	}
	out.target[n] = 0;
	out.reply->count++;
	len = snprintf(out.head, sizeof(out.head), "%c %u %llu %lld %lld %llu ", type,
		       (unsigned)st->st_mode & 07777, (unsigned long long)st->st_size,
		       list_ns(&st->st_mtim), list_ns(&st->st_ctim),
		       (unsigned long long)st->st_ino);
	return list_put(out.head, (size_t)len) && list_put(path.at, path.len) &&
	       (type != 'd' || list_put("/", 1)) && list_put("", 1) &&
	       (type != 'l' || list_put(out.target, (size_t)n + 1));
}

// False: the pipe broke.
static bool pack_one(int dir, const char *name, struct str path, bool *is_dir)
{
	struct tar_head head;
	struct stat st;

	*is_dir = false;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	memcpy(out.name, path.at, path.len);
	out.name[path.len] = 0;
	*is_dir = S_ISDIR(st.st_mode);
	if (out.lists && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) || *is_dir))
		return list_one(dir, name, path, &st);
	if (S_ISREG(st.st_mode))
		return pack_file(dir, name);
	if (S_ISLNK(st.st_mode))
		return pack_link(dir, name, &st);
	if (!S_ISDIR(st.st_mode)) {
		out.reply->skipped++;
		return true;
	}
	memcpy(out.name + path.len, "/", 2);
	tarout_fill(&head, TAR_DIRECTORY, &st);
	out.reply->count++;
	return tarout_put_head(&head);
}

static bool pack_wants(const struct fileop_request *ask, const struct walk_at *at)
{
	if (tree_is_excluded(ask, at->path.at) || path_resolve_is_temp(at->name))
		return false;
	return !(ask->flags & FILEOP_IGNORE) || !gitignore_is_out(at->path, tree_is_directory(at));
}

// False: an ignore file could not be read.
static bool pack_enter(const struct fileop_request *ask, const struct walk_at *at)
{
	bool ignores = ask->flags & FILEOP_IGNORE;

	if (ignores && !gitignore_enter(at->dir, at->name, at->path)) {
		out.errnum = errno;
		return false;
	}
	if (walk_enter())
		return true;
	if (ignores)
		gitignore_leave();
	out.reply->skipped++;
	return true;
}

static bool pack_tree(const struct fileop_request *ask, int root)
{
	bool ignores = ask->flags & FILEOP_IGNORE;
	bool sound = !ignores || gitignore_begin(ask, root);
	struct walk_at at;
	enum walk_step step;

	out.errnum = sound ? 0 : errno;
	walk_begin(root);
	while (sound && (step = walk_next(&at)) != WALK_END) {
		bool is_dir = false;

		if (step == WALK_ENTRY && pack_wants(ask, &at))
			sound = pack_one(at.dir, at.name, at.path, &is_dir);
		else if (step == WALK_LEFT && ignores)
			gitignore_leave();
		if (sound && is_dir)
			sound = pack_enter(ask, &at);
	}
	out.reply->skipped += walk_skipped();
	walk_end();
	if (ignores)
		gitignore_end();
	return sound;
}

bool tarout_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int root = path_resolve_open(ask->base, ask->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	auto_path_resolve resolved = {.dir = -1};
	int ends[2];
	bool sound, is_dir;

	if (root < 0 &&
	    (errno != ENOTDIR || !path_resolve_find(ask->base, ask->path, false, true, &resolved)))
		return false;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		fd_drop(&root);
		return false;
	}
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
	reply_opened(ends[0]);
	close(ends[0]);
	out.pipe = ends[1];
	out.reply = reply;
	out.errnum = 0;
	out.lists = ask->flags & FILEOP_STATS;
	out.filled = 0;
	sound = (!out.lists || list_begin()) &&
		(root >= 0
			 ? pack_tree(ask, root)
			 : pack_one(resolved.dir, resolved.name, str_of(resolved.name), &is_dir)) &&
		(out.lists ? list_flush() : put_zeroes(2 * TAR_BLOCK));
	close(ends[1]);
	links_drop();
	errno = sound ? 0 : out.errnum ? out.errnum : EPIPE;
	return sound;
}
