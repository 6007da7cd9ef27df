// A lease as the store keeps it: JSON with a version. Reading is all or nothing, because half a
// lease could name the wrong runner; only the next generation is recovered from a damaged record.
#include "base/secret.h"
#include "codec/json.h"
#include "types/lease.h"

#define NUMBER_MAX (1ll << 53)
#define TEXT_MAX 4096

#define TEXTS(X) X(instance) X(run) X(error) X(attempt)
#define NUMBERS(X)                                                                                 \
	X(generation)                                                                              \
	X(run_generation)                                                                          \
	X(connection)                                                                              \
	X(deadline_ms)                                                                             \
	X(requested_ms) X(next_attempt_ms) X(attempts) X(attempt_ms) X(exhausted_ms) X(recheck_ms)

void lease_write(struct buf *buf, const struct lease *lease)
{
	struct json_out out = json_to(buf);

	json_begin(&out, '{');
	json_put_int(&out, "v", LEASE_VERSION);
	json_put_text(&out, "state", lease_state_word(lease->state));
	json_put_int(&out, "next_generation", (int64_t)lease->next_generation);
#define X(name) json_put_text(&out, #name, lease->name);
	TEXTS(X)
#undef X
#define X(name) json_put_int(&out, #name, (int64_t)lease->name);
	NUMBERS(X)
#undef X
	json_put_bool(&out, "whole_session", lease->whole_session);
	json_put_text(&out, "reason", lease_reason_word(lease->reason));
	json_put_text(&out, "sandbox", lease->place.sandbox);
	json_put_text(&out, "boot", lease->place.boot);
	json_put_int(&out, "leaf", lease->place.exec_cgroup);
	json_put_int(&out, "pid", lease->place.pid);
	json_put_int(&out, "start", (int64_t)lease->place.start);
	json_put_int(&out, "program", (int64_t)lease->place.program);
	json_end(&out, '}');
}

static bool lease_text_take(const struct json *object, const char *key, char *room, size_t size)
{
	struct str text = {0};
	auto_err err = json_str(json_get(object, key), key, &text);

	if (err || !text.at || text.len >= size)
		return false;
	memcpy(room, text.at, text.len);
	room[text.len] = '\0';
	return true;
}

static bool take_number(const struct json *object, const char *key, uint64_t max, uint64_t *out)
{
	const struct json *value = json_get(object, key);
	auto_err err = json_u64(value, key, 0, max, out);

	return value && !err;
}

static bool lease_text_take_word(const struct json *object, const char *key,
				 const char *(*word)(int), int count, int *out)
{
	char text[40];

	if (!lease_text_take(object, key, text, sizeof(text)))
		return false;
	for (int i = 0; i < count; i++) {
		if (strcmp(word(i), text) == 0) {
			*out = i;
			return true;
		}
	}
	return false;
}

static const char *state_at(int i)
{
	return lease_state_word((enum lease_state)i);
}

static const char *reason_at(int i)
{
	return lease_reason_word((enum lease_reason)i);
}

static bool lease_text_take_place(const struct json *object, struct lease_place *place)
{
	uint64_t exec_cgroup, pid;

	if (!lease_text_take(object, "sandbox", place->sandbox, sizeof(place->sandbox)) ||
	    !lease_text_take(object, "boot", place->boot, sizeof(place->boot)) ||
	    !take_number(object, "leaf", UINT32_MAX, &exec_cgroup) ||
	    !take_number(object, "pid", INT32_MAX, &pid) ||
	    !take_number(object, "start", NUMBER_MAX, &place->start) ||
	    !take_number(object, "program", NUMBER_MAX, &place->program))
		return false;
	place->exec_cgroup = (uint32_t)exec_cgroup;
	place->pid = (int)pid;
	return true;
}

static bool lease_text_take_all(const struct json *object, struct lease *lease)
{
	int state = 0, reason = 0;
	auto_err err = OK;
	uint64_t number;

	if (!take_number(object, "v", LEASE_VERSION, &number) || number != LEASE_VERSION)
		return false;
	if (!take_number(object, "next_generation", NUMBER_MAX, &lease->next_generation))
		return false;
#define X(name)                                                                                    \
	if (!lease_text_take(object, #name, lease->name, sizeof(lease->name)))                     \
		return false;
	TEXTS(X)
#undef X
#define X(name)                                                                                    \
	if (!take_number(object, #name, NUMBER_MAX, &number))                                      \
		return false;                                                                      \
	lease->name = (__typeof__(lease->name))number;
	NUMBERS(X)
#undef X
	if (!lease_text_take_word(object, "state", state_at, LEASE_STATE_COUNT, &state) ||
	    !lease_text_take_word(object, "reason", reason_at, LEASE_REASON_COUNT, &reason) ||
	    !lease_text_take_place(object, &lease->place) || !json_get(object, "whole_session"))
		return false;
	err = json_bool(json_get(object, "whole_session"), "whole_session", &lease->whole_session);
	lease->state = (enum lease_state)state;
	lease->reason = (enum lease_reason)reason;
	return !err;
}

// The fields that a lease of that state must have.
static bool is_sound(const struct lease *lease)
{
	if (lease->next_generation == 0 || lease->generation >= lease->next_generation ||
	    lease->attempts > LEASE_ATTEMPTS_MAX)
		return false;
	if (lease_is_owned(lease))
		return lease_is_instance(str_of(lease->instance)) && lease->generation > 0 &&
		       (lease->state == LEASE_ACTIVE || lease->deadline_ms > 0);
	if (lease->state == LEASE_STOP_NEEDED)
		return lease->next_attempt_ms > 0;
	if (lease->state == LEASE_STOPPING)
		return lease->attempt[0] && lease->attempt_ms > 0 && lease->attempts > 0;
	return true;
}

bool lease_read(struct str text, struct lease *out)
{
	struct lease lease = {0};
	auto_json object = NULL;
	auto_err err = text.len <= TEXT_MAX ? json_read(text, &object) : OK;

	if (!err && object && json_type(object) == JSON_OBJECT &&
	    lease_text_take_all(object, &lease) && is_sound(&lease)) {
		*out = lease;
		return true;
	}
	*out = (struct lease){0};
	if (object && json_type(object) == JSON_OBJECT &&
	    !take_number(object, "next_generation", NUMBER_MAX, &out->next_generation))
		out->next_generation = 0;
	return false;
}

void lease_new_instance(char out[LEASE_INSTANCE_LEN + 1])
{
	memcpy(out, "instance_", 9);
	secret_hex(out + 9, 16);
}

void lease_new_attempt(char out[LEASE_ATTEMPT_LEN + 1])
{
	secret_hex(out, LEASE_ATTEMPT_LEN / 2);
}

bool lease_is_instance(struct str text)
{
	if (text.len != LEASE_INSTANCE_LEN || !str_starts(text, "instance_"))
		return false;
	for (size_t i = 9; i < text.len; i++)
		if (!strchr("0123456789abcdef", text.at[i]))
			return false;
	return true;
}
