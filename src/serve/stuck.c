// Detects a killed daemon that cannot exit because a thread is blocked in a call on a box's file
// system. The supervisor polls /proc, finds the kind of call, and signals the warden, which reads
// the shared page and ends the box.
#include "serve/stuck.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "os/fd.h"
#include "os/thread.h"
#include "protocol/blocked_call.h"

#define CLOSE_LOOKS 5 // the close of a large file takes a while, too

fallible stuck_open(struct stuck *hung, int last)
{
	struct stat st;

	hung->page = last;
	if (last && !fstat(last, &st) && st.st_size == sizeof(struct blocked_calls))
		return OK;
	hung->unheld = true;
	hung->page = memfd_create("holds", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (hung->page < 0 || ftruncate(hung->page, sizeof(struct blocked_calls)) ||
	    fcntl(hung->page, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_sys(errno, "make a page for who holds the daemon up");
	return OK;
}

int stuck_page(const struct stuck *hung, const struct child *warden)
{
	return hung->unheld && warden->old ? 0 : hung->page;
}

// True if its first thread is a zombie while others live, is exiting, or has SIGKILL pending.
static bool is_dying(pid_t pid)
{
	char path[32], text[2048];
	struct thread_look first;
	const char *pending;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (!thread_look(path, &first))
		return false;
	if (first.state == THREAD_DEAD || first.exits)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	pending = strstr(text, "\nSigPnd:\t");
	return pending && strtoull(pending + 9, NULL, 16) >> (SIGKILL - 1) & 1;
}

// The kind of call that unkillable threads are in; 0: none.
static enum blocked_call_where where(pid_t pid)
{
	enum blocked_call_where found = 0;
	const struct dirent *entry;
	struct thread_look thread;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && found != BLOCKED_CALL_IN_CALL && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.12s/stat", (int)pid, entry->d_name);
		if (thread_look(path, &thread) && thread.state == THREAD_UNWAKEABLE)
			found = thread.exits ? BLOCKED_CALL_IN_CLOSE : BLOCKED_CALL_IN_CALL;
	}
	if (dir)
		closedir(dir);
	return found;
}

void stuck_look(struct stuck *hung, const struct child *daemon, const struct child *warden)
{
	int64_t now = clock_ms();
	enum blocked_call_where found;

	if (!daemon->pid || now < hung->look_at_ms)
		return;
	hung->look_at_ms = now + STUCK_LOOK_MS;
	if (hung->pid != daemon->pid || !is_dying(daemon->pid)) {
		hung->pid = daemon->pid;
		hung->told = false;
		hung->looks = 0;
		return;
	}
	found = where(daemon->pid);
	if (!found || hung->looks++ < (found == BLOCKED_CALL_IN_CALL ? 1 : CLOSE_LOOKS) ||
	    !warden->pid || (warden->old && hung->unheld))
		return;
	if (!hung->told)
		log_event(LOG_WARN, "serve.child_held", "role", daemon->role, NULL);
	hung->told = true;
	sigqueue(warden->pid, SIGUSR1, (union sigval){.sival_int = found});
}
