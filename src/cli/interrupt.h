// Ctrl-C, for verbs that have something to undo: the first INT, TERM or HUP cancels the verb's
// task, which unwinds and cleans up; the second one ends the process at once.
#pragma once

#include "loop/task.h"

// From now on `task`, on `loop`, is cancelled by these signals. Also ignores SIGPIPE: a reader that
// goes away is an error of the write.
void interrupt_arm(struct loop *loop, struct task *task);
int interrupt_signal(void); // the one that came; 0: none
