// Verbs for the daemon of this very host, by its data directory: end everything, or put a new
// binary in its place. They reach the supervisor by a signal, so they work when nothing else does.
#pragma once

#include "cli/call.h"

fallible host_drain(struct call *call);
fallible host_reload(struct call *call);
fallible host_upgrade(struct call *call);
