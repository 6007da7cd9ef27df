// Adoption after a start: the store's records are compared with the warden's boxes until they
// agree. A read error never ends a box.
#pragma once

#include "manager/table.h"

// Enters all records of the store. Blocks: call it before the loop runs. The state of each box is
// found out by adopt_start(); until then requests for a box wait.
void adopt_load(struct manager *manager);

// Starts the task that settles all boxes. `done`, which may be NULL, is called once, when every box
// is in the state that its record says.
void adopt_start(struct manager *manager, void (*done)(void *arg), void *arg);
