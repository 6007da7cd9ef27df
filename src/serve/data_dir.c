// Data and run directory: made at the first start, checked at each. The files are listed in
// data_dir.h.
//
// The daemon's user is `cove` for the default data directory. For any other, and on a host without
// that user, it is a number of the range that systemd reserves for dynamic users, derived from the
// directory's inode: two daemons of one uid could signal and trace each other. A directory keeps
// the user that owns its daemon/.
#include "serve/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/path.h"

#define UID_FIRST 61184
#define UID_LAST 65519
#define LOCK_WAIT_MS 5000
#define LOCK_STEP_US 20000
#define LOCK_ROOM 48
#define KEY_PREFIX "cove_"
#define KEY_BYTES 32
#define KEY_LEAST 32

// Makes one directory, and syncs its parent.
static fallible make_dir(const char *path, mode_t mode)
{
	const char *slash = strrchr(path, '/');
	auto_free char *above = slash ? mem_dup(path, (size_t)(slash - path)) : mem_str(".");

	if (mkdir(path, mode))
		return errno == EEXIST ? OK : err_sys(errno, "make %s", path);
	auto_fd dir = open(*above ? above : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 ? err_sys(errno, "open %s", above) : path_sync(dir);
}

// Makes every missing directory of an absolute or relative path, as `mkdir -p` does.
static fallible make_path(const char *path)
{
	auto_free char *copy = mem_str(path);

	for (char *at = copy + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		TRY(make_dir(copy, 0755));
		*at = '/';
	}
	return make_dir(copy, 0711);
}

static fallible data_dir_open_dir(const char *path, int *out)
{
	struct stat st;

	TRY(make_path(path));
	auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st))
		return err_sys(errno, "open %s", path);
	if (st.st_uid != 0)
		return err_hint(err_new(FORBIDDEN, "not_ours", "%s belongs to another user", path),
				"give it to root, or name another directory");
	if (fchmod(fd, 0711))
		return err_sys(errno, "set the mode of %s", path);
	*out = take_fd(&fd);
	return OK;
}

// A directory in `dir` that belongs to uid:gid with exactly `mode`.
static fallible own_dir(int dir, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	auto_fd fd = -1;
	struct stat st;

	TRY(path_dir(dir, name, mode, &fd), "make the directory %s", name);
	// Do not change what is already right: a read-only file system would refuse.
	if (!fstat(fd, &st) && st.st_uid == uid && st.st_gid == gid && (st.st_mode & 07777) == mode)
		return OK;
	if (fchown(fd, uid, gid) || fchmod(fd, mode))
		return err_sys(errno, "own the directory %s", name);
	return OK;
}

static bool holder_lives(int lock, int *out_pid)
{
	char text[LOCK_ROOM] = "";

	if (pread(lock, text, sizeof(text) - 1, 0) <= 0)
		return false;
	*out_pid = (int)strtol(text, NULL, 10);
	return *out_pid > 0 && (!kill(*out_pid, 0) || errno == EPERM);
}

