// Between two daemons: pid 1 waits for the next one and tells it what it holds.
#pragma once

#include "init/conn.h"

// It has somewhere to wait: TALK_FD_LISTEN listens.
bool handover_may_return(void);
// Takes whoever knocks as the daemon: the old connection ends. False: it was nobody.
bool handover_meet(void);
// What a conversation is for, in a daemon's words.
void handover_set_label(struct conn *conn, int place, struct str tag);
// What STARTED brought stays here as well, for the next daemon: else the end of stdin is closed.
bool handover_keeps_in(const struct conn *conn);
// A new daemon has asked: what became of this one in the meantime is to be told anew, or, if no
// daemon wants to know it, nothing any more.
void handover_owe(struct conn *conn);
// Both as conn_send().
bool handover_send(const struct conn *conn);
bool handover_send_end(void);
bool handover_send_sync(int listener);
