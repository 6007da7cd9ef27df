// A file is replaced whole or not at all: the new one is written under a name of its own in the
// same directory, or under none, and takes the old one's place by a rename. It keeps the old one's
// mode and, if it may, its owner. Whoever could not have written to the old file may not replace
// it either, though the directory would let him.
//
// Two things would take as long as half of writing a large file, and nobody waits for them: to free
// the old one, which the kernel does when its last name and fd go, and to begin writing the new one
// to the disk, which btrfs does when a name goes over from one file to another. So the two are
// exchanged, the old one goes under the other name, and a child sees to both when the answer is on
// its way. The next file is not begun before the old one is gone, so that no more than one of them
// takes up space unseen.
//
// Where the directory lets nobody in, or the file is a mount point, a small file is written in
// place, as any program of the box would.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/file.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "os/fd.h"

#define NEW_MODE 0644
#define TRIES 8
#define LARGE (4 << 20)
#define PARTING_MS 1

// What is being written. One at a time.
static struct {
	volatile bool named; // `temp` is there
	bool open;	     // between BEGIN and its end
	struct path_resolve site;
	char temp[NAME_MAX + 1];
	int fd;
	bool exists;
	struct stat old;
	uint32_t flags;
	mode_t mode;
} now = {.fd = -1, .site = {.dir = -1}};

void file_undo(void)
{
	if (now.named)
		unlinkat(now.site.dir, now.temp, 0);
	now.named = false;
}

static void let_all_go(void)
{
	int kept = errno;

	file_undo();
	fd_drop(&now.fd);
	path_resolve_done(&now.site);
	now.open = false;
	errno = kept;
}

