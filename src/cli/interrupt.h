// Ctrl-C, for verbs that have something to undo: the first INT, TERM or HUP cancels the call that
// waits, and the verb unwinds and cleans up; the second one ends the process at once.
#pragma once

#include <stdbool.h>

#include "lib/cove.h"

// From now on the client's calls are cancelled by these signals; NULL: only noted. Also ignores
// SIGPIPE: a reader that goes away is an error of the write.
void interrupt_arm(struct cove *cove);
void interrupt_disarm(const struct cove *cove); // before that client is closed
// While shielded the client's calls go on; what came meanwhile cancels the next one.
void interrupt_shield(bool on);
int interrupt_signal(void); // the one that came; 0: none
// A Ctrl-C that is not meant for us but for what we show: it is as if it had not come. False: none
// came, or another signal.
bool interrupt_take(void);
// Readable once a signal has come, for those who poll. Only after interrupt_arm().
int interrupt_fd(void);

// Told on stderr when the second signal ends the process, which has undone nothing. NULL: nothing.
void interrupt_saying(const char *words);
// Called before a signal ends the process for good: it must be safe in a
// signal handler. NULL: nothing.
void interrupt_undoing(void (*undo)(void));
