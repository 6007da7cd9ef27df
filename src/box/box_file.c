// Names, removes, writes and reads files of a box's folder. A file that is not regular, or too
// large, counts as absent.
//
// syscalls: openat mkdirat write renameat renameat2 unlinkat read fstat newfstatat close
#include "box/box_file.h"

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

#define BOX_FILE_MAX (8u << 20)

char *box_file_name(const struct box *box, char letter, uint32_t number)
{
	return mem_fmt("%s/%.*s%u", box->id, letter != 0, &letter, number);
}

struct box_file_removal {
	int dir;
	char *name;
};

static void box_file_remove_run(void *arg)
{
	struct box_file_removal *removal = arg;

	unlinkat(removal->dir, removal->name, 0);
}

static void box_file_remove_task(void *arg)
{
	struct box_file_removal *removal = arg;

	offload_run(box_file_remove_run, removal);
	free(removal->name);
	free(removal);
}

static struct box_file_removal *box_file_removal_new(struct box *box, char letter, uint32_t number)
{
	struct box_file_removal *removal = mem_new_of(struct box_file_removal);

	*removal = (struct box_file_removal){box->tapes_dir, box_file_name(box, letter, number)};
	return removal;
}

void box_file_remove(struct box *box, char letter, uint32_t number)
{
	box_file_remove_task(box_file_removal_new(box, letter, number));
}

void box_file_remove_later(struct box *box, char letter, uint32_t number)
{
	task_start(box->loop, "box.file", box_file_remove_task,
		   box_file_removal_new(box, letter, number));
}

struct box_file_job {
	int dir;
	const char *folder, *name, *written;
	char *bytes; // read
	size_t len;
	int errnum;
};

static void box_file_write_run(void *arg)
{
	struct box_file_job *job = arg;
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

void box_file_write(struct box *box, char letter, uint32_t number, const char *bytes, size_t len)
{
	auto_free char *name = box_file_name(box, letter, number);
	struct box_file_job job = {
		.dir = box->tapes_dir,
		.folder = box->id,
		.name = name,
		.written = bytes,
		.len = len,
	};

	box->has_folder = true;
	if (len)
		offload_run(box_file_write_run, &job);
	if (job.errnum)
		log_event(LOG_WARN, "session.state_file", "sandbox", box->id, "error",
			  strerror(job.errnum), NULL);
}

static void box_file_read_run(void *arg)
{
	struct box_file_job *job = arg;
	int fd = openat(job->dir, job->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n = 0;

	if (fd < 0) {
		job->errnum = errno == ENOENT || errno == ELOOP ? 0 : errno;
		return;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= BOX_FILE_MAX) {
		job->bytes = mem_new((size_t)st.st_size + 1);
		n = fd_read_all(fd, job->bytes, (size_t)st.st_size);
	}
	if (n < 0)
		job->errnum = errno;
	job->len = n > 0 ? (size_t)n : 0;
	close(fd);
}

fallible box_file_read(struct box *box, char letter, uint32_t number, char **out, size_t *out_len)
{
	auto_free char *name = box_file_name(box, letter, number);
	struct box_file_job job = {.dir = box->tapes_dir, .name = name};

	offload_run(box_file_read_run, &job);
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
