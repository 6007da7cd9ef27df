// Bytes go from the file to the pipe inside of the kernel. A file that shrinks while it is read is
// filled up with zeroes, one that grows is cut: the archive stays sound, and the answer counts it.
#include "init/tarout.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/say.h"
#include "init/site.h"
#include "init/tree.h"
#include "os/fd.h"
#include "wire/tar.h"

#define PIPE_SIZE (256 * 1024)
#define CHUNK (1 << 20)

static struct {
	int pipe;
	struct reach_say *say;
	char head[TAR_HEAD_MAX];
	char target[PATH_MAX];
	char name[REACH_PATH_MAX + 2];
	char scratch[65536];
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

static bool put_head(const struct tar_head *head)
{
	size_t len = tar_write(head, out.head, sizeof(out.head));

	if (len == 0) {
		out.say->skipped++;
		return true;
	}
	return put(out.head, len);
}

// Some bytes of the file: how many, 0 at its end or when it cannot be read, -1 when the pipe broke.
static ssize_t move_some(int fd, size_t len)
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
		ssize_t n = move_some(fd, left < CHUNK ? (size_t)left : CHUNK);

		if (n < 0)
			return false;
		if (n == 0)
			break;
		left -= (uint64_t)n;
	}
	out.say->bytes += size - left;
	out.say->skipped += left > 0;
	return put_zeroes(left + tar_padding(size));
}

static void fill(struct tar_head *head, enum tar_type type, const struct stat *st)
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

static bool pack_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct tar_head head;
	struct stat st;
	bool sound = true;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		out.say->skipped++;
	} else {
		fill(&head, TAR_FILE, &st);
		head.size = (uint64_t)st.st_size;
		out.say->count++;
		sound = put_head(&head) && put_bytes(fd, head.size);
	}
	if (fd >= 0)
		close(fd);
	return sound;
}

static bool pack_link(int dir, const char *name, const struct stat *st)
{
	ssize_t n = readlinkat(dir, name, out.target, sizeof(out.target) - 1);
	struct tar_head head;

	if (n < 0) {
		out.say->skipped++;
		return true;
	}
	out.target[n] = 0;
	fill(&head, TAR_SYMLINK, st);
	head.target = (struct str){out.target, (size_t)n};
	out.say->count++;
	return put_head(&head);
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
	if (S_ISREG(st.st_mode))
		return pack_file(dir, name);
	if (S_ISLNK(st.st_mode))
		return pack_link(dir, name, &st);
	if (!S_ISDIR(st.st_mode)) {
		out.say->skipped++;
		return true;
	}
	*is_dir = true;
	memcpy(out.name + path.len, "/", 2);
	fill(&head, TAR_DIRECTORY, &st);
	out.say->count++;
	return put_head(&head);
}

static bool pack_tree(const struct reach_ask *ask, int root)
{
	struct walk_at at;
	enum walk_step step;
	bool sound = true;

	walk_begin(root);
	while (sound && (step = walk_next(&at)) != WALK_END) {
		bool is_dir;

		if (step == WALK_LEFT || tree_is_excluded(ask, at.path.at) || site_is_temp(at.name))
			continue;
		sound = pack_one(at.dir, at.name, at.path, &is_dir);
		if (is_dir && !walk_enter())
			out.say->skipped++;
	}
	out.say->skipped += walk_skipped();
	walk_end();
	return sound;
}

static bool pack(const struct reach_ask *ask, int root, const struct site *site)
{
	bool is_dir;

	if (root >= 0)
		return pack_tree(ask, root);
	return pack_one(site->dir, site->name, str_of(site->name), &is_dir);
}

bool tarout_serve(const struct reach_ask *ask, struct reach_say *say)
{
	struct reach_say opened = {.kind = REACH_OPENED};
	int root = site_open(ask->base, ask->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
	struct site site = {.dir = -1};
	int ends[2];
	bool sound;

	if (root < 0 && (errno != ENOTDIR || !site_find(ask->base, ask->path, false, true, &site)))
		return false;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		if (root >= 0)
			close(root);
		site_done(&site);
		return false;
	}
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
	say_answer(&opened, ends[0]);
	close(ends[0]);
	out.pipe = ends[1];
	out.say = say;
	sound = pack(ask, root, &site) && put_zeroes(2 * TAR_BLOCK);
	close(ends[1]);
	site_done(&site);
	errno = sound ? 0 : EPIPE;
	return sound;
}
