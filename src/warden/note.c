// A text of a fixed size, so that one write replaces one note by another: the kernel takes so few
// bytes whole or not at all, whoever is killed meanwhile. What a power cut makes of it does not
// matter, for then its boot is over.
//
// syscalls: openat read pwrite64 close unlinkat
#include "warden/note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/path.h"

#define NOTE_SIZE 640
#define NOTE_WORD "cove-cell"
#define NOTE_VERSION 1
#define KILLED_WORDS (TALK_LEAVES_MAX / 64)
#define STAT_STARTED 20 // the field of /proc/PID/stat, counted from the one behind the name

fallible note_open_dir(int run, int *out_dir)
{
	return path_dir(run, "cells", 0700, out_dir);
}

static void print(const struct note *note, char text[NOTE_SIZE + 1])
{
	int len = snprintf(text, NOTE_SIZE + 1,
			   NOTE_WORD " %d\nboot %s\nslot %u\nephemeral %d\nagain %d\ndisk %llu\n"
				     "inodes %llu\nborn %lld\npid %d\nstarted %llu\nnetns %llu\n"
				     "killed",
			   NOTE_VERSION, note->boot, note->slot, note->ephemeral, note->again,
			   (unsigned long long)note->disk, (unsigned long long)note->inodes,
			   (long long)note->born_us, note->pid, (unsigned long long)note->started,
			   (unsigned long long)note->netns);

	for (int i = 0; i < KILLED_WORDS; i++)
		len += snprintf(text + len, (size_t)(NOTE_SIZE + 1 - len), " %llu",
				(unsigned long long)note->killed[i]);
	len += snprintf(text + len, (size_t)(NOTE_SIZE + 1 - len), "\nend\n");
	memset(text + len, '\n', (size_t)(NOTE_SIZE - len));
}

// The longest a note can be: every number with all its digits.
_Static_assert(sizeof(NOTE_WORD) + 12 + NOTE_BOOT + 117 + 9 * 21 + KILLED_WORDS * 21 <= NOTE_SIZE,
	       "every note fits");

fallible note_write(int dir, const char *box, const struct note *note)
{
	auto_fd fd = openat(dir, box, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	char text[NOTE_SIZE + 1];

	if (fd < 0)
		return err_sys(errno, "open the note of %s", box);
	print(note, text);
	if (pwrite(fd, text, NOTE_SIZE, 0) != NOTE_SIZE)
		return err_sys(errno, "write the note of %s", box);
	kill_point("warden.note_written", NULL);
	return OK;
}

static bool note_take_words(struct str words, uint64_t *out, int count)
{
	struct str word;

	for (int i = 0; i < count; i++)
		if (!str_cut(&words, ' ', &word) || !str_to_u64(word, 0, UINT64_MAX, &out[i]))
			return false;
	return true;
}

// One line of "key value". False: it is malformed.
static bool note_take_line(struct str line, struct note *note)
{
	struct str key;
	uint64_t number = 0;

	if (!str_cut(&line, ' ', &key))
		return false;
	if (str_is(key, "boot")) {
		if (!line.len || line.len >= NOTE_BOOT)
			return false;
		memcpy(note->boot, line.at, line.len);
		return true;
	}
	if (str_is(key, "killed"))
		return note_take_words(line, note->killed, KILLED_WORDS);
	if (!str_to_u64(line, 0, INT64_MAX, &number))
		return false;
	if (str_is(key, "slot"))
		note->slot = (uint32_t)number;
	else if (str_is(key, "ephemeral"))
		note->ephemeral = number;
	else if (str_is(key, "again"))
		note->again = number;
	else if (str_is(key, "disk"))
		note->disk = number;
	else if (str_is(key, "inodes"))
		note->inodes = number;
	else if (str_is(key, "born"))
		note->born_us = (int64_t)number;
	else if (str_is(key, "pid"))
		note->pid = (int)number;
	else if (str_is(key, "started"))
		note->started = number;
	else if (str_is(key, "netns"))
		note->netns = number;
	return true;
}

enum note_state note_read(int dir, const char *box, struct note *out)
{
	char text[NOTE_SIZE + 1];
	auto_fd fd = openat(dir, box, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct note note = {0};
	struct str rest, line, word;
	uint64_t version;
	ssize_t len;

	if (fd < 0)
		return errno == ENOENT ? NOTE_ABSENT : errno == ELOOP ? NOTE_BAD : NOTE_UNREAD;
	len = fd_read_all(fd, text, NOTE_SIZE);
	if (len < 0)
		return NOTE_UNREAD;
	rest = (struct str){text, len > 0 ? (size_t)len : 0};
	if (!str_cut(&rest, '\n', &line) || !str_cut(&line, ' ', &word) ||
	    !str_is(word, NOTE_WORD) || !str_to_u64(line, 1, UINT32_MAX, &version))
		return NOTE_BAD;
	if (version > NOTE_VERSION)
		return NOTE_TOO_NEW;
	while (str_cut(&rest, '\n', &line)) {
		if (str_is(line, "end")) {
			*out = note;
			return note.boot[0] ? NOTE_GOOD : NOTE_BAD;
		}
		if (!note_take_line(line, &note))
			return NOTE_BAD;
	}
	return NOTE_BAD;
}

void note_drop(int dir, const char *box)
{
	unlinkat(dir, box, 0);
	kill_point("warden.note_removed", NULL);
}

fallible note_boot(char out[NOTE_BOOT])
{
	ssize_t len = fd_get(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, NOTE_BOOT);

	if (len <= 0)
		return err_sys(errno, "read the name of this boot");
	out[strcspn(out, "\n")] = 0;
	return OK;
}

uint64_t note_started(int pid)
{
	char path[32], text[1024];
	const char *at;
	struct str rest, word;
	uint64_t ticks = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	at = strrchr(text, ')'); // the name may hold anything
	if (!at)
		return 0;
	rest = str_of(at + 1);
	for (int i = 0; i <= STAT_STARTED; i++)
		if (!str_cut(&rest, ' ', &word))
			return 0;
	return str_to_u64(word, 0, UINT64_MAX, &ticks) ? ticks : 0;
}
