// What there is, after a start: records of the store held against cells of the warden, until they
// agree. Nothing is ended because something could not be read.
#pragma once

#include "manager/table.h"

// Enters what the store knows. Blocks: before the loop runs. Whatever there is of each box is found
// out by adopt_start(); until then whoever wants to work in one waits.
void adopt_load(struct manager *manager);

// A task for it all: the fleet is settled when every box is what its record says. `done`, which may
// be NULL, is called then, once.
void adopt_start(struct manager *manager, void (*done)(void *arg), void *arg);
