// The words between daemon and runner: one JSON object a line, both ways (docs/RUNNER.md). What a
// runner says is hostile: it is bounded and checked here, and held against the fence by whoever
// hears it.
#pragma once

#include "base/buf.h"
#include "conv/inner.h"
#include "wire/json.h"

#define WORDS_PROTOCOL 1
#define WORDS_LINE_MAX (CONV_INPUT_MAX + 65536)
#define WORDS_ID_MAX 64 // of a question

// clang-format off
#define WORDS_KINDS(X) \
	X(HELLO, "hello") X(ACCEPTED, "accepted") X(REFUSED, "refused") X(OUTPUT, "output") \
	X(QUESTION, "question") X(RESULT, "result") X(PONG, "pong") X(HEARTBEAT, "heartbeat")
// clang-format on
enum words_kind {
#define X(name, word) WORDS_##name,
	WORDS_KINDS(X)
#undef X
		WORDS_KIND_COUNT
};

struct words {
	enum words_kind kind;
	struct json *tree; // owned; the slices point into it
	// HELLO
	struct str session, instance, version;
	uint64_t generation, protocol;
	uint16_t port;
	// all but PONG and HEARTBEAT
	uint64_t connection;
	struct str run; // at == NULL: none
	uint64_t run_generation;
	uint64_t seq; // OUTPUT, QUESTION, RESULT
	struct str question;
	struct str status; // RESULT: "completed", "failed", "interrupted"
	uint64_t number;   // PONG
	size_t bytes;	   // of the line
	struct link link;
};

// INVALID bad_words, bad_json, bad_field. The caller frees *out by words_free().
fallible words_read(struct str line, struct words **out);
void words_free(struct words *words);

// What the daemon says; each adds one line.
void words_attach(struct buf *out, const struct conv *conv, uint64_t connection, uint64_t seq);
void words_run(struct buf *out, const struct run *run, uint64_t connection);
void words_ack(struct buf *out, const struct run *run, uint64_t seq);
void words_ping(struct buf *out, uint64_t number);
void words_interrupt(struct buf *out, const struct run *run);
void words_answer(struct buf *out, const struct run *run, struct str question, struct str answer);
