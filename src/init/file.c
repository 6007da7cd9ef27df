// STAT, READ, READLINK and SPACE of a file worker. A FIFO is opened without waiting and then
// refused; a socket cannot be opened at all. Small files are returned with their bytes, larger ones
// as an fd.
#include "init/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "init/path_resolve.h"
#include "init/reply.h"
#include "os/fd.h"

#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

static char bytes[FILEOP_SMALL + 1];
static char link_text[PATH_MAX];

// close() that keeps errno.
static void init_file_let_go(int fd)
{
	int kept = errno;

	close(fd);
	errno = kept;
}

bool file_stat(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int fd = path_resolve_open(ask->base, ask->path,
				   O_PATH | (ask->flags & FILEOP_FOLLOW ? 0 : O_NOFOLLOW));
	struct stat st;
	bool done;

	if (fd < 0)
		return false;
	done = fstat(fd, &st) == 0;
	if (done && S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(fd, "", link_text, sizeof(link_text));

		reply->text = (struct str){link_text, n > 0 ? (size_t)n : 0};
	}
	init_file_let_go(fd);
	if (done)
		path_resolve_stat(&st, &reply->stat);
	return done;
}

bool file_must_be_regular(uint32_t mode, struct fileop_reply *reply)
{
	if (S_ISREG(mode))
		return true;
	if (!S_ISDIR(mode))
		reply->why = FILEOP_NOT_REGULAR;
	errno = S_ISDIR(mode) ? EISDIR : EINVAL;
	return false;
}

// Into `bytes`, which has room for one byte more than a small file has: the file may grow.
static ssize_t read_small(int fd, const struct stat *st)
{
	ssize_t n = read(fd, bytes, sizeof(bytes));
	ssize_t more;

	if (n <= 0 || n == st->st_size || n == (ssize_t)sizeof(bytes))
		return n;
	more = fd_read_all(fd, bytes + n, sizeof(bytes) - (size_t)n);
	return more < 0 ? -1 : n + more;
}

bool file_read(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int fd = path_resolve_open(ask->base, ask->path, READ_FLAGS);
	struct stat st;
	ssize_t n = -1;

	if (fd < 0) {
		if (errno == ENXIO || errno == ENODEV)
			reply->why = FILEOP_NOT_REGULAR;
		return false;
	}
	if (fstat(fd, &st) < 0 || !file_must_be_regular(st.st_mode, reply)) {
		init_file_let_go(fd);
		return false;
	}
	if (!(ask->flags & FILEOP_AS_FD) && st.st_size <= FILEOP_SMALL) {
		n = read_small(fd, &st);
		if (n < 0) {
			init_file_let_go(fd);
			return false;
		}
	}
	path_resolve_stat(&st, &reply->stat);
	if (n >= 0 && n <= FILEOP_SMALL) {
		reply->kind = FILEOP_BYTES;
		reply->stat.size = (uint64_t)n;
		reply->rest = (struct str){bytes, (size_t)n};
		close(fd);
		return true;
	}
	lseek(fd, 0, SEEK_SET);
	reply->kind = FILEOP_OPENED;
	reply_answer(reply, fd);
	close(fd);
	*reply = (struct fileop_reply){.kind = FILEOP_DONE};
	return true;
}

bool file_readlink(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int fd = path_resolve_open(ask->base, ask->path, O_PATH | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return false;
	n = readlinkat(fd, "", link_text, sizeof(link_text));
	init_file_let_go(fd);
	if (n < 0) {
		errno = EINVAL;
		return false;
	}
	reply->text = (struct str){link_text, (size_t)n};
	return true;
}

bool file_space(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int fd = path_resolve_open(ask->base, ask->path, O_PATH);
	struct statfs fs;
	bool done;

	if (fd < 0)
		return false;
	done = fstatfs(fd, &fs) == 0;
	init_file_let_go(fd);
	if (!done)
		return false;
	reply->space = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	reply->space_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	reply->inodes = fs.f_files;
	reply->inodes_free = fs.f_ffree;
	return true;
}