// Children of a killed supervisor hold the lock until they exit: wait for those. A live supervisor
// is an error.
static fallible take_lock(int data, int *out)
{
	int flags = (weak(LOCK_READONLY) ? O_RDWR : O_RDONLY) | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
	auto_fd lock = openat(data, "lock", flags, 0600);
	int64_t deadline = clock_ms() + LOCK_WAIT_MS;
	int pid = 0;

	if (lock < 0)
		return err_sys(errno, "open the lock");
	while (!weak(LOCK) && flock(lock, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			return err_sys(errno, "lock the data directory");
		if (holder_lives(lock, &pid) || clock_ms() > deadline)
			return err_hint(err_new(CONFLICT, "data_taken",
						"another cove (pid %d) holds this data directory",
						pid),
					"stop it, or name another directory with --data");
		usleep(LOCK_STEP_US);
	}
	*out = take_fd(&lock);
	return OK;
}

// One write of a fixed length: a concurrent reader sees the old text or the new.
void data_dir_set_state(const struct data_dir *data_dir, unsigned generation, const char *word)
{
	char text[LOCK_ROOM + 1];

	snprintf(text, sizeof(text), "%-*s", LOCK_ROOM, "");
	text[snprintf(text, sizeof(text), "%d %u %s", (int)getpid(), generation, word)] = ' ';
	text[LOCK_ROOM - 1] = '\n';
	if (pwrite(data_dir->state, text, LOCK_ROOM, 0) != LOCK_ROOM ||
	    ftruncate(data_dir->state, LOCK_ROOM))
		log_event(LOG_WARN, "serve.untold", "word", word, NULL);
}

static void find_user(const struct config *config, int data, uid_t *uid, gid_t *gid)
{
	const struct passwd *user = getpwnam("cove");
	struct stat st = {0};
	uint64_t number;

	if (!fstatat(data, "daemon", &st, AT_SYMLINK_NOFOLLOW) &&
	    ((user && st.st_uid == user->pw_uid) ||
	     (st.st_uid >= UID_FIRST && st.st_uid <= UID_LAST))) {
		*uid = st.st_uid;
		*gid = st.st_gid;
		return;
	}
	if (user && !strcmp(config->data, CONFIG_DATA)) {
		*uid = user->pw_uid;
		*gid = user->pw_gid;
		return;
	}
	fstat(data, &st);
	number = (uint64_t)st.st_dev * 31 + st.st_ino;
	for (int tries = 0; tries <= UID_LAST - UID_FIRST; tries++, number++) {
		*uid = (uid_t)(UID_FIRST + number % (UID_LAST - UID_FIRST + 1));
		*gid = *uid;
		if (!getpwuid(*uid))
			return;
	}
}

static fallible data_dir_make_key(int data)
{
	char text[sizeof(KEY_PREFIX) + 2 * KEY_BYTES + 1] = KEY_PREFIX;
	struct err *err;

	secret_hex(text + strlen(KEY_PREFIX), KEY_BYTES);
	text[sizeof(text) - 2] = '\n';
	text[sizeof(text) - 1] = '\0';
	err = path_write_sync(data, "operator.key", 0600, str_of(text));
	secret_wipe(text, sizeof(text));
	return err;
}

// -1: no file. 0: empty or all zeros, as an older version left it after a power cut.
static ssize_t key_text(int data, char *room, size_t size)
{
	ssize_t len = fd_get(data, "operator.key", room, size);

	while (len > 0 && (!room[len - 1] || strchr(" \t\r\n", room[len - 1])))
		len--;
	return len;
}

// A key that is too short is an operator's mistake, and is not overwritten.
static fallible data_dir_read_key(int data, uint8_t hash[SECRET_HASH])
{
	char text[512];
	ssize_t len = key_text(data, text, sizeof(text));

	if (len < 0 && errno != ENOENT)
		return err_sys(errno, "read the operator's key");
	if (len == 0)
		log_event(LOG_WARN, "key.made_anew", "file", "operator.key", "message",
			  "the file was empty; clients need the new key", NULL);
	if (len <= 0) {
		TRY(data_dir_make_key(data), "make the operator's key");
		len = key_text(data, text, sizeof(text));
	}
	if (len < KEY_LEAST)
		return err_hint(err_new(INVALID, "bad_key", "operator.key holds no key"),
				"remove the file, and a new one is made at the next start");
	if (fchmodat(data, "operator.key", 0600, 0))
		return err_sys(errno, "set the mode of operator.key");
	secret_sha256(text, (size_t)len, hash);
	secret_wipe(text, sizeof(text));
	return OK;
}

static fallible data_dir_set_up(const struct config *config, struct data_dir *data_dir)
{
	auto_fd run = -1, daemon = -1;

	TRY(data_dir_open_dir(config->run, &run));
	TRY(own_dir(run, "box", 0700, data_dir->uid, data_dir->gid));
	TRY(own_dir(data_dir->data, "boxes", 0700, 0, 0));
	TRY(own_dir(data_dir->data, "layers", 0700, 0, 0));
	TRY(own_dir(data_dir->data, "daemon", 0700, data_dir->uid, data_dir->gid));
	TRY(path_dir(data_dir->data, "daemon", 0700, &daemon));
	TRY(own_dir(daemon, "tapes", 0700, data_dir->uid, data_dir->gid));
	TRY(path_sync(daemon));
	TRY(path_sync(data_dir->data));
	return data_dir_read_key(data_dir->data, data_dir->key_hash);
}

fallible data_dir_open(const struct config *config, struct data_dir *out)
{
	return data_dir_open_again(config, -1, out);
}

static void data_dir_close(struct data_dir *data_dir)
{
	fd_drop(&data_dir->data);
	fd_drop(&data_dir->lock);
	fd_drop(&data_dir->state);
}

fallible data_dir_open_again(const struct config *config, int lock, struct data_dir *out)
{
	struct data_dir data_dir = {.data = -1, .lock = lock, .state = -1};
	struct err *err = OK;

	TRY(data_dir_open_dir(config->data, &data_dir.data));
	if (lock < 0)
		err = take_lock(data_dir.data, &data_dir.lock);
	if (!err) {
		data_dir.state = openat(data_dir.data, "lock", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
		if (data_dir.state < 0)
			err = err_sys(errno, "open the lock's words");
	}
	if (!err) {
		find_user(config, data_dir.data, &data_dir.uid, &data_dir.gid);
		kill_point("supervisor.locked", NULL);
		err = data_dir_set_up(config, &data_dir);
		kill_point("supervisor.data_dir_ready", NULL);
	}
	if (err) {
		data_dir_close(&data_dir);
		return err;
	}
	*out = data_dir;
	return OK;
}

fallible data_dir_publish(const struct data_dir *data_dir, const char *url, const char *socket)
{
	auto_free char *line = mem_fmt("%s\n", url), *path = mem_fmt("%s\n", socket);

	if (*socket)
		TRY(path_write_sync(data_dir->data, "socket", 0644, str_of(path)));
	else if (unlinkat(data_dir->data, "socket", 0) && errno != ENOENT)
		return err_sys(errno, "remove the file socket");
	TRY(path_write_sync(data_dir->data, "url", 0644, str_of(line)));
	kill_point("supervisor.url_written", NULL);
	return OK;
}

void data_dir_withdraw(const struct data_dir *data_dir)
{
	unlinkat(data_dir->data, "url", 0);
	unlinkat(data_dir->data, "socket", 0);
}
