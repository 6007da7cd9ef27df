// Disk usage of the run logs of one agent session: bounded, and counted for its tenant.
#pragma once

#include "agent/private.h"

void logs_open(struct agent_session *agent); // call when the session enters the table
void logs_bind(struct agent_session *agent, struct tape *log); // counts what is added to the log
void logs_removed(struct agent_session *agent); // call when the directory was removed
// Counts the files of an earlier daemon. Waits for the disk.
void logs_count(struct agent_sessions *agents);
