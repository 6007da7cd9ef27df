// What can be called by RPC: a table of objects and their methods, each the same as a route of this
// sandbox. Arguments by position become a request.
#pragma once

#include "codec/rpc.h"

enum rpc_table_shape {
	RPC_TABLE_PLAIN,    // the answer as it is
	RPC_TABLE_PICK,	    // one member of it
	RPC_TABLE_SESSIONS, // `data` as `sessions`
	RPC_TABLE_WRITTEN,  // with `bytesWritten`
	RPC_TABLE_STREAM,   // a stream of bytes
	RPC_TABLE_EVENTS,   // the same, with an event: line before each data: line
	RPC_TABLE_LOGS,	    // the same without events of type process_info
	RPC_TABLE_DOWNLOAD, // an object with a stream in it
	RPC_TABLE_UPLOAD,   // takes a stream
	RPC_TABLE_CALLS,    // events of a cell, to functions of the client
};
#define RPC_TABLE_FUNCTIONS 4 // onStdout, onStderr, onResult, onError

struct rpc_table {
	const char *object, *name;
	const char *method, *path; // {0} stands for the first argument
	const char *args;	   // members of the body, in order; "*" is an object of members;
				   // "-" is left out
	enum rpc_table_shape shape;
	const char *pick;
};

struct rpc_table_request {
	enum rpc_table_shape shape;
	const char *method;
	struct buf target; // behind the sandbox's own path
	struct buf body;
	bool has_body;
	int64_t pipe;				// UPLOAD: the number of the stream
	uint64_t written;			// WRITTEN
	int64_t functions[RPC_TABLE_FUNCTIONS]; // CALLS: their numbers; 0: none
};

// NULL: there is none.
const struct rpc_table *rpc_table_find(struct str object, struct str name);
// INVALID bad_rpc, bad_field. rpc_table_done() is due in any case.
fallible rpc_table_write(const struct rpc_table *row, const struct json *args,
			 struct rpc_table_request *out);
void rpc_table_done(struct rpc_table_request *request);
