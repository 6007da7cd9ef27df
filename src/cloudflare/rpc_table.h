// The methods that can be called by RPC: a table of objects and methods, each mapped to a route of
// this sandbox. Positional arguments become a request.
#pragma once

#include "codec/rpc.h"

enum rpc_table_shape {
	RPC_TABLE_PLAIN,    // the answer unchanged
	RPC_TABLE_PICK,	    // one member of the answer
	RPC_TABLE_SESSIONS, // `data` as `sessions`
	RPC_TABLE_WRITTEN,  // with `bytesWritten` added
	RPC_TABLE_STREAM,   // a stream of bytes
	RPC_TABLE_EVENTS,   // STREAM, with an event: line before each data: line
	RPC_TABLE_LOGS,	    // EVENTS, without events of type process_info
	RPC_TABLE_DOWNLOAD, // an object that contains a stream
	RPC_TABLE_UPLOAD,   // takes a stream
	RPC_TABLE_CALLS,    // events of a cell, as calls of client functions
};
#define RPC_TABLE_FUNCTIONS 4 // onStdout, onStderr, onResult, onError

struct rpc_table {
	const char *object, *name;
	const char *method, *path; // {0} is the first argument
	const char *args;	   // members of the body, in order; "*" is an object of members;
				   // "-" is left out
	enum rpc_table_shape shape;
	const char *pick;
};

struct rpc_table_request {
	enum rpc_table_shape shape;
	const char *method;
	struct buf target; // relative to the sandbox's path
	struct buf body;
	bool has_body;
	int64_t pipe;				// UPLOAD: number of the stream
	uint64_t written;			// WRITTEN
	int64_t functions[RPC_TABLE_FUNCTIONS]; // CALLS: numbers of the functions; 0: none
};

// NULL: no such method.
const struct rpc_table *rpc_table_find(struct str object, struct str name);
// INVALID bad_rpc, bad_field. The caller calls rpc_table_done() in any case.
fallible rpc_table_write(const struct rpc_table *row, const struct json *args,
			 struct rpc_table_request *out);
void rpc_table_done(struct rpc_table_request *request);
