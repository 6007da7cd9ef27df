// What is logged under a name of model/event.h is an event, too: those who watch over attacks, keys
// and tenants say it once, wherever they stand.
#pragma once

#include "fleet/table.h"

void ear_open(struct fleet *fleet); // hears this thread, from now on
