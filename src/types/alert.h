// An alert: a condition that holds for some time, and what has been done about it. The transitions
// are a pure function, without clock, disk or network: the caller stores the new alert first and
// sends the notice afterwards. Times are those of the steady clock in ms; 0: never.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define ALERT_ID_MAX 127
#define ALERT_WORD_MAX 39
#define ALERT_COMMENT_MAX 200
#define ALERT_GOOD 2 // evaluations without the condition until an alert is resolved

// clang-format off
#define ALERT_STATES(X) \
	X(INACTIVE, "inactive") X(PENDING, "pending") X(FIRING, "firing") X(RESOLVED, "resolved")
// clang-format on
enum alert_state {
#define X(name, word) ALERT_##name,
	ALERT_STATES(X)
#undef X
		ALERT_STATE_COUNT
};
const char *alert_state_word(enum alert_state state);
enum alert_severity { ALERT_WARNING, ALERT_CRITICAL };
const char *alert_severity_word(enum alert_severity severity);

struct alert {
	char id[ALERT_ID_MAX + 1]; // the rule, and "-" and the object if the rule has objects
	char rule[ALERT_WORD_MAX + 1];
	char object[ID_BOX_LEN + 1]; // a sandbox, or what the rule is about; "": the host
	enum alert_state state;
	enum alert_severity severity;
	double value;
	int64_t since_ms;	       // the condition holds since then
	int64_t fired_ms, resolved_ms; // of this time
	int64_t last_ms;	       // the last transition
	uint32_t good;		       // evaluations since the condition last held; not stored
	int64_t acknowledged_ms;
	char acknowledged_by[ID_NAME_MAX + 1];
	int64_t silenced_ms; // until then
	char comment[ALERT_COMMENT_MAX + 1];
	int64_t quiet_ms; // transitions until then are recorded and not sent
	bool owes;	  // its firing was sent, and so will be its resolution
	bool held;	  // it fires, and that was not sent
};

// What an evaluation has seen. Unknown changes nothing.
struct alert_seen {
	bool known, holds;
	double value;
};

enum alert_notice { ALERT_NO_NOTICE, ALERT_SEND_FIRING, ALERT_SEND_RESOLVED };

// Applies an evaluation. True: the alert has changed, and must be stored before it is shown.
bool alert_step(struct alert *alert, const struct alert_seen *seen, int64_t for_ms,
		int64_t quiet_ms, int64_t now_ms, enum alert_notice *out_notice);
