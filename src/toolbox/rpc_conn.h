// One RPC connection: what the client may refer to by number, and the calls that run. A call is an
// inner exchange whose reply goes out as messages.
#pragma once

#include "gateway/gateway.h"
#include "http/in_process.h"
#include "http/wsock.h"
#include "toolbox/rpc_table.h"

#define RPC_CONN_CALLS_MAX 64		   // at work
#define RPC_CONN_STARTED_MAX 256	   // and those whose answer waits to be pulled
#define RPC_CONN_WAITING_MAX 1024	   // and those that wait, or were refused and not pulled
#define RPC_CONN_WAITING_BYTES (64u << 20) // bodies of those that wait
#define RPC_CONN_EXPORTS_MAX 4096
#define RPC_CONN_PIPES_MAX 64
#define RPC_CONN_PATH_MAX 4

enum rpc_conn_kind {
	RPC_CONN_CALL,
	RPC_CONN_PATH, // part of the main object, not called yet
	RPC_CONN_PIPE, // a stream that the client writes to
};

// What the client knows by a number.
struct rpc_conn_export {
	struct rpc_conn *remote;
	int64_t id;
	enum rpc_conn_kind kind;
	bool listed; // the client has not released it
};

struct rpc_conn {
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
	struct condition ended; // a call has, or has begun
	bool over;
};

struct rpc_conn *rpc_conn_new(struct http *x, struct wsock *ws, const char *base);
void rpc_conn_free(struct rpc_conn *remote); // nothing is listed any more, and no call runs

struct rpc_conn_export *rpc_conn_find(const struct rpc_conn *remote, int64_t id);
// Enters it under the next number. EXHAUSTED when there are too many.
fallible rpc_conn_list(struct rpc_conn *remote, struct rpc_conn_export *export,
		       enum rpc_conn_kind kind);
void rpc_conn_unlist(struct rpc_conn_export *export);

// A message that is whole. The connection is of no use after an error.
fallible rpc_conn_send(struct rpc_conn *remote, const struct buf *message);
fallible rpc_conn_reject(struct rpc_conn *remote, int64_t id, const char *code,
			 const char *message);

// Of remote_call.c: a call that has been pushed runs as soon as fewer than RPC_CONN_CALLS_MAX
// others are at work; its answer leaves when it is pulled. Waits while too much waits. It is
// entered under the next number. A call that cannot be made is entered all the same, and rejected.
fallible rpc_conn_call_start(struct rpc_conn *remote, struct str object, struct str name,
			     const struct json *args);
void rpc_conn_call_pull(struct rpc_conn_export *export);
// The peer's answer to something that we sent under `id`.
void rpc_conn_call_answered(struct rpc_conn *remote, int64_t id, bool accepted);
void rpc_conn_call_cancel_all(struct rpc_conn *remote);
void rpc_conn_call_release(struct rpc_conn_export *export);

// Of remote_flow.c: bytes on their way to the client, at the pace of its acknowledgements.
#define RPC_CONN_ON_THE_WAY_MAX 64
struct rpc_conn_flow {
	struct rpc_conn *remote;
	int64_t pipe; // the number of our end; 0: not open
	struct {
		int64_t id; // 0: waits for its turn to be sent
		size_t size;
	} way[RPC_CONN_ON_THE_WAY_MAX];
	size_t way_count, way_bytes;
	bool refused;		// the client wants no more
	struct condition moved; // rings at every change; its owner may ring it, too
};
void rpc_conn_flow_init(struct rpc_conn_flow *flow, struct rpc_conn *remote);
fallible rpc_conn_flow_open(struct rpc_conn_flow *flow);
// Waits while too much is on its way. CANCELLED client_gone when it was refused.
fallible rpc_conn_flow_write(struct rpc_conn_flow *flow, struct str bytes);
// Calls a function of the client's with one argument, at the same pace; it needs no pipe.
fallible rpc_conn_flow_call(struct rpc_conn_flow *flow, int64_t function, struct str argument);
fallible rpc_conn_flow_rest(struct rpc_conn_flow *flow); // until all was answered
// `is_whole`: it ends well; else it is aborted.
fallible rpc_conn_flow_close(struct rpc_conn_flow *flow, bool is_whole);
// False: that was none of its messages.
bool rpc_conn_flow_answered(struct rpc_conn_flow *flow, int64_t id, bool accepted);

// Of remote_pipe.c: bytes on their way from the client to a call.
struct rpc_pipe;
fallible rpc_conn_pipe_open(struct rpc_conn *remote);
// write, close or abort, which came as message `id` and is acknowledged when there is room for
// more. Waits while there is too much.
fallible rpc_conn_pipe_take(struct rpc_conn_export *export, int64_t id, struct str verb,
			    const struct json *args);
// For the call that reads it: *out = 0 at its end. CANCELLED when it was aborted.
fallible rpc_conn_pipe_read(struct rpc_pipe *pipe, void *room, size_t size, size_t *out);
struct rpc_pipe *rpc_conn_pipe_of(struct rpc_conn *remote,
				  int64_t id); // held by the caller; NULL: none
void rpc_conn_pipe_drop(struct rpc_pipe *pipe);
void rpc_conn_pipe_release(struct rpc_conn_export *export);
void rpc_conn_pipe_stop(struct rpc_conn_export *export); // the connection is over
