// A tape as an event stream. Each run of output is one event, with an id from which a client
// resumes after it lost its connection. A slow client blocks the command once the tape is full; a
// client that disconnects does not affect it. Bytes that a client cannot get are announced by
// `detached` and `truncated` events.
#pragma once

#include "codec/json.h"
#include "toolbox/exec_request.h"

#define FOLLOW_CUT_MAX 3 // longest incomplete UTF-8 sequence

// A resume position: an offset of the tape. If a UTF-8 sequence of one stream was incomplete while
// the other stream went on, `sent` counts the bytes of the other stream after the offset that were
// sent. "123" or "123.4".
struct follow_from {
	uint64_t offset, sent;
};
bool follow_from_read(struct str text, struct follow_from *out);

struct follow {
	// set by the caller
	struct http *x;
	struct tape *tape; // referenced
	enum exec_request_encoding encoding;
	const char *process; // named in every event; NULL: not named
	struct follow_from from;
	struct buf out; // BUF_INIT of FOLLOW_OUT_MAX plus the caller's own events
	// private
	char *room;
	struct tape_reader reader;
	uint64_t offset; // end of what was read
	uint64_t told;	 // missed bytes that the last `truncated` event announced
	bool told_any;
	bool was_detached; // a `detached` event is still to be sent
	uint64_t detached_at;
	bool joined; // the first run was read
	struct {
		char bytes[FOLLOW_CUT_MAX];
		size_t len;
		uint64_t at;   // offset of the first byte
		uint64_t sent; // bytes of the other stream after `at` that were sent
	} cut[TAPE_STREAMS];
};
#define FOLLOW_OUT_MAX (512 * 1024)

void follow_done(struct follow *follow);
#define auto_follow on_exit_call(follow_done) struct follow

// follow_prepare() comes before all others. The head of the reply is sent with the first events, or
// at once by follow_begin().
void follow_prepare(struct follow *follow);
fallible follow_begin(struct follow *follow);
// Writes an event of another type: begin, put fields, end. It is sent with the next events or at
// the next wait.
struct json_out follow_event(struct follow *follow, const char *type);
void follow_event_end(struct json_out *out);
// Reads the next run of the tape into follow->room, for callers that make their own events of it;
// 0: the end. Buffered events, or the head of the reply, are sent before it waits.
fallible follow_next(struct follow *follow, enum tape_stream *stream, size_t *out_len);
// Sends everything up to the end of the tape.
fallible follow_tape(struct follow *follow);
// Sends a text as if it were the last output of a stream.
void follow_tail(struct follow *follow, enum tape_stream stream, struct str text);
// follow_flush() sends the buffered events; follow_end() also ends the reply.
fallible follow_flush(struct follow *follow);
fallible follow_end(struct follow *follow);

// Writes whether output is missing, and how much, as this stream shows it.
void follow_put_result(const struct follow *follow, struct json_out *out,
		       const struct exec_result *result);
void follow_put_ending(struct json_out *out, const struct exec_result *result);

// The bytes of a tape as the body of a reply that has begun.
struct follow_raw {
	bool all;  // both streams
	bool live; // with `reader` attached: to the end of the tape
	enum tape_stream stream;
	uint64_t offset; // offset in the tape
	uint64_t skip;	 // bytes of the stream to skip
	uint64_t until;	 // end offset, unless live
	struct tape_reader reader;
};
fallible follow_raw(struct http *x, struct tape *tape, struct follow_raw *raw); // ends the reply
