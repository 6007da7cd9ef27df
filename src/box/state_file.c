// A state file is a small file in a box's folder, written to a temporary name and renamed, so that
// a complete one always exists. A failed write is logged; a file that is not regular, or too large,
// counts as absent.
//
// syscalls: openat mkdirat write renameat renameat2 unlinkat read fstat newfstatat close
#include "box/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/tape_sync.h"
#include "loop/offload.h"
#include "os/fd.h"

#define STATE_FILE_MAX (8u << 20)

static char *name_of(const struct box *box, char letter, uint32_t number)
{
	return mem_fmt("%s/%c%u", box->id, letter, number);
}

struct removal {
	int dir;
	char *name;
};

static void remove_run(void *arg)
{
	struct removal *removal = arg;

	unlinkat(removal->dir, removal->name, 0);
}

void state_file_erase_file(struct box *box, char letter, uint32_t number)
{
	struct removal removal = {box->tapes_dir, name_of(box, letter, number)};

	offload_run(remove_run, &removal);
	free(removal.name);
}

struct state_file_job {
	int dir;
	const char *folder, *name, *written;
	char *bytes; // read
	size_t len;
	int errnum;
};

static void state_file_write_run(void *arg)
{
	struct state_file_job *job = arg;
	auto_free char *beside = mem_fmt("%s~", job->name);
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(job->dir, beside, flags, 0600);

	if (fd < 0 && errno == ENOENT) {
		mkdirat(job->dir, job->folder, 0700);
		fd = openat(job->dir, beside, flags, 0600);
	}
	if (fd < 0 || fd_write_all(fd, job->written, job->len) < 0)
		job->errnum = errno;
	kill_point("daemon.state_file_written", NULL);
	if (!job->errnum && renameat(job->dir, beside, job->dir, job->name) < 0)
		job->errnum = errno;
	tape_sync_touch();
	kill_point("daemon.state_file_renamed", NULL);
	if (fd >= 0)
		close(fd);
}

void state_file_write_file(struct box *box, char letter, uint32_t number, const char *bytes,
			   size_t len)
{
	auto_free char *name = name_of(box, letter, number);
	struct state_file_job job = {
		.dir = box->tapes_dir,
		.folder = box->id,
		.name = name,
		.written = bytes,
		.len = len,
	};

	box->has_folder = true;
	if (len)
		offload_run(state_file_write_run, &job);
	if (job.errnum)
		log_event(LOG_WARN, "session.state_file", "sandbox", box->id, "error",
			  strerror(job.errnum), NULL);
}

static void state_file_read_run(void *arg)
{
	struct state_file_job *job = arg;
	int fd = openat(job->dir, job->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n = 0;

	if (fd < 0) {
		job->errnum = errno == ENOENT || errno == ELOOP ? 0 : errno;
		return;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= STATE_FILE_MAX) {
		job->bytes = mem_new((size_t)st.st_size + 1);
		n = fd_read_all(fd, job->bytes, (size_t)st.st_size);
	}
	if (n < 0)
		job->errnum = errno;
	job->len = n > 0 ? (size_t)n : 0;
	close(fd);
}

fallible state_file_read_file(struct box *box, char letter, uint32_t number, char **out,
			      size_t *out_len)
{
	auto_free char *name = name_of(box, letter, number);
	struct state_file_job job = {.dir = box->tapes_dir, .name = name};

	offload_run(state_file_read_run, &job);
	if (job.errnum) {
		free(job.bytes);
		return job.errnum == EMFILE || job.errnum == ENFILE
			       ? ask_no_files()
			       : err_sys(job.errnum, "read %s", name);
	}
	*out_len = job.len;
	*out = job.bytes;
	return OK;
}
