// Messages of capnweb (0.8): remote calls as JSON arrays. A message is an array that begins with
// its kind; a value is JSON, except that an array which is not doubled, [[…]], is special:
// ["undefined"], ["bytes", base64], ["pipeline", id, path, arguments]. No I/O.
#pragma once

#include "codec/json.h"

#define RPC_ID_MAX (1ll << 31) // bound of ids of either sign

enum rpc_kind {
	RPC_PUSH,    // [push, expression]: evaluate it; the result gets the next number
	RPC_PULL,    // [pull, id]: send the result
	RPC_RESOLVE, // [resolve, id, value]
	RPC_REJECT,  // [reject, id, error]
	RPC_RELEASE, // [release, id, count]: the object is no longer needed
	RPC_PIPE,    // [pipe]: a stream that the sender writes to; it gets the next number
	RPC_STREAM,  // [stream, expression]: as push, answered and released at once
	RPC_ABORT,   // [abort, error]: the sender leaves
};

struct rpc_message {
	enum rpc_kind kind;
	int64_t id;		  // pull, resolve, reject, release
	uint64_t count;		  // release
	const struct json *value; // push, stream, resolve, reject, abort; borrowed
};

// INVALID bad_rpc.
fallible rpc_read(const struct json *root, struct rpc_message *out);

enum rpc_type {
	RPC_PLAIN, // null, a boolean, a number, a string, an object
	RPC_ARRAY,
	RPC_UNDEFINED,
	RPC_DATE,
	RPC_BYTES,
	RPC_ERROR,
	RPC_NUMBER, // a number that JSON lacks: bigint, inf, -inf, nan
	RPC_EXPORT, // an object of the sender: `id`
	RPC_PROMISE,
	RPC_IMPORT,   // an object of the receiver
	RPC_PIPELINE, // the result of a call, or a property of an object, of the receiver
	RPC_READABLE, // the end of a pipe
	RPC_WRITABLE,
	RPC_OTHER, // known, but not used here: headers, request, response, blob, remap
};

struct rpc_value {
	enum rpc_type type;
	int64_t id;		  // of the named object
	const struct json *plain; // PLAIN: the value; ARRAY: the elements; DATE: a number, or NULL
	struct str text;	  // BYTES: base64; ERROR: its message; NUMBER: the word
	const struct json *path;  // PIPELINE: an array of strings and numbers; NULL: none
	const struct json *args;  // PIPELINE: an array of values; NULL: no call
	const struct json *details; // ERROR: an object; NULL: none
};

// Classifies one value. NULL json is null. INVALID bad_rpc.
fallible rpc_value(const struct json *json, struct rpc_value *out);

// Writes the value as plain JSON: arrays single, dates as text, bytes as base64, undefined members
// omitted. INVALID bad_rpc for values without such a form.
fallible rpc_plain(const struct json *json, struct json_out *out);
// The same for the members of an object, without its braces.
fallible rpc_plain_members(const struct json *object, struct json_out *out);
// The content of ["bytes", …]; false: malformed, or too large for `out`.
bool rpc_bytes(struct str base64, struct buf *out);

// Converts plain, valid JSON to a value: every array is doubled. In pieces: `wrapper` is zeroed at
// first.
struct rpc_wrapper {
	bool quoted, escaped;
};
void rpc_wrap(struct rpc_wrapper *wrapper, struct buf *out, struct str json);
// The same for a tree; NULL is null.
void rpc_put(struct json_out *out, const struct json *json);
void rpc_put_bytes(struct json_out *out, const void *bytes, size_t len);
