// Reads and writes the state file of a box. Its text has a fixed size, so that one write replaces
// it whole: the kernel does not tear so small a write, even if the writer is killed. A power cut
// may tear it, but then the boot id in it is stale anyway.
//
// Binds the socket of a box's pid 1 as well. Only the daemon's user can search RUN/box, so the
// sockets need no owner. Nothing in it is chowned by name: the daemon could have replaced it.
//
// syscalls: openat read pwrite64 close unlinkat socket bind listen umask fchdir
#include "warden/box_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/path.h"

#define CALLERS 8 // pending connections: one daemon, and those that gave up
#define BOX_STATE_SIZE 640
#define BOX_STATE_WORD "cove-cell"
#define BOX_STATE_VERSION 1
#define KILLED_WORDS (TALK_CGROUPS_MAX / 64)

fallible box_state_open_dir(int run, int *out_dir)
{
	return path_dir(run, "cells", 0700, out_dir);
}

// The numbers of a state file, in the order of their lines.
#define BOX_STATE_NUMBERS(F)                                                                       \
	F("slot", slot)                                                                            \
	F("ephemeral", ephemeral)                                                                  \
	F("again", again)                                                                          \
	F("disk", disk)                                                                            \
	F("inodes", inodes)                                                                        \
	F("born", born_us)                                                                         \
	F("pid", pid)                                                                              \
	F("started", started)                                                                      \
	F("netns", netns)

static void print(const struct box_state *state_file, char text[BOX_STATE_SIZE + 1])
{
	int len = snprintf(text, BOX_STATE_SIZE + 1, BOX_STATE_WORD " %d\nboot %s\n",
			   BOX_STATE_VERSION, state_file->boot);

#define F(key, field)                                                                              \
	len += snprintf(text + len, (size_t)(BOX_STATE_SIZE + 1 - len), key " %llu\n",             \
			(unsigned long long)state_file->field);
	BOX_STATE_NUMBERS(F)
#undef F
	len += snprintf(text + len, (size_t)(BOX_STATE_SIZE + 1 - len), "killed");
	for (int i = 0; i < KILLED_WORDS; i++)
		len += snprintf(text + len, (size_t)(BOX_STATE_SIZE + 1 - len), " %llu",
				(unsigned long long)state_file->killed[i]);
	len += snprintf(text + len, (size_t)(BOX_STATE_SIZE + 1 - len), "\nend\n");
	memset(text + len, '\n', (size_t)(BOX_STATE_SIZE - len));
}

// The longest state file: every number with all its digits.
_Static_assert(sizeof(BOX_STATE_WORD) + 12 + BOX_STATE_BOOT + 117 + 9 * 21 + KILLED_WORDS * 21 <=
		       BOX_STATE_SIZE,
	       "every state file fits");

