// A tape as a stream of events: each run of output is one, with an id from which a client that lost
// its connection goes on. A slow client slows the command once more was written than is kept; one
// that leaves disturbs nothing. Bytes that a client cannot get are told: `detached`, `truncated`.
#pragma once

#include "codec/json.h"
#include "toolbox/exec_request.h"

#define FOLLOW_CUT_MAX 3 // bytes of a UTF-8 sequence that lacks its end

// A place to go on from: an offset of the tape and, where a character of one stream was cut while
// the other went on, how many bytes of the other one behind it have been sent. "123" or "123.4".
struct follow_from {
	uint64_t offset, sent;
};
bool follow_from_read(struct str text, struct follow_from *out);

struct follow {
	// set by the caller
	struct http *x;
	struct tape *tape; // held
	enum exec_request_encoding encoding;
	const char *process; // named in every event; NULL: not
	struct follow_from from;
	struct buf out; // BUF_INIT of FOLLOW_OUT_MAX and what else is to fit
	// inside
	char *room;
	struct tape_reader reader;
	uint64_t offset; // behind what was read
	uint64_t told;	 // bytes missed, as the last `truncated` says
	bool told_any;
	bool was_detached; // which is still to be told
	uint64_t detached_at;
	bool joined; // the first run has come
	struct {
		char bytes[FOLLOW_CUT_MAX];
		size_t len;
		uint64_t at;   // offset of the first of them
		uint64_t sent; // bytes of the other stream behind `at` that were sent
	} cut[TAPE_STREAMS];
};
#define FOLLOW_OUT_MAX (512 * 1024)

void follow_done(struct follow *follow);
#define auto_follow on_exit_call(follow_done) struct follow

// Before anything else. The head of the reply goes with the first events, or at once.
void follow_prepare(struct follow *follow);
fallible follow_begin(struct follow *follow);
// An event of another sort: begin, put fields, end. It is sent with what follows, or at the next
// wait.
struct json_out follow_event(struct follow *follow, const char *type);
void follow_event_end(struct follow *follow, struct json_out *out);
// The next run of the tape, at follow->room, for those who make other events of it; 0: the end.
// What has gathered is sent before it waits, or the head of the reply.
fallible follow_next(struct follow *follow, enum tape_stream *stream, size_t *out_len);
// Everything up to the end of the tape.
fallible follow_tape(struct follow *follow);
// A text behind the output of a stream, as if it were part of it.
void follow_tail(struct follow *follow, enum tape_stream stream, struct str text);
// Sends what has gathered; and the same as the end of the reply.
fallible follow_flush(struct follow *follow);
fallible follow_end(struct follow *follow);

// Whether the output is cut, and how much of it is missing, as this stream shows it.
void follow_put_result(const struct follow *follow, struct json_out *out,
		       const struct exec_result *result);
void follow_put_ending(struct json_out *out, const struct exec_result *result);
