// Commands of process sessions: their ids, ends and output, while the sandbox runs. The shells are
// those of box/session.h, and so are the records of commands of an earlier daemon.
#pragma once

#include "gateway/gateway.h"
#include "manager/exec.h"

#define COMMANDS_ENDED_MAX 1000 // records of a session; of more the oldest are dropped
#define COMMAND_ID_LEN 32

// What the gateway holds for this API; made at first use.
struct command_table {
	struct map *sessions;	 // commands by sandbox and session
	struct link ptys;	 // of pty.c
	struct storage *storage; // of storage.c; NULL: not used yet
};
struct command_table *command_table_of(const struct http *x);

struct command {
	struct link link; // in its session's list, oldest first
	int refs;
	char id[COMMAND_ID_LEN + 1];
	char *text;
	struct session_run *run; // until its end
	struct tape *tape;
	struct entry *entry;
	char *user;
	bool takes_input, is_over, is_listed;
	bool is_left; // its record is for the next daemon
	int exit_code;
	struct condition ended;
};

// Makes commands of the records of an earlier daemon; the calls below know them then.
fallible commands_recover(const struct http *x, const struct box_ref *ref);

struct commands_spec {
	struct str text;
	bool takes_input; // its stdin is a FIFO that does not end; else it reads end-of-file
};

// Queues a command. The caller holds *out. Errors of session_run().
fallible commands_start(const struct http *x, const struct box_ref *ref, struct session *session,
			const struct commands_spec *spec, struct command **out);
// Held. NOT_FOUND no_command.
fallible commands_find(const struct http *x, const struct box_ref *ref, struct str session,
		       struct str id, struct command **out);
void command_unref(struct command *command);
static inline void auto_command_(struct command **command)
{
	if (*command)
		command_unref(*command);
}
#define auto_command on_exit_call(auto_command_) struct command *
// Waits for its end.
fallible command_wait(struct command *command);
// The path of its FIFO, in the exchange's arena.
const char *command_input(const struct http *x, const struct command *command);

// Whether commands_keep() was called for a session of this run of the sandbox: it exists, even if
// its shell has ended.
bool commands_know(const struct http *x, const struct box_ref *ref, struct str session);
void commands_keep(const struct http *x, const struct box_ref *ref, struct str session);
void commands_each(const struct http *x, const struct box_ref *ref, struct str session,
		   void (*each)(const struct command *command, void *arg), void *arg);
// The session is deleted.
void commands_forget(const struct http *x, const struct box_ref *ref, struct str session);
