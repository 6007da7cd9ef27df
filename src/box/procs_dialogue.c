// The dialogue socket of a process and the cgroup that it leaves behind, for the supervisor of
// agent sessions.
//
// syscalls: fcntl close
#include <fcntl.h>
#include <unistd.h>

#include "box/exec_cgroup.h"
#include "box/procs_private.h"
#include "loop/closer.h"

int proc_dialogue(struct proc *proc)
{
	int fd = proc->last_words - 1;

	if (proc->exec)
		fd = proc->exec->flags & TALK_EXEC_DIALOGUE ? proc->exec->stdio[2] : -1;
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void proc_close_dialogue(struct proc *proc)
{
	int fd = proc->last_words - 1;

	closer_drop(&fd);
	proc->last_words = 0;
}

uint32_t proc_cgroup(const struct proc *proc)
{
	return proc->exec && proc->exec->exec_cgroup ? 1 + proc->exec->exec_cgroup->number : 0;
}

void procs_cgroup_spend(struct box *box, uint32_t exec_cgroup)
{
	if (exec_cgroup && exec_cgroup <= TALK_CGROUPS_MAX)
		box_exec_cgroup_retire(box, exec_cgroup - 1);
}

bool procs_cgroup_is_left(const struct box *box, uint32_t exec_cgroup)
{
	list_each (at, &box->exec_cgroups) {
		const struct box_cgroup *one = link_of(at, struct box_cgroup, all);

		if (1 + one->number == exec_cgroup)
			return one->doubtful && !one->taken;
	}
	return false;
}
