// What the logs of one agent session's runs take on disk: bounded, and counted for its tenant.
#pragma once

#include "conv/inner.h"

void logs_open(struct conv *conv);		     // the session is in the table
void logs_bind(struct conv *conv, struct tape *log); // what is added to the log counts
void logs_removed(struct conv *conv);		     // the folder of its logs was
// Counts what an earlier daemon left. Waits for the disk.
void logs_count(struct convs *convs);
