// Carries out what budgets demand: idle sandboxes of a used-up one are paused, and go on when it is
// not used up any more.
#pragma once

#include "manager/table.h"

void enforce_budgets_open(struct manager *manager); // after budgets_open()