// What is there now, and whether it may be replaced.
static bool meet_old(const struct fileop_request *ask, struct fileop_reply *reply)
{
	now.exists = fstatat(now.site.dir, now.site.name, &now.old, AT_SYMLINK_NOFOLLOW) == 0;
	now.flags = ask->flags;
	now.mode = ask->mode == FILEOP_KEEP_MODE ? NEW_MODE : (mode_t)ask->mode;
	if (!now.exists)
		return errno == ENOENT;
	if (!file_must_be_regular(now.old.st_mode, reply))
		return false;
	if (ask->flags & FILEOP_EXCLUSIVE) {
		errno = EEXIST;
		return false;
	}
	if (ask->mode == FILEOP_KEEP_MODE)
		now.mode = now.old.st_mode & 07777;
	return geteuid() == 0 || syscall(SYS_faccessat2, now.site.dir, now.site.name, W_OK,
					 AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}

static int undertaker = -1; // ends when the old file is gone

static void await_undertaker(void)
{
	char none;

	if (undertaker >= 0)
		while (read(undertaker, &none, 1) < 0 && errno == EINTR)
			continue;
	fd_drop(&undertaker);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue; // one that has written the new one by now
}

static void be_undertaker(int old, int done)
{
	close(reply_sock());
	poll(NULL, 0, PARTING_MS); // until the other fds of the old one are closed
	close(old);
	close(done);
	fdatasync(now.fd);
	_exit(0);
}

// It has no name any more, and goes with the last fd.
static void write_destroy(int old)
{
	int done[2];

	if (pipe2(done, O_CLOEXEC) < 0)
		return;
	if (fork() == 0)
		be_undertaker(old, done[1]);
	close(done[1]);
	undertaker = done[0];
}

static bool find_target(const struct fileop_request *ask, struct fileop_reply *reply)
{
	await_undertaker();
	if (!path_resolve_find(ask->base, ask->path, ask->flags & FILEOP_PARENTS, true, &now.site))
		return false;
	if (!now.site.name[0]) {
		errno = EISDIR;
		return false;
	}
	return meet_old(ask, reply);
}

static bool make_named(void)
{
	for (int i = 0; i < TRIES; i++) {
		path_resolve_temp_name(now.temp, now.exists);
		now.fd = openat(now.site.dir, now.temp,
				O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				now.mode & 0777);
		if (now.fd >= 0) {
			now.named = true;
			return true;
		}
		if (errno != EEXIST)
			return false;
	}
	return false;
}

// Mode and owner, where they are not what they were born with.
static bool write_attributes(struct stat *st)
{
	if (fstat(now.fd, st) < 0)
		return false;
	if (now.exists && (st->st_uid != now.old.st_uid || st->st_gid != now.old.st_gid) &&
	    fchown(now.fd, now.old.st_uid, now.old.st_gid) == 0) {
		st->st_uid = now.old.st_uid;
		st->st_gid = now.old.st_gid;
		st->st_mode |= 1 << 16; // chown took bits: set them again
	}
	if ((st->st_mode & ~(mode_t)S_IFMT) != now.mode && fchmod(now.fd, now.mode) < 0)
		return false;
	st->st_mode = S_IFREG | now.mode;
	return true;
}

// Both in the layer that is written to: an exchange would copy one that is not.
static bool is_large(const struct stat *st)
{
	return now.exists && now.old.st_nlink == 1 && now.old.st_dev == st->st_dev &&
	       (uint64_t)now.old.st_blocks * 512 >= LARGE && !(now.flags & FILEOP_EXCLUSIVE);
}

static bool swap_names(void)
{
	return syscall(SYS_renameat2, now.site.dir, now.site.name, now.site.dir, now.temp,
		       RENAME_EXCHANGE) == 0;
}

static bool replace_large(void)
{
	int old = openat(now.site.dir, now.site.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	bool done = old >= 0 && swap_names();

	// Somebody may have put a directory there.
	if (done && unlinkat(now.site.dir, now.temp, 0) < 0) {
		swap_names();
		done = false;
	}
	if (done) {
		now.named = false;
		write_destroy(old);
	}
	fd_drop(&old);
	return done;
}

static bool write_take_place(const struct stat *st)
{
	unsigned flags = now.flags & FILEOP_EXCLUSIVE ? RENAME_NOREPLACE : 0;

	if (is_large(st) && replace_large())
		return true;
	if (syscall(SYS_renameat2, now.site.dir, now.temp, now.site.dir, now.site.name, flags) < 0)
		return false;
	now.named = false;
	return true;
}

static bool write_in_place(const struct fileop_request *ask, struct stat *st)
{
	int fd = openat(now.site.dir, now.site.name,
			O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool done = fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode) &&
		    ftruncate(fd, 0) == 0 && fd_write_all(fd, ask->bytes.at, ask->bytes.len) == 0 &&
		    fstat(fd, st) == 0;
	int kept = errno;

	if (fd >= 0)
		close(fd);
	errno = kept;
	return done;
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
		done = make_named() && fd_write_all(now.fd, ask->bytes.at, ask->bytes.len) == 0 &&
		       write_attributes(&st) && write_take_place(&st);
		if (!done && now.exists && (errno == EACCES || errno == EBUSY)) {
			file_undo();
			done = write_in_place(ask, &st);
		}
	}
	let_all_go();
	if (done) {
		path_resolve_stat(&st, &reply->stat);
		reply->stat.size = ask->bytes.len;
	}
	return done;
}

bool file_begin(const struct fileop_request *ask, struct fileop_reply *reply)
{
	struct fileop_reply opened = {.kind = FILEOP_OPENED};

	if (now.open) {
		reply->why = FILEOP_OUT_OF_TURN;
		return false;
	}
	if (!find_target(ask, reply)) {
		let_all_go();
		return false;
	}
	now.fd = openat(now.site.dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, now.mode & 0777);
	if (now.fd < 0 && !make_named()) {
		let_all_go();
		return false;
	}
	now.open = true;
	reply_answer(&opened, now.fd);
	return true;
}

// A file without a name gets one.
static bool give_name(void)
{
	char path[32];

	if (now.named)
		return true;
	path_resolve_of_fd(now.fd, path);
	for (int i = 0; i < TRIES; i++) {
		path_resolve_temp_name(now.temp, now.exists);
		if (linkat(AT_FDCWD, path, now.site.dir, now.temp, AT_SYMLINK_FOLLOW) == 0) {
			now.named = true;
			return true;
		}
		if (errno != EEXIST)
			return false;
	}
	return false;
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
	done = write_attributes(&st) && give_name() && write_take_place(&st);
	let_all_go();
	if (done)
		path_resolve_stat(&st, &reply->stat);
	return done;
}

bool file_abort(const struct fileop_request *ask, struct fileop_reply *reply)
{
	(void)ask;
	(void)reply;
	let_all_go();
	return true;
}
