// The provider `local`: no sandbox. The copy of the worktree is a directory of this host, and the
// command runs as the caller, with everything that the caller may do. It is for the time in which
// no other provider can be reached.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/provider_copy.h"
#include "cli/provider_run.h"
#include "os/fd.h"
#include "os/path.h"
#include "sync/apply.h"

#define OUTPUT_MAX (64u << 20)

static fallible provider_local_connect(struct sync_box *box, const struct call *call,
				       struct remote *remote)
{
	(void)box;
	(void)call;
	(void)remote;
	interrupt_arm(NULL);
	return OK;
}

// Opens the copy of a worktree that has one.
static fallible provider_local_at(struct sync_box *box, const char *id)
{
	TRY(provider_copy_store(box, id));
	box->id = mem_str(id);
	box->home = mem_fmt("%s/copy", box->store);
	box->copy = open(box->home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (box->copy < 0)
		return err_new(INVALID, "no_store", "cannot open '%s': %s", box->home,
			       strerror(errno));
	return apply_clean(box->copy);
}

// A limit that cannot be kept is refused.
static fallible provider_local_check(const struct cove_box_spec *make)
{
	if (make->from || make->image || make->memory_mb || make->pids || make->disk_mb ||
	    make->inodes || make->cpus > 0 || make->io_mbps || make->network ||
	    (make->allow && *make->allow) || (make->secrets && *make->secrets) ||
	    (make->volumes && *make->volumes))
		return err_new(INVALID, "not_offered",
			       "--provider local has no templates, limits, network policies, "
			       "secrets or volumes");
	return OK;
}

static fallible provider_local_open(struct sync_box *box, const struct provider_owner *owner,
				    const struct cove_box_spec *make)
{
	auto_free char *name = owner->given ? mem_str(owner->given)
					    : mem_fmt("wt-%.40s", owner->identity);
	auto_free char *base = NULL, *copy = NULL;
	struct stat st;

	if (strchr(name, '/') || *name == '.')
		return err_new(INVALID, "bad_value", "'%s' is no id of a copy", name);
	TRY(provider_copy_base(box->provider->name, &base));
	copy = mem_fmt("%s/%s/copy", base, name);
	if (!make && stat(copy, &st))
		return err_hint(
			err_new(NOT_FOUND, "no_sandbox", "'%s' has no sandbox", owner->worktree),
			"'cove sync in' makes one");
	if (make) {
		TRY(provider_local_check(make));
		TRY(provider_copy_store(box, name));
		if (mkdir(copy, 0755) && errno != EEXIST)
			return err_new(INVALID, "no_store", "cannot make '%s': %s", copy,
				       strerror(errno));
	}
	return provider_local_at(box, name);
}

static fallible provider_local_list(struct sync_box *box, const char *machine, struct sync_ids *out)
{
	auto_free char *base = NULL;
	auto_dir list = NULL;
	struct dirent *entry;

	(void)machine;
	TRY(provider_copy_base(box->provider->name, &base));
	list = path_list(AT_FDCWD, base);
	while (list && (entry = path_next(list)))
		if (str_starts(str_of(entry->d_name), "wt-"))
			sync_ids_add(out, entry->d_name, entry->d_name);
	return OK;
}

static fallible provider_local_destroy(struct sync_box *box)
{
	return path_remove(AT_FDCWD, box->store);
}

// ---------------------------------------------------------------------------------------- exec

static void provider_local_child(const char *home, const struct cove_command *command,
				 const int fds[3])
{
	setsid(); // Ctrl-C is ours
	for (int i = 0; i < 3; i++)
		dup2(fds[i], i);
	for (const char *const *env = command->env; env && *env; env++)
		putenv((char *)(uintptr_t)*env);
	if (!chdir(command->cwd ? command->cwd : home))
		execvp(command->argv[0], (char **)(uintptr_t)command->argv);
	_exit(errno == ENOENT ? 127 : 126);
}

static fallible provider_local_take(int fd, char **out, size_t *out_len)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_sys(errno, "read the output of a command");
	if (st.st_size > OUTPUT_MAX)
		return err_new(TOO_LARGE, "too_much", "a command wrote more than 64 MiB");
	lseek(fd, 0, SEEK_SET);
	*out = mem_new((size_t)st.st_size + 1);
	*out_len = 0;
	if (fd_read_all(fd, *out, (size_t)st.st_size) != st.st_size)
		return err_sys(EIO, "read the output of a command");
	*out_len = (size_t)st.st_size;
	return OK;
}

static fallible provider_local_exec(struct sync_box *box, const struct cove_command *command,
				    struct cove_output *out)
{
	auto_fd input = memfd_create("input", MFD_CLOEXEC);
	auto_fd output = memfd_create("output", MFD_CLOEXEC);
	auto_fd error = memfd_create("error", MFD_CLOEXEC);
	int status = 0;
	pid_t pid;

	if (input < 0 || output < 0 || error < 0 ||
	    fd_write_all(input, command->input, command->input_len) < 0)
		return err_sys(errno, "make the files of a command");
	lseek(input, 0, SEEK_SET);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return err_sys(errno, "fork a command");
	if (!pid)
		provider_local_child(box->home, command, (const int[]){input, output, error});
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(errno, "wait for a command");
	out->result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	TRY(provider_local_take(output, &out->out, &out->out_len));
	return provider_local_take(error, &out->err, &out->err_len);
}

// All or nothing, as a worktree is changed.
static fallible provider_local_send(struct sync_box *box, int root, const struct plan *plan)
{
	struct err *err;

	box->spool = open(box->store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (box->spool < 0)
		return err_sys(errno, "make a temporary file");
	err = provider_copy_spool(box, root, plan);
	if (!err)
		err = apply_plan(box->copy, box->spool, plan);
	for (size_t i = 0; i < plan->change_count; i++)
		if (plan->changes[i].to)
			((struct listed_file *)plan->changes[i].to)->content = FILE_LIST_NO_CONTENT;
	fd_drop(&box->spool);
	box->spooled = 0;
	return err;
}

const struct provider provider_local = {
	.name = "local",
	.connect = provider_local_connect,
	.open = provider_local_open,
	.at = provider_local_at,
	.list = provider_local_list,
	.destroy = provider_local_destroy,
	.exec = provider_local_exec,
	.state = provider_copy_state,
	.keep = provider_copy_keep,
	.read = provider_copy_read,
	.fetch = provider_copy_fetch,
	.send = provider_local_send,
	.start = provider_run_start,
	.next = provider_run_next,
	.stop = provider_run_stop,
	.has = provider_run_has,
	.runs = provider_run_list,
};
