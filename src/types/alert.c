// inactive -> pending -> firing -> resolved -> pending. A condition that ends while it is pending
// never fires. Within the quiet time after a firing that was sent, only the resolution of that
// firing is sent; if the alert fires when the time is over and nobody was told, one notice follows.
// A silenced alert sends nothing, and is told of when the silence ends and it still fires.
#include "types/alert.h"

static const char *const alert_state_words[] = {
#define X(name, word) word,
	ALERT_STATES(X)
#undef X
};

const char *alert_state_word(enum alert_state state)
{
	return alert_state_words[state];
}

const char *alert_severity_word(enum alert_severity severity)
{
	return severity == ALERT_CRITICAL ? "critical" : "warning";
}

static void alert_enter(struct alert *alert, enum alert_state state, int64_t now_ms)
{
	alert->state = state;
	alert->last_ms = now_ms;
}

// Sends the firing, or holds it back.
static enum alert_notice alert_send_firing(struct alert *alert, int64_t quiet_ms, int64_t now_ms)
{
	alert->held = now_ms < alert->quiet_ms || now_ms < alert->silenced_ms;
	if (alert->held)
		return ALERT_NO_NOTICE;
	alert->quiet_ms = now_ms + quiet_ms;
	alert->owes = true;
	return ALERT_SEND_FIRING;
}

static enum alert_notice alert_resolve(struct alert *alert, int64_t now_ms)
{
	bool owes = alert->owes;

	alert_enter(alert, ALERT_RESOLVED, now_ms);
	alert->resolved_ms = now_ms;
	alert->owes = alert->held = false;
	return owes && now_ms >= alert->silenced_ms ? ALERT_SEND_RESOLVED : ALERT_NO_NOTICE;
}

static void alert_begin(struct alert *alert, int64_t now_ms)
{
	alert_enter(alert, ALERT_PENDING, now_ms);
	alert->since_ms = now_ms;
	alert->fired_ms = alert->resolved_ms = alert->acknowledged_ms = 0;
	alert->acknowledged_by[0] = '\0';
}

bool alert_step(struct alert *alert, const struct alert_seen *seen, int64_t for_ms,
		int64_t quiet_ms, int64_t now_ms, enum alert_notice *out_notice)
{
	enum alert_state before = alert->state;
	bool held = alert->held;

	*out_notice = ALERT_NO_NOTICE;
	if (seen->known && seen->holds) {
		alert->value = seen->value;
		alert->good = 0;
		if (alert->state == ALERT_INACTIVE || alert->state == ALERT_RESOLVED)
			alert_begin(alert, now_ms);
		if (alert->state == ALERT_PENDING && now_ms - alert->since_ms >= for_ms) {
			alert_enter(alert, ALERT_FIRING, now_ms);
			alert->fired_ms = now_ms;
			*out_notice = alert_send_firing(alert, quiet_ms, now_ms);
		}
	} else if (seen->known && alert->state == ALERT_PENDING) {
		alert_enter(alert, alert->resolved_ms ? ALERT_RESOLVED : ALERT_INACTIVE, now_ms);
	} else if (seen->known && alert->state == ALERT_FIRING && ++alert->good >= ALERT_GOOD) {
		*out_notice = alert_resolve(alert, now_ms);
	}
	if (alert->state == ALERT_FIRING && before == ALERT_FIRING && alert->held)
		*out_notice = alert_send_firing(alert, quiet_ms, now_ms);
	return alert->state != before || alert->held != held || *out_notice != ALERT_NO_NOTICE;
}
