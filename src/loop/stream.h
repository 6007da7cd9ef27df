// Reads and writes with deadlines over a non-blocking fd. One task at a time for each direction.
// Tries the call first and waits only on EAGAIN.
#pragma once

#include <stdint.h>
#include <sys/uio.h>

#include "loop/task.h"

struct stream {
	int fd; // owned; -1: closed
	struct watch watch;
	struct task *reader, *writer; // waiting now
	struct loop *loop;
	uint64_t bytes_in, bytes_out;
	uint32_t spree; // bytes moved since the last wait
	bool readable;	// it may have unread bytes
	bool hung_up;	// the peer has closed or reset; bytes may be left to read
	bool reset;	// writes fail: not just the peer's sending half is closed
	enum { STREAM_FILE, STREAM_SOCKET, STREAM_TCP, STREAM_UNIX } kind;
	bool aborted;	   // stream_close() resets it: unsent data are dropped
	bool more_follows; // more data follow at once: this write may be delayed and merged
	// Called from the loop when `hung_up` or `reset` becomes true, also without a reader or
	// writer; may be NULL.
	void (*on_hangup)(struct stream *stream);
};

// Takes over the fd, also on failure (then it is closed), and makes it non-blocking.
fallible stream_open(struct stream *stream, struct loop *loop, int fd);
void stream_close(struct stream *stream); // harmless twice

// At least one byte, or *out = 0 at the end. TIMEOUT at the deadline, BAD_PEER peer_gone when
// reset.
fallible stream_read(struct stream *stream, void *room, size_t size, int64_t deadline, size_t *out);
// Reads what is available, without a wait. *out_empty: nothing yet, which is not the end.
fallible stream_read_now(struct stream *stream, void *room, size_t size, bool *out_empty,
			 size_t *out);
// Waits until readable, without reading. May wake up early: an edge may stand for bytes that were
// already read, and others may task_wake() the reader.
fallible stream_wait_readable(struct stream *stream, int64_t deadline);
// Waits until writable. For writes by another thread.
fallible stream_wait_writable(struct stream *stream, int64_t deadline);
// Writes everything. The deadline restarts whenever bytes move: it bounds silence, not duration.
fallible stream_write(struct stream *stream, const void *bytes, size_t len, int64_t silence_ms);
fallible stream_writev(struct stream *stream, struct iovec *parts, int count, int64_t silence_ms);

// Writes some of it, and stops waiting when the peer sends first: *out = 0 then. For a long request
// that the peer may refuse before its end. TIMEOUT at the deadline.
fallible stream_offer(struct stream *stream, const void *bytes, size_t len, int64_t deadline,
		      size_t *out);

// Message sockets (SOCK_SEQPACKET) with fds. Received fds are close-on-exec and owned by the
// caller; one message, at most `max_fds`, more is BAD_PEER. *out_len = 0: the peer is gone.
// *out_fds = FD_LOST (os/fd.h): this process is at its fd limit.
fallible stream_send(struct stream *stream, const void *bytes, size_t len, const int *fds,
		     int count, int64_t deadline);
fallible stream_recv(struct stream *stream, void *room, size_t size, int *fds, int max_fds,
		     int *out_fds, size_t *out_len, int64_t deadline);

// For others that read and write its fd: the error of a failed call, BAD_PEER peer_gone or
// INTERNAL; the deadline of the next byte.
fallible stream_explain(int errnum, const char *what);
int64_t stream_silence_ends(const struct stream *stream, int64_t silence_ms);