fallible box_state_write(int dir, const char *box, const struct box_state *state_file)
{
	auto_fd fd = openat(dir, box, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	char text[BOX_STATE_SIZE + 1];

	if (fd < 0)
		return err_sys(errno, "open the note of %s", box);
	print(state_file, text);
	if (pwrite(fd, text, BOX_STATE_SIZE, 0) != BOX_STATE_SIZE)
		return err_sys(errno, "write the note of %s", box);
	kill_point("warden.box_state_written", NULL);
	return OK;
}

static bool box_state_take_words(struct str words, uint64_t *out, int count)
{
	struct str word;

	for (int i = 0; i < count; i++)
		if (!str_cut(&words, ' ', &word) || !str_to_u64(word, 0, UINT64_MAX, &out[i]))
			return false;
	return true;
}

// One line of "key value". False: malformed.
static bool box_state_take_line(struct str line, struct box_state *state_file)
{
	struct str key;
	uint64_t number = 0;

	if (!str_cut(&line, ' ', &key))
		return false;
	if (str_is(key, "boot")) {
		if (!line.len || line.len >= BOX_STATE_BOOT)
			return false;
		memcpy(state_file->boot, line.at, line.len);
		return true;
	}
	if (str_is(key, "killed"))
		return box_state_take_words(line, state_file->killed, KILLED_WORDS);
	if (!str_to_u64(line, 0, INT64_MAX, &number))
		return false;
#define F(name, field)                                                                             \
	if (str_is(key, name))                                                                     \
		state_file->field = (__typeof__(state_file->field))number;
	BOX_STATE_NUMBERS(F)
#undef F
	return true;
}

enum box_state_state box_state_read(int dir, const char *box, struct box_state *out)
{
	char text[BOX_STATE_SIZE + 1];
	auto_fd fd = openat(dir, box, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct box_state state_file = {0};
	struct str rest, line, word;
	uint64_t version;
	ssize_t len;

	if (fd < 0)
		return errno == ENOENT	? BOX_STATE_ABSENT
		       : errno == ELOOP ? BOX_STATE_BAD
					: BOX_STATE_UNREAD;
	len = fd_read_all(fd, text, BOX_STATE_SIZE);
	if (len < 0)
		return BOX_STATE_UNREAD;
	rest = (struct str){text, len > 0 ? (size_t)len : 0};
	if (!str_cut(&rest, '\n', &line) || !str_cut(&line, ' ', &word) ||
	    !str_is(word, BOX_STATE_WORD) || !str_to_u64(line, 1, UINT32_MAX, &version))
		return BOX_STATE_BAD;
	if (version > BOX_STATE_VERSION)
		return BOX_STATE_TOO_NEW;
	while (str_cut(&rest, '\n', &line)) {
		if (str_is(line, "end")) {
			*out = state_file;
			return state_file.boot[0] ? BOX_STATE_GOOD : BOX_STATE_BAD;
		}
		if (!box_state_take_line(line, &state_file))
			return BOX_STATE_BAD;
	}
	return BOX_STATE_BAD;
}

void box_state_drop(int dir, const char *box)
{
	unlinkat(dir, box, 0);
	kill_point("warden.box_state_removed", NULL);
}

fallible box_state_boot(char out[BOX_STATE_BOOT])
{
	ssize_t len = fd_get(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, BOX_STATE_BOOT);

	if (len <= 0)
		return err_sys(errno, "read the boot id");
	out[strcspn(out, "\n")] = 0;
	return OK;
}

fallible box_listener_open_dir(int run, uid_t uid, gid_t gid, int *out_dir)
{
	auto_fd dir = -1;

	TRY(path_dir(run, "box", 0700, &dir));
	if (fchown(dir, uid, gid) || fchmod(dir, 0700))
		return err_sys(errno, "give RUN/box to the daemon");
	*out_dir = take_fd(&dir);
	return OK;
}

fallible box_listener_make(int dir, const char *box, int *out_fd)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	mode_t mask;
	int result;

	if (fd < 0)
		return err_sys(errno, "make the socket of %s", box);
	// Bind by a relative name: a run directory may be longer than sun_path, and must be the one
	// that was opened. All other paths in the warden are absolute, or relative to fds.
	if (fchdir(dir))
		return err_sys(errno, "go to the sockets of boxes");
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", box);
	mask = umask(0111);
	result = bind(fd, (struct sockaddr *)&name, sizeof(name));
	if (result && errno == EADDRINUSE && unlinkat(dir, box, 0) == 0)
		result = bind(fd, (struct sockaddr *)&name, sizeof(name));
	umask(mask);
	if (result)
		return err_sys(errno, "bind the socket of %s", box);
	if (listen(fd, CALLERS)) {
		struct err *err = err_sys(errno, "listen on the socket of %s", box);

		unlinkat(dir, box, 0);
		return err;
	}
	*out_fd = take_fd(&fd);
	return OK;
}

void box_listener_drop(int dir, const char *box)
{
	unlinkat(dir, box, 0);
}
