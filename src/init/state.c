// The state of pid 1, one per process, and its table of commands: find an entry, send what is due
// for it, free it when it is over.
#include "init/state.h"

#include <time.h>

#include "init/handover.h"
#include "os/fd.h"

struct init init;

int64_t init_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Frees the entry when it is over. Its fds are closed when no client waits.
void init_settle(struct conn *conn)
{
	if (init.listener != LISTENER_KNOWS && conn->owes)
		return;
	if (conn->owes && conn_send(conn)) {
		if ((conn->owes & OWES_STARTED) && !(init.returns && handover_keeps_in(conn)))
			fd_drop(&conn->run.in);
		conn->owes = 0;
	}
	if (conn->owes) {
		init.owing = true;
	} else if (conn->pid == 0 && !conn->starting && conn->forgotten) {
		conn->used = false;
		init.untidy = true;
	}
}

struct conn *init_find(uint32_t id)
{
	for (int i = 0; i < init.conn_end; i++)
		if (init.conns[i].used && init.conns[i].id == id)
			return &init.conns[i];
	return NULL;
}
