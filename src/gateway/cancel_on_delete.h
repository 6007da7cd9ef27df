// A transfer holds a file of the sandbox open, or a connection into it, and with it the sandbox's
// disk or network, for as long as a slow client takes. It ends with its sandbox: while it is
// escorted, the end of one cancels the other.
#pragma once

#include "http/http.h"
#include "manager/manager.h"

struct cancel_on_delete;

// From here to cancel_on_delete_end() the current task is cancelled when the sandbox ends, and the
// connection of `x` is reset if its reply has begun: what its peer has not read yet is dropped.
struct cancel_on_delete *cancel_on_delete_begin(struct entry *entry, struct http *x);
// … or when `holds` is false, which is asked whenever something about the sandbox changes, and at
// *out_until (loop time in ms; CLOCK_NEVER unless it is set).
typedef bool cancel_on_delete_holds(const void *arg, int64_t *out_until);
struct cancel_on_delete *cancel_on_delete_begin_while(struct entry *entry, struct http *x,
						      cancel_on_delete_holds *holds,
						      const void *arg);
// For a reply made of what is remembered of the sandbox, also when it does not run: once the
// sandbox is deleted a client has a few seconds to read on, then the current task is cancelled and
// the connection of `x` is reset.
struct cancel_on_delete *cancel_on_delete_begin_reader(struct entry *entry, struct http *x);
void cancel_on_delete_end(struct cancel_on_delete *cancel_on_delete); // takes NULL
static inline void auto_cancel_on_delete_(struct cancel_on_delete **cancel_on_delete)
{
	cancel_on_delete_end(*cancel_on_delete);
}
// Nobody asks it anything: its life is its use.
#define auto_cancel_on_delete                                                                      \
	__attribute__((unused)) on_exit_call(auto_cancel_on_delete_) struct cancel_on_delete *
