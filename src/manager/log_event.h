// A log line whose name is listed in types/event.h is also published as an event.
#pragma once

#include "manager/table.h"

void manager_log_open(struct manager *manager); // for log lines of this thread, from now on
