// The mark `unsynced` of a sandbox: work began in it that was not brought back. A marked sandbox
// is stopped where others are deleted, unless the caller forces it.
#pragma once

#include "manager/table.h"

#define UNSYNCED_RUN "run-" // ids of processes and terminals of agent runs begin so

// Marks the sandbox in memory: the caller makes it durable. unsynced_may() was asked.
void unsynced_mark(struct entry *entry);
// CONFLICT ephemeral: it keeps no files that a mark could save.
fallible unsynced_may(const struct entry *entry);

// CONFLICT unsynced if it is marked.
fallible unsynced_check(const struct entry *entry);

// A client begins to read what is to be brought back. unsynced_settle() removes the mark for it,
// unless a run was active meanwhile or the sandbox was marked again: then it stays. Durable on
// return.
void unsynced_begin(struct entry *entry);
fallible unsynced_settle(struct entry *entry);
