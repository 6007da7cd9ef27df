// Listening and connecting, on numeric addresses only: names are resolved elsewhere.
#pragma once

#include "base/str.h"
#include "loop/stream.h"

// "127.0.0.1:8484", "[::1]:0": binds and listens, close-on-exec, non-blocking. Blocks for no one.
// CONFLICT port_taken, INVALID bad_address. out_port: the real one when 0 was asked for.
fallible dial_listen(struct str address, int *out_fd, uint16_t *out_port);
// Connects a TCP stream; "localhost" is tried as 127.0.0.1 and ::1. UNAVAILABLE no_server.
fallible dial_tcp(struct loop *loop, struct str host, uint16_t port, int64_t deadline,
		  struct stream *out);
// Connects to the first of several numeric addresses that answers (RFC 8305): in order, the next
// one DIAL_DELAY_MS after the previous or as soon as that failed. The connection has keepalive.
// UNAVAILABLE no_server: none answers; TIMEOUT at the deadline; EXHAUSTED. *out_which is the
// address that answered.
#define DIAL_ADDRESSES_MAX 16
#define DIAL_DELAY_MS 250
#define DIAL_HOST_TEXT 46
fallible dial_first(struct loop *loop, const char (*hosts)[DIAL_HOST_TEXT], size_t count,
		    uint16_t port, int64_t deadline, struct stream *out, size_t *out_which);
// A SOCK_SEQPACKET socket at a path in the run directory. EXHAUSTED daemon_files: at the fd limit.
fallible dial_local_fd(const char *path, int64_t deadline, int *out_fd);
// A SOCK_STREAM socket at any path. UNAVAILABLE no_server, FORBIDDEN no_right.
fallible dial_unix(struct loop *loop, const char *path, int64_t deadline, struct stream *out);
fallible dial_local(struct loop *loop, const char *path, int64_t deadline, struct stream *out);
// TCP keepalive, inherited by accepted sockets: a dead peer is detected after two minutes.
void dial_keep_alive(int fd);
