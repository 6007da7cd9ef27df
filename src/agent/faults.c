// Fault injection: one list for the process. Without --dev it stays empty, and a fault point costs
// one comparison.
#include "agent/faults.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define COUNT_MAX 1000000
#define SESSION_MAX 256

struct fault {
	struct link link;
	enum fault_point point;
	enum fault_mode mode;
	char *session; // NULL: any
	uint64_t left;
	uint32_t hanging; // tasks that hang at it
	bool over;	  // removed from the list; the last hanging task frees it
};

static struct {
	bool open;
	struct loop *loop;
	struct link all;
	struct condition cleared;
} faults;

static const char *const points[] = {
#define X(name, word) [FAULT_##name] = word,
	FAULT_POINTS(X)
#undef X
};
static const char *const modes[] = {[FAULT_MODE_NONE] = "none",
#define X(name, word) [FAULT_MODE_##name] = word,
				    FAULT_MODES(X)
#undef X
};

void faults_open(struct loop *loop)
{
	faults.open = true;
	faults.loop = loop;
	link_init(&faults.all);
	condition_init(&faults.cleared);
}

bool faults_are_open(void)
{
	return faults.open;
}

static void faults_let_go(struct fault *fault)
{
	if (fault->hanging || !fault->over)
		return;
	free(fault->session);
	free(fault);
}

static void drop(struct fault *fault)
{
	link_drop(&fault->link);
	fault->over = true;
	faults_let_go(fault);
}

void faults_clear(void)
{
	if (!faults.open)
		return;
	list_each (at, &faults.all)
		drop(link_of(at, struct fault, link));
	condition_signal(&faults.cleared);
}

static fallible find_word(struct str word, const char *what, const char *const *words, int first,
			  int count, int *out)
{
	for (int i = first; i < count; i++) {
		if (str_is(word, words[i])) {
			*out = i;
			return OK;
		}
	}
	return err_new(INVALID, "bad_field", "'%s' has an unknown value", what);
}

static bool is_for(const struct fault *fault, enum fault_point point, const char *session)
{
	return fault->point == point && fault->left &&
	       (!fault->session || (session && strcmp(fault->session, session) == 0));
}

fallible faults_set(const struct json *object)
{
	static const char *const known[] = {"point", "session", "mode", "count", NULL};
	struct str point = {0}, mode = STR("fail"), session = {0};
	uint64_t count = 1;
	struct fault *fault;
	int at = 0, how = 0;

	if (!faults.open)
		return err_hint(err_new(FORBIDDEN, "not_dev", "faults are for --dev only"),
				"start cove with --dev=on");
	TRY(json_want(object, "body", JSON_OBJECT));
	TRY(json_only(object, known));
	TRY(json_str(json_get(object, "point"), "point", &point));
	TRY(json_str(json_get(object, "mode"), "mode", &mode));
	TRY(json_str(json_get(object, "session"), "session", &session));
	TRY(json_u64(json_get(object, "count"), "count", 0, COUNT_MAX, &count));
	TRY(find_word(point, "point", points, 0, FAULT_POINT_COUNT, &at));
	TRY(find_word(mode, "mode", modes, FAULT_MODE_FAIL, FAULT_MODE_COUNT, &how));
	if (session.len > SESSION_MAX)
		return err_new(INVALID, "bad_field", "'session' is too long");
	fault = mem_new_of(struct fault);
	fault->point = (enum fault_point)at;
	fault->mode = (enum fault_mode)how;
	fault->left = count;
	fault->session = session.at ? mem_dup(session.at, session.len) : NULL;
	// A new fault replaces an old one for the same point and session.
	list_each (old_at, &faults.all) {
		struct fault *old = link_of(old_at, struct fault, link);

		if (old->point == fault->point &&
		    ((!old->session && !fault->session) ||
		     (old->session && fault->session && !strcmp(old->session, fault->session))))
			drop(old);
	}
	condition_signal(&faults.cleared);
	link_add(&faults.all, &fault->link);
	if (!count)
		drop(fault);
	return OK;
}

void faults_write(struct json_out *out)
{
	json_begin(out, '[');
	if (faults.open) {
		list_each (at, &faults.all) {
			struct fault *fault = link_of(at, struct fault, link);

			json_begin(out, '{');
			json_put_text(out, "point", points[fault->point]);
			json_put_text(out, "mode", modes[fault->mode]);
			json_put_text(out, "session", fault->session);
			json_put_int(out, "count", (int64_t)fault->left);
			json_put_int(out, "hanging", fault->hanging);
			json_end(out, '}');
		}
	}
	json_end(out, ']');
}

// Counts down the first matching fault.
static struct fault *faults_take(enum fault_point point, const char *session)
{
	if (!faults.open)
		return NULL;
	list_each (at, &faults.all) {
		struct fault *fault = link_of(at, struct fault, link);

		if (!is_for(fault, point, session))
			continue;
		log_event(LOG_INFO, "dev.fault", "point", points[point], "mode", modes[fault->mode],
			  "session", session, NULL);
		fault->left--;
		return fault;
	}
	return NULL;
}

// A hanging task continues when this fault is cleared or replaced.
static fallible hang(struct fault *fault, int64_t deadline)
{
	struct err *err = OK;

	fault->hanging++;
	while (!err && !fault->over)
		err = condition_wait(&faults.cleared, deadline);
	fault->hanging--;
	if (!fault->over && !fault->left && !fault->hanging)
		drop(fault);
	else
		faults_let_go(fault);
	return err;
}

fallible faults_meet_until(enum fault_point point, const char *session, int64_t deadline)
{
	struct fault *fault = faults_take(point, session);
	enum fault_mode mode = fault ? fault->mode : FAULT_MODE_NONE;

	if (fault && mode != FAULT_MODE_HANG && !fault->left)
		drop(fault);
	switch (mode) {
	case FAULT_MODE_FAIL:
		return err_new(INTERNAL, "fault", "a fault was set at '%s'", points[point]);
	case FAULT_MODE_ENOSPC:
		if (point == FAULT_PERSIST)
			return err_new(UNAVAILABLE, "state_unwritable",
				       "the state cannot be written: no space is left");
		return err_new(NO_SPACE, "no_space", "no space is left");
	case FAULT_MODE_HANG:
		return hang(fault, deadline);
	default:
		return OK;
	}
}

fallible faults_meet(enum fault_point point, const char *session)
{
	return faults_meet_until(point, session, CLOCK_NEVER);
}
