// Whether a box is busy, and how it is frozen, stopped and started again. Records of ended
// processes and their output stay over a stop.
#pragma once

#include "box/box.h"

// True: a command, a process, or a session or context with a running command runs. Not counted: an
// idle shell, an idle interpreter, a terminal. Open streams and attached terminals are known to the
// owner only.
bool box_is_busy(const struct box *box);
// CPU time of its commands and of processes they left. Only differences are meaningful, in either
// direction.
uint64_t box_cpu_us(const struct box *box);
// True: cgroups of a previous daemon are not opened yet, and box_cpu_us() does not count them.
bool box_is_unseen(const struct box *box);
// CPU time of the whole box, by the warden, and its previous value; 0: not asked before.
fallible box_ask_cpu(struct box *box, uint64_t *out_before_us, uint64_t *out_us, int64_t deadline);
// Closes the fds that only a command or a file request needs; the next one opens them again. True:
// cgroup fds were closed, and box_cpu_us() changes. `hard`: idle file workers end too.
bool box_freeze_files(struct box *box, bool hard);

// Freezes all processes. Already frozen: OK.
fallible box_pause(struct box *box, int64_t deadline);
// A plain order to the warden about the box, such as ORDER_THAW.
fallible box_order(const struct box *box, enum order_kind kind, int64_t deadline);

// Ends all processes, verified by the warden; files stay. Commands end as killed_by_api. After a
// failure the box may or may not be stopped: retry. NOT_FOUND: no such box. Idempotent.
fallible box_stop(struct box *box, int64_t deadline);
// CPU time that the box had used when its processes had ended, since its last start; 0: unknown.
uint64_t box_ended_cpu_us(const struct box *box);
// Starts a stopped box on its disk: `build` as for box_build(). `fresh`: the disk is lost; the rest
// of it is destroyed and a new one made. On failure the box is stopped as before; box_on_loss()
// must be set again. NOT_FOUND no_disk: the disk is absent or incomplete.
fallible box_again(struct box *box, const struct order *build, bool fresh);
// A stopped box that has a disk: box_again() starts it.
struct box *box_stopped(struct loop *loop, struct ask *ask, const char *id, int tapes_dir);
