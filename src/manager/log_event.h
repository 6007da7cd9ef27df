// What is logged under a name of types/event.h is an event, too: those who watch over attacks, keys
// and tenants say it once, wherever they stand.
#pragma once

#include "manager/table.h"

void manager_log_open(struct manager *manager); // hears this thread, from now on
