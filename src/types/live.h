// Messages of the clients of /v1/live, as JSON texts: {op:"sub", id, topic, …}, {op:"set", id, …},
// {op:"unsub", id}, {op:"ack", id, bytes}. The id is the client's name of a subscription. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"

#define LIVE_MESSAGE_MAX (32 * 1024) // bytes of a message
#define LIVE_ID_MAX 32		     // of a subscription: letters, digits, - _ . :
#define LIVE_BOXES_MAX 64	     // sandboxes that a subscription watches
#define LIVE_KINDS_MAX 16
#define LIVE_WORD_MAX 63    // of a kind of events, an id, a name of a sandbox
#define LIVE_OBJECT_MAX 240 // of what a log is of
#define LIVE_EVERY_MIN_MS 250
#define LIVE_EVERY_MAX_MS 60000

// clang-format off
#define LIVE_TOPICS(X) \
	X(EVENTS,     "events") \
	X(BOXES,      "sandboxes") \
	X(STATS,      "stats") \
	X(HOST,       "host") \
	X(OPERATIONS, "operations") \
	X(LOG,        "log")

// The fields of a row of the topic `sandboxes`: those of the list's view=summary.
//	  bit         word
#define LIVE_FIELDS(X) \
	X(SHORT_ID,   "shortId") \
	X(NAME,       "name") \
	X(STATE,      "state") \
	X(REASON,     "reason") \
	X(TENANT,     "tenant") \
	X(TEMPLATE,   "template") \
	X(LABELS,     "labels") \
	X(CREATED,    "createdAt") \
	X(CPU,        "cpu") \
	X(MEMORY,     "memory") \
	X(PIDS,       "pids") \
	X(DISK,       "disk") \
	X(REQUESTS,   "requests") \
	X(LIMITS,     "limits")
// clang-format on
enum live_topic {
#define X(name, word) LIVE_##name,
	LIVE_TOPICS(X)
#undef X
		LIVE_TOPIC_COUNT
};
enum live_field_bit {
#define X(name, word) LIVE_BIT_##name,
	LIVE_FIELDS(X)
#undef X
		LIVE_FIELD_COUNT
};
enum live_field {
#define X(name, word) LIVE_FIELD_##name = 1 << LIVE_BIT_##name,
	LIVE_FIELDS(X)
#undef X
		LIVE_FIELDS_ALL = (1 << LIVE_FIELD_COUNT) - 1
};
// Of the last sample; the others are of the record.
#define LIVE_FIELDS_SAMPLE                                                                         \
	((unsigned)(LIVE_FIELD_CPU | LIVE_FIELD_MEMORY | LIVE_FIELD_PIDS | LIVE_FIELD_DISK |       \
		    LIVE_FIELD_REQUESTS))

const char *live_topic_word(enum live_topic topic);

// What a subscription asks for: the members that its topic has.
struct live_terms {
	bool has_after;
	uint64_t after; // events: the number of the last one that the client has
	char kinds[LIVE_KINDS_MAX][LIVE_WORD_MAX + 1];
	size_t kind_count;	     // 0: all
	char box[LIVE_WORD_MAX + 1]; // "": of all
	char boxes[LIVE_BOXES_MAX][LIVE_WORD_MAX + 1];
	size_t box_count;
	unsigned fields; // bits of enum live_field
	uint32_t every_ms;
	char object[LIVE_OBJECT_MAX + 1], stream[8];
	uint64_t offset;
};

enum live_op { LIVE_SUB, LIVE_SET, LIVE_UNSUB, LIVE_ACK };

struct live_message {
	enum live_op op;
	char id[LIVE_ID_MAX + 1];
	enum live_topic topic; // of SUB
	struct live_terms terms;
	uint64_t bytes; // of ACK
};

// `topic_of` finds the topic of a subscription that a SET changes, LIVE_TOPIC_COUNT: there is none.
// INVALID bad_json, bad_field, unknown_field; NOT_FOUND no_subscription. out->id is set, "" if it
// is malformed, in any case.
fallible live_message_read(struct str text, enum live_topic (*topic_of)(void *arg, const char *id),
			   void *arg, struct live_message *out);
