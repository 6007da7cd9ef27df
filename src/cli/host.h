// Verbs for the daemon of this host, by its data directory: drain, reload, upgrade. They signal the
// supervisor, so that they work when the API does not.
#pragma once

#include "cli/call.h"

fallible host_drain(struct call *call);
fallible host_reload(struct call *call);
fallible host_upgrade(struct call *call);
