// Requests about one file. STAT, READ, READLINK and SPACE: a FIFO is opened without waiting and
// then refused; a socket cannot be opened at all. Small files are returned with their bytes, larger
// ones as an fd. WRITE and uploads are below.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "os/fd.h"

#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

static char bytes[FILEOP_SMALL + 1];
static char link_text[PATH_MAX];

bool file_stat(const struct fileop_request *ask, struct fileop_reply *reply)
{
	auto_fd_errno fd = path_resolve_open(
		ask->base, ask->path, O_PATH | (ask->flags & FILEOP_FOLLOW ? 0 : O_NOFOLLOW));
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(fd, "", link_text, sizeof(link_text));

		reply->text = (struct str){link_text, n > 0 ? (size_t)n : 0};
	}
	path_resolve_stat(&st, &reply->stat);
	return true;
}

// Accepts only a regular file. False: with errno EISDIR, or `why`.
static bool must_be_regular(uint32_t mode, struct fileop_reply *reply)
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
	auto_fd_errno fd = path_resolve_open(ask->base, ask->path, READ_FLAGS);
	struct stat st;
	ssize_t n = -1;

	if (fd < 0) {
		if (errno == ENXIO || errno == ENODEV)
			reply->why = FILEOP_NOT_REGULAR;
		return false;
	}
	if (fstat(fd, &st) < 0 || !must_be_regular(st.st_mode, reply))
		return false;
	if (!(ask->flags & FILEOP_AS_FD) && st.st_size <= FILEOP_SMALL) {
		n = read_small(fd, &st);
		if (n < 0)
			return false;
	}
	path_resolve_stat(&st, &reply->stat);
	if (n >= 0 && n <= FILEOP_SMALL) {
		reply->kind = FILEOP_BYTES;
		reply->stat.size = (uint64_t)n;
		reply->rest = (struct str){bytes, (size_t)n};
		return true;
	}
	lseek(fd, 0, SEEK_SET);
	reply->kind = FILEOP_OPENED;
	reply_answer(reply, fd);
	*reply = (struct fileop_reply){.kind = FILEOP_DONE};
	return true;
}

