// A transfer holds a file of the sandbox open, or a connection into it, and with it the sandbox's
// disk or network, for as long as a slow client takes. It ends with its sandbox: while it is
// escorted, the end of one cancels the other.
#pragma once

#include "fleet/fleet.h"

struct escort;

// From here to escort_end() the current task is cancelled when the sandbox ends.
struct escort *escort_begin(struct entry *entry);
// … or when `holds` says so, which is asked whenever something about the sandbox changes.
struct escort *escort_begin_while(struct entry *entry, bool (*holds)(const void *arg),
				  const void *arg);
void escort_end(struct escort *escort); // takes NULL
static inline void auto_escort_(struct escort **escort)
{
	escort_end(*escort);
}
// Nobody asks it anything: its life is its use.
#define auto_escort __attribute__((unused)) on_exit_call(auto_escort_) struct escort *
