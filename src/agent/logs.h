// What the logs of one agent session's runs take on disk: bounded, and counted for its tenant.
#pragma once

#include "agent/private.h"

void logs_open(struct agent_session *agent);		       // the session is in the table
void logs_bind(struct agent_session *agent, struct tape *log); // what is added to the log counts
void logs_removed(struct agent_session *agent);		       // the folder of its logs was
// Counts what an earlier daemon left. Waits for the disk.
void logs_count(struct agent_sessions *agents);
