// The change from one daemon to the next: pid 1 waits for the next one and sends what it holds.
#pragma once

#include "init/conn.h"

// True if TALK_FD_LISTEN listens, so that another daemon can connect.
bool handover_may_return(void);
// Accepts a connection as the daemon: the old connection ends. False: none was accepted.
bool handover_accept(void);
// Stores the label that a daemon gave to a command.
void handover_set_label(struct conn *conn, int place, struct str tag);
// True if the fds of STARTED are kept for the next daemon; else the write end of stdin is closed.
bool handover_keeps_in(const struct conn *conn);
// A new daemon sent ADOPT: the state of this entry is to be sent again, or dropped if no daemon
// wants it.
void handover_owe(struct conn *conn);
// Both return like conn_send().
bool handover_send(const struct conn *conn);
bool handover_send_end(void);
bool handover_send_sync(int listener);
