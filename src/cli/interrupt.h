// Ctrl-C for verbs with cleanup: the first INT, TERM or HUP cancels the waiting call, and the verb
// cleans up; the second one ends the process at once.
#pragma once

#include <stdbool.h>

#include "lib/cove.h"

// From now on these signals cancel the client's calls; NULL: only recorded. Also ignores SIGPIPE: a
// closed reader is a write error.
void interrupt_arm(struct cove *cove);
void interrupt_disarm(const struct cove *cove); // before that client is closed
// While shielded calls go on; a signal that came meanwhile cancels the next one.
void interrupt_shield(bool on);
int interrupt_signal(void); // the one that came; 0: none
// Takes back a Ctrl-C that was meant for the program that we show. False: none came, or another
// signal.
bool interrupt_take(void);
// Readable once a signal has come, for poll(). Only after interrupt_arm().
int interrupt_fd(void);

// Written to stderr when the second signal ends the process without cleanup. NULL: nothing.
void interrupt_saying(const char *words);
// Called before a signal ends the process; must be async-signal-safe. NULL: nothing.
void interrupt_undoing(void (*undo)(void));
