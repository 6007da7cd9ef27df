// Idleness. A box is in use while a request, an open stream or a watched terminal refers to it,
// while a command or process runs in it, or while anything in it uses CPU time. Reading its record
// is no use. After sleepAfter without use the box is frozen, after TIMER_FROZEN more it is stopped
// with its files; any request wakes it. keepAlive prevents that. A box with a ttl is deleted when
// the ttl ends, one with the label ENV_MAP_AUTO_DELETE so many minutes after its stop, whatever
// daemon runs then.
#pragma once

#include "manager/table.h"

// Starts the task, once, after adoption.
void idle_open(struct manager *manager);
