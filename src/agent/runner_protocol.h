// Messages between daemon and runner: one JSON object per line, both ways (docs/RUNNER.md). Input
// from a runner is hostile: bounded and checked here, then checked against the fence by
// agent/handler.
#pragma once

#include "agent/private.h"
#include "base/buf.h"
#include "codec/json.h"

#define RUNNER_PROTOCOL 1
#define RUNNER_LINE_MAX (AGENT_INPUT_MAX + 65536)
#define RUNNER_ID_MAX 64 // of a question

// clang-format off
#define RUNNER_KINDS(X) \
	X(HELLO, "hello") X(ACCEPTED, "accepted") X(REFUSED, "refused") X(OUTPUT, "output") \
	X(QUESTION, "question") X(RESULT, "result") X(PONG, "pong") X(HEARTBEAT, "heartbeat")
// clang-format on
enum runner_kind {
#define X(name, word) RUNNER_##name,
	RUNNER_KINDS(X)
#undef X
		RUNNER_KIND_COUNT
};

struct runner_message {
	enum runner_kind kind;
	struct json *tree; // owned; the slices point into it
	// HELLO
	struct str session, instance, version;
	uint64_t generation, protocol;
	uint16_t port;
	// All kinds except PONG and HEARTBEAT.
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

// INVALID bad_message, bad_json, bad_field. The caller frees *out by runner_free().
fallible runner_read(struct str line, struct runner_message **out);
void runner_free(struct runner_message *message);

// Messages of the daemon; each adds one line.
void runner_attach(struct buf *out, const struct agent_session *agent, uint64_t connection,
		   uint64_t seq);
void runner_run(struct buf *out, const struct run *run, uint64_t connection);
void runner_ack(struct buf *out, const struct run *run, uint64_t seq);
void runner_ping(struct buf *out, uint64_t number);
void runner_interrupt(struct buf *out, const struct run *run);
void runner_answer(struct buf *out, const struct run *run, struct str question, struct str answer);
