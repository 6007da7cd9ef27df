// A process with a dialogue beside its output, and what it leaves in its leaf: for whoever
// supervises it.
//
// syscalls: fcntl close
#include <fcntl.h>
#include <unistd.h>

#include "box/leaf.h"
#include "box/procs_inner.h"
#include "loop/closer.h"

int proc_dialogue(struct proc *proc)
{
	int fd = proc->last_words - 1;

	if (proc->exec)
		fd = proc->exec->flags & TALK_EXEC_DIALOGUE ? proc->exec->seat[2] : -1;
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void proc_close_dialogue(struct proc *proc)
{
	int fd = proc->last_words - 1;

	closer_drop(&fd);
	proc->last_words = 0;
}

uint32_t proc_leaf(const struct proc *proc)
{
	return proc->exec && proc->exec->leaf ? 1 + proc->exec->leaf->number : 0;
}

void procs_leaf_spend(struct box *box, uint32_t leaf)
{
	if (leaf && leaf <= TALK_LEAVES_MAX)
		box_leaf_retire(box, leaf - 1);
}

bool procs_leaf_is_left(const struct box *box, uint32_t leaf)
{
	list_each (at, &box->leaves) {
		const struct box_leaf *one = link_of(at, struct box_leaf, all);

		if (1 + one->number == leaf)
			return one->doubtful && !one->taken;
	}
	return false;
}
