// One RPC connection: what the client may refer to by number, and the calls that run. A call is an
// inner exchange whose reply goes out as messages.
#pragma once

#include "door/door.h"
#include "http/inner.h"
#include "http/wsock.h"
#include "inbox/callee.h"

#define REMOTE_CALLS_MAX 64		 // at work
#define REMOTE_STARTED_MAX 256		 // and those whose answer waits to be pulled
#define REMOTE_WAITING_MAX 1024		 // and those that wait, or were refused and not pulled
#define REMOTE_WAITING_BYTES (64u << 20) // bodies of those that wait
#define REMOTE_EXPORTS_MAX 4096
#define REMOTE_PIPES_MAX 64
#define REMOTE_PATH_MAX 4

enum remote_kind {
	REMOTE_CALL,
	REMOTE_PATH, // part of the main object, not called yet
	REMOTE_PIPE, // a stream that the client writes to
};

// What the client knows by a number.
struct remote_export {
	struct remote *remote;
	int64_t id;
	enum remote_kind kind;
	bool listed; // the client has not released it
};

struct remote {
	struct http *x;
	struct wsock *ws;
	const char *base; // "/v1/sandboxes/ID"
	struct map *exports;
	int64_t last_export; // numbers that the client gave out
	int64_t last_import; // numbers that we did
	struct link calls;   // that run, or wait for others to end; in order of arrival
	uint32_t call_count, pipe_count;
	uint32_t at_work, started; // of the calls
	size_t waiting_bytes;
	struct bell ended; // a call has, or has begun
	bool over;
};

struct remote *remote_new(struct http *x, struct wsock *ws, const char *base);
void remote_free(struct remote *remote); // nothing is listed any more, and no call runs

struct remote_export *remote_find(const struct remote *remote, int64_t id);
// Enters it under the next number. EXHAUSTED when there are too many.
fallible remote_list(struct remote *remote, struct remote_export *export, enum remote_kind kind);
void remote_unlist(struct remote_export *export);

// A message that is whole. The connection is of no use after an error.
fallible remote_send(struct remote *remote, const struct buf *message);
fallible remote_reject(struct remote *remote, int64_t id, const char *code, const char *message);

// Of remote_call.c: a call that has been pushed runs as soon as fewer than REMOTE_CALLS_MAX others
// are at work; its answer leaves when it is pulled. Waits while too much waits.
// It is entered under the next number. A call that cannot be made is entered all the same, and
// rejected.
fallible remote_call_start(struct remote *remote, struct str object, struct str name,
			   const struct json *args);
void remote_call_pull(struct remote_export *export);
// The peer's answer to something that we sent under `id`.
void remote_call_answered(struct remote *remote, int64_t id, bool accepted);
void remote_call_cancel_all(struct remote *remote);
void remote_call_release(struct remote_export *export);

// Of remote_flow.c: bytes on their way to the client, at the pace of its acknowledgements.
#define REMOTE_ON_THE_WAY_MAX 64
struct remote_flow {
	struct remote *remote;
	int64_t pipe; // the number of our end; 0: not open
	struct {
		int64_t id; // 0: waits for its turn to be sent
		size_t size;
	} way[REMOTE_ON_THE_WAY_MAX];
	size_t way_count, way_bytes;
	bool refused;	   // the client wants no more
	struct bell moved; // rings at every change; its owner may ring it, too
};
void remote_flow_init(struct remote_flow *flow, struct remote *remote);
fallible remote_flow_open(struct remote_flow *flow);
// Waits while too much is on its way. CANCELLED client_gone when it was refused.
fallible remote_flow_write(struct remote_flow *flow, struct str bytes);
// Calls a function of the client's with one argument, at the same pace; it needs no pipe.
fallible remote_flow_call(struct remote_flow *flow, int64_t function, struct str argument);
fallible remote_flow_rest(struct remote_flow *flow); // until all was answered
// `is_whole`: it ends well; else it is aborted.
fallible remote_flow_close(struct remote_flow *flow, bool is_whole);
// False: that was none of its messages.
bool remote_flow_answered(struct remote_flow *flow, int64_t id, bool accepted);

// Of remote_pipe.c: bytes on their way from the client to a call.
struct remote_pipe;
fallible remote_pipe_open(struct remote *remote);
// write, close or abort, which came as message `id` and is acknowledged when there is room for
// more. Waits while there is too much.
fallible remote_pipe_take(struct remote_export *export, int64_t id, struct str verb,
			  const struct json *args);
// For the call that reads it: *out = 0 at its end. CANCELLED when it was aborted.
fallible remote_pipe_read(struct remote_pipe *pipe, void *room, size_t size, size_t *out);
struct remote_pipe *remote_pipe_of(struct remote *remote,
				   int64_t id); // held by the caller; NULL: none
void remote_pipe_drop(struct remote_pipe *pipe);
void remote_pipe_release(struct remote_export *export);
void remote_pipe_stop(struct remote_export *export); // the connection is over
