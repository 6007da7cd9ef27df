// Idleness. A box is in use while somebody works in it (a request, an open stream, a terminal that
// is watched), while a command or process runs that was started in it, or while anything in it uses
// CPU time. What is asked about it is no use. When it has not been in use for its sleepAfter it is
// frozen, after TIMER_FROZEN more it is stopped with its files; any request wakes it. keepAlive
// keeps it from that. A box with a ttl is deleted when that is over.
#pragma once

#include "manager/table.h"

// Starts to watch; once, when the fleet is whole.
void idle_open(struct manager *manager);
