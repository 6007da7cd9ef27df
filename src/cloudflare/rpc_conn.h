// An RPC connection: its exports (objects that the client refers to by number) and its calls. A
// call is an in-process exchange whose reply is sent as messages.
#pragma once

#include "cloudflare/rpc_table.h"
#include "gateway/gateway.h"
#include "http/in_process.h"
#include "http/wsock.h"

#define RPC_CONN_CALLS_MAX 64		   // calls that run at once
#define RPC_CONN_STARTED_MAX 256	   // and calls whose answer waits to be pulled
#define RPC_CONN_WAITING_MAX 1024	   // and calls that wait, or were refused and not pulled
#define RPC_CONN_WAITING_BYTES (64u << 20) // bodies of waiting calls
#define RPC_CONN_EXPORTS_MAX 4096
#define RPC_CONN_PIPES_MAX 64
#define RPC_CONN_PATH_MAX 4

enum rpc_conn_kind {
	RPC_CONN_CALL,
	RPC_CONN_PATH, // a property of the main object, not called yet
	RPC_CONN_PIPE, // a stream that the client writes to
};

// An object that the client refers to by number.
struct rpc_conn_export {
	struct rpc_conn *conn;
	int64_t id;
	enum rpc_conn_kind kind;
	bool listed; // the client has not released it
};

struct rpc_conn {
	struct http *x;
	struct wsock *ws;
	const char *base; // "/v1/sandboxes/ID"
	struct map *exports;
	int64_t last_export; // the last number that the client gave out
	int64_t last_import; // the last number that we gave out
	struct link calls;   // running or waiting, in order of arrival
	uint32_t call_count, pipe_count;
	uint32_t at_work, started; // numbers of calls
	size_t waiting_bytes;
	struct condition ended; // signalled when a call ends or starts
	bool over;
};

struct rpc_conn *rpc_conn_new(struct http *x, struct wsock *ws, const char *base);
void rpc_conn_free(struct rpc_conn *conn); // requires that no export is listed and no call runs

struct rpc_conn_export *rpc_conn_find(const struct rpc_conn *conn, int64_t id);
// Lists the export under the next number. EXHAUSTED when there are too many.
fallible rpc_conn_list(struct rpc_conn *conn, struct rpc_conn_export *export,
		       enum rpc_conn_kind kind);
void rpc_conn_unlist(struct rpc_conn_export *export);

// Sends one complete message. The connection is unusable after an error.
fallible rpc_conn_send(struct rpc_conn *conn, const struct buf *message);
// Rejects message `id`: an error whose properties begin with `code`; the caller adds `details`.
void rpc_conn_begin_reject(struct json_out *out, int64_t id, struct str code, struct str message);
fallible rpc_conn_send_reject(struct rpc_conn *conn, struct json_out *out);
fallible rpc_conn_reject(struct rpc_conn *conn, int64_t id, const char *code, const char *message);

// rpc_call.c: a pushed call runs as soon as fewer than RPC_CONN_CALLS_MAX others are running; its
// answer is sent when the client pulls it. Waits while too many calls wait. The call is listed
// under the next number. A call that cannot be made is listed too, and rejected.
fallible rpc_conn_call_start(struct rpc_conn *conn, struct str object, struct str name,
			     const struct json *args);
void rpc_conn_call_pull(struct rpc_conn_export *export);
// Handles the peer's answer to message `id` of ours.
void rpc_conn_call_answered(struct rpc_conn *conn, int64_t id, bool accepted);
void rpc_conn_call_cancel_all(struct rpc_conn *conn);
void rpc_conn_call_release(struct rpc_conn_export *export);

// Bytes to the client, flow-controlled by its acknowledgements.
#define RPC_CONN_IN_FLIGHT_MAX 64
struct rpc_conn_flow {
	struct rpc_conn *conn;
	int64_t pipe; // the number of our end; 0: not open
	struct {
		int64_t id; // 0: not sent yet
		size_t size;
	} in_flight[RPC_CONN_IN_FLIGHT_MAX];
	size_t in_flight_count, in_flight_bytes;
	bool refused;		// the client rejected a write
	struct condition moved; // signalled at every change; its owner may signal it too
};
void rpc_conn_flow_init(struct rpc_conn_flow *flow, struct rpc_conn *conn);
fallible rpc_conn_flow_open(struct rpc_conn_flow *flow);
// Waits while the window is full. CANCELLED client_gone when the client rejected a write.
fallible rpc_conn_flow_write(struct rpc_conn_flow *flow, struct str bytes);
// Calls a function of the client with one argument, under the same flow control; needs no pipe.
fallible rpc_conn_flow_call(struct rpc_conn_flow *flow, int64_t function, struct str argument);
fallible rpc_conn_flow_drain(struct rpc_conn_flow *flow); // waits until every message was answered
// `is_whole`: closes the stream; else aborts it.
fallible rpc_conn_flow_close(struct rpc_conn_flow *flow, bool is_whole);
// False: not a message of this flow.
bool rpc_conn_flow_answered(struct rpc_conn_flow *flow, int64_t id, bool accepted);

// Bytes from the client to a call.
struct rpc_pipe;
fallible rpc_conn_pipe_open(struct rpc_conn *conn);
// Handles write, close or abort. The message `id` is acknowledged when there is room for more.
// Waits while the pipe is full.
fallible rpc_conn_pipe_take(struct rpc_conn_export *export, int64_t id, struct str verb,
			    const struct json *args);
// For the call that reads the pipe: *out = 0 at its end. CANCELLED when the client aborted it.
fallible rpc_conn_pipe_read(struct rpc_pipe *pipe, void *room, size_t size, size_t *out);
struct rpc_pipe *rpc_conn_pipe_of(struct rpc_conn *conn,
				  int64_t id); // with a reference; NULL: none
void rpc_conn_pipe_drop(struct rpc_pipe *pipe);
void rpc_conn_pipe_release(struct rpc_conn_export *export);
void rpc_conn_pipe_stop(struct rpc_conn_export *export); // the connection has ended
