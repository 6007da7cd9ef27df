// Adopts an exec by its label (exec_label.c). State that is in no label (for example which client
// waits) ended with the previous daemon. Times in a label are of this boot, as the box is: limits
// continue. A pid 1 that lies about times gets new limits and no more.
//
// syscalls: clock_gettime
#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_cgroup.h"
#include "box/exec_private.h"

// Time and CPU that passed before adoption count.
static void go_on_limiting(struct exec *exec)
{
	struct loop *loop = exec->box->loop;
	int64_t passed_ms = (clock_us() - exec->begun_us) / 1000;
	uint64_t used = exec->exec_cgroup ? box_exec_cgroup_used_us(exec->exec_cgroup) : 0;
	uint64_t limit_us = exec->meter_us + exec->cpu_ms * 1000;

	if (exec->wall_ms) {
		int64_t left = (int64_t)exec->wall_ms - passed_ms;

		loop_set_timer(loop, &exec->timer, loop_now(loop) + (left > 0 ? left : 1));
	}
	if (exec->cpu_ms && exec->exec_cgroup)
		box_exec_cgroup_limit(exec->exec_cgroup, limit_us > used ? limit_us - used : 1);
}

fallible exec_adopt(struct box *box, const struct talk *talk, const struct exec_label *label,
		    struct box_cgroup *exec_cgroup, struct tape *tape, const int *fds,
		    struct exec **out)
{
	struct exec_spec spec = {.tape = tape, .cpu_ms = label->cpu_ms, .wall_ms = label->wall_ms};
	struct exec *exec = exec_new(box, &spec);
	int64_t now = clock_us();
	struct err *err;

	exec->flags = talk->held.flags;
	exec->kept = exec->flags & TALK_EXEC_KEEP;
	exec->pipes.keep_in = exec->flags & TALK_EXEC_STDIN;
	exec->conn = talk->conn;
	exec->pid = talk->held.pid;
	exec->begun_us = label->begun_us > 0 && label->begun_us <= now ? label->begun_us : now;
	exec->meter_us = label->meter_us;
	exec->oom_kills = label->oom_kills;
	exec->sender = label->sender;
	exec->exec_cgroup = exec_cgroup;
	exec->phase = EXEC_RUNNING;
	exec->stage = STAGE_LIMIT;
	if ((label->kind == EXEC_LABEL_SESSION || label->kind == EXEC_LABEL_CONTEXT) &&
	    talk->held.tag.len) {
		exec->label_len = talk->held.tag.len;
		exec->label = mem_dup(talk->held.tag.at, exec->label_len);
	}
	exec_list(exec);
	if (exec_cgroup)
		box_exec_cgroup_begin(exec_cgroup, exec);
	err = exec_open_ends(exec, fds);
	if (err) {
		exec_unref(exec);
		return err;
	}
	go_on_limiting(exec);
	*out = exec;
	return OK;
}
