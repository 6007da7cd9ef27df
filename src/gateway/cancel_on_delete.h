// Cancels a transfer when its sandbox is deleted. A transfer holds a file of the sandbox open, or a
// connection into it, and thereby the sandbox's disk or network, for as long as a slow client
// takes.
#pragma once

#include "http/http.h"
#include "manager/manager.h"

struct cancel_on_delete;

// Until cancel_on_delete_end(), the end of the sandbox cancels the current task. If the reply of
// `x` has begun, its connection is reset and unread data is dropped.
struct cancel_on_delete *cancel_on_delete_begin(struct entry *entry, struct http *x);
// The same, also when `holds` returns false. It is called whenever the sandbox changes, and at
// *out_until (loop time in ms; CLOCK_NEVER unless set).
typedef bool cancel_on_delete_holds(const void *arg, int64_t *out_until);
struct cancel_on_delete *cancel_on_delete_begin_while(struct entry *entry, struct http *x,
						      cancel_on_delete_holds *holds,
						      const void *arg);
// For a reply made of records of the sandbox, in any state of it: after the sandbox is deleted the
// client has READ_MS to read on, then the current task is cancelled and the connection of `x` is
// reset.
struct cancel_on_delete *cancel_on_delete_begin_reader(struct entry *entry, struct http *x);
void cancel_on_delete_end(struct cancel_on_delete *cancel_on_delete); // takes NULL
static inline void auto_cancel_on_delete_(struct cancel_on_delete **cancel_on_delete)
{
	cancel_on_delete_end(*cancel_on_delete);
}
// The variable is never read: only its lifetime matters.
#define auto_cancel_on_delete                                                                      \
	__attribute__((unused)) on_exit_call(auto_cancel_on_delete_) struct cancel_on_delete *