bool file_readlink(const struct fileop_request *ask, struct fileop_reply *reply)
{
	auto_fd_errno fd = path_resolve_open(ask->base, ask->path, O_PATH | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return false;
	n = readlinkat(fd, "", link_text, sizeof(link_text));
	if (n < 0) {
		errno = EINVAL;
		return false;
	}
	reply->text = (struct str){link_text, (size_t)n};
	return true;
}

bool file_space(const struct fileop_request *ask, struct fileop_reply *reply)
{
	auto_fd_errno fd = path_resolve_open(ask->base, ask->path, O_PATH);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return false;
	reply->space = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	reply->space_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	reply->inodes = fs.f_files;
	reply->inodes_free = fs.f_ffree;
	return true;
}

#define NEW_MODE 0644
#define TRIES 8
#define LARGE (4 << 20)
#define PARTING_MS 1

// WRITE and uploads. A file is replaced atomically: the new one is written under a temporary name
// in the same directory, or without a name, and renamed. It keeps mode and, if allowed, owner of
// the old one. A user who may not write the old file may not replace it, though the directory would
// allow it. Freeing a large old file, and the writeback that btrfs starts when a rename replaces a
// file, take half as long as the write. So names are exchanged, the old file is unlinked, and a
// child does both after the answer. The next write waits for that child, so that at most one such
// file uses space unseen. Where the directory is not writable, or the file is a mount point, a
// small file is written in place.
//
// The file that is being written. One at a time.
static struct {
	volatile bool named; // `temp` exists
	bool open;	     // between BEGIN and its end
	struct path_resolve at;
	char temp[NAME_MAX + 1];
	int fd;
	bool exists;
	struct stat old;
	uint32_t flags;
	mode_t mode;
} now = {.fd = -1, .at = {.dir = -1}};

void file_undo(void)
{
	if (now.named)
		unlinkat(now.at.dir, now.temp, 0);
	now.named = false;
}

static void write_close_all(void)
{
	int kept = errno;

	file_undo();
	fd_drop(&now.fd);
	path_resolve_done(&now.at);
	now.open = false;
	errno = kept;
}

// The existing file, and whether it may be replaced.
static bool target_check(const struct fileop_request *ask, struct fileop_reply *reply)
{
	now.exists = fstatat(now.at.dir, now.at.name, &now.old, AT_SYMLINK_NOFOLLOW) == 0;
	now.flags = ask->flags;
	now.mode = ask->mode == FILEOP_KEEP_MODE ? NEW_MODE : (mode_t)ask->mode;
	if (!now.exists)
		return errno == ENOENT;
	if (!must_be_regular(now.old.st_mode, reply))
		return false;
	if (ask->flags & FILEOP_EXCLUSIVE) {
		errno = EEXIST;
		return false;
	}
	if (ask->mode == FILEOP_KEEP_MODE)
		now.mode = now.old.st_mode & 07777;
	return geteuid() == 0 || syscall(SYS_faccessat2, now.at.dir, now.at.name, W_OK,
					 AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}

static int unlinker = -1; // reads EOF when the old file is freed

static void unlinker_wait(void)
{
	char none;

	if (unlinker >= 0)
		while (read(unlinker, &none, 1) < 0 && errno == EINTR)
			continue;
	fd_drop(&unlinker);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue; // an earlier child that has exited by now
}

static void unlinker_run(int old, int done)
{
	close(reply_sock());
	poll(NULL, 0, PARTING_MS); // until the other fds of the old file are closed
	close(old);
	close(done);
	fdatasync(now.fd);
	_exit(0);
}

// The old file has no name any more, and is freed with its last fd. The child must not have the new
// file open for writing, or execve() of the new file is ETXTBSY.
static void write_destroy(int old)
{
	char path[32];
	int done[2], written = now.fd;

	now.fd = openat(AT_FDCWD, path_resolve_of_fd(written, path), O_RDONLY | O_CLOEXEC);
	close(written);
	if (pipe2(done, O_CLOEXEC) < 0)
		return;
	if (fork() == 0)
		unlinker_run(old, done[1]);
	close(done[1]);
	unlinker = done[0];
}

static bool find_target(const struct fileop_request *ask, struct fileop_reply *reply)
{
	unlinker_wait();
	if (!path_resolve_find(ask->base, ask->path, ask->flags & FILEOP_PARENTS, true, &now.at))
		return false;
	if (!now.at.name[0]) {
		errno = EISDIR;
		return false;
	}
	return target_check(ask, reply);
}

// The new file gets a temporary name: it is made with it, or linked if it was made without.
static bool temp_name(void)
{
	char path[32];

	for (int i = 0; i < TRIES && !now.named; i++) {
		path_resolve_temp_name(now.temp, now.exists);
		if (now.fd >= 0) {
			now.named = linkat(AT_FDCWD, path_resolve_of_fd(now.fd, path), now.at.dir,
					   now.temp, AT_SYMLINK_FOLLOW) == 0;
		} else {
			now.fd = openat(now.at.dir, now.temp,
					O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
					now.mode & 0777);
			now.named = now.fd >= 0;
		}
		if (!now.named && errno != EEXIST)
			return false;
	}
	return now.named;
}

// Sets mode and owner where they differ.
static bool write_attributes(struct stat *st)
{
	if (fstat(now.fd, st) < 0)
		return false;
	if (now.exists && (st->st_uid != now.old.st_uid || st->st_gid != now.old.st_gid) &&
	    fchown(now.fd, now.old.st_uid, now.old.st_gid) == 0) {
		st->st_uid = now.old.st_uid;
		st->st_gid = now.old.st_gid;
		st->st_mode |= 1 << 16; // chown cleared bits: set them again
	}
	if ((st->st_mode & ~(mode_t)S_IFMT) != now.mode && fchmod(now.fd, now.mode) < 0)
		return false;
	st->st_mode = S_IFREG | now.mode;
	return true;
}

// Both are in the upper layer: an exchange would copy up a file that is not.
static bool is_large(const struct stat *st)
{
	return now.exists && now.old.st_nlink == 1 && now.old.st_dev == st->st_dev &&
	       (uint64_t)now.old.st_blocks * 512 >= LARGE && !(now.flags & FILEOP_EXCLUSIVE);
}

static bool swap_names(void)
{
	return syscall(SYS_renameat2, now.at.dir, now.at.name, now.at.dir, now.temp,
		       RENAME_EXCHANGE) == 0;
}

static bool replace_large(void)
{
	auto_fd_errno old = openat(now.at.dir, now.at.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	bool done = old >= 0 && swap_names();

	// A process may have put a directory there.
	if (done && unlinkat(now.at.dir, now.temp, 0) < 0) {
		swap_names();
		done = false;
	}
	if (done) {
		now.named = false;
		write_destroy(old);
	}
	return done;
}

static bool write_take_place(const struct stat *st)
{
	unsigned flags = now.flags & FILEOP_EXCLUSIVE ? RENAME_NOREPLACE : 0;

	if (is_large(st) && replace_large())
		return true;
	if (syscall(SYS_renameat2, now.at.dir, now.temp, now.at.dir, now.at.name, flags) < 0)
		return false;
	now.named = false;
	return true;
}

static bool write_in_place(const struct fileop_request *ask, struct stat *st)
{
	auto_fd_errno fd = openat(now.at.dir, now.at.name,
				  O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode) && ftruncate(fd, 0) == 0 &&
	       fd_write_all(fd, ask->bytes.at, ask->bytes.len) == 0 && fstat(fd, st) == 0;
}

bool file_write(const struct fileop_request *ask, struct fileop_reply *reply)
{
	struct stat st;
	bool done;

	if (now.open) {
		reply->why = FILEOP_OUT_OF_TURN;
		return false;
	}
	done = find_target(ask, reply);
	if (done) {
		done = temp_name() && fd_write_all(now.fd, ask->bytes.at, ask->bytes.len) == 0 &&
		       write_attributes(&st) && write_take_place(&st);
		if (!done && now.exists && (errno == EACCES || errno == EBUSY)) {
			file_undo();
			done = write_in_place(ask, &st);
		}
	}
	write_close_all();
	if (done) {
		path_resolve_stat(&st, &reply->stat);
		reply->stat.size = ask->bytes.len;
	}
	return done;
}

bool file_begin(const struct fileop_request *ask, struct fileop_reply *reply)
{
	if (now.open) {
		reply->why = FILEOP_OUT_OF_TURN;
		return false;
	}
	if (!find_target(ask, reply)) {
		write_close_all();
		return false;
	}
	now.fd = openat(now.at.dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, now.mode & 0777);
	if (now.fd < 0 && !temp_name()) {
		write_close_all();
		return false;
	}
	now.open = true;
	reply_opened(now.fd);
	return true;
}

bool file_commit(const struct fileop_request *ask, struct fileop_reply *reply)
{
	struct stat st;
	bool done;

	(void)ask;
	if (!now.open) {
		reply->why = FILEOP_OUT_OF_TURN;
		return false;
	}
	done = write_attributes(&st) && temp_name() && write_take_place(&st);
	write_close_all();
	if (done)
		path_resolve_stat(&st, &reply->stat);
	return done;
}

bool file_abort(const struct fileop_request *ask, struct fileop_reply *reply)
{
	(void)ask;
	(void)reply;
	write_close_all();
	return true;
}
