// Encodes and decodes the messages of talk.h by their rows. pid 1 links this file: no allocation,
// no errors of err.h, nothing beyond libc. Every value is checked against its range on arrival, on
// both sides: a decoded message can be used without another check.
#include "protocol/talk.h"

#include "codec/pack.h"

#define SIGNAL_MAX 64
#define BIT(kind) (1u << TALK_##kind)
#define OF_NO_COMMAND                                                                              \
	(BIT(READY) | BIT(BROKEN) | BIT(ADOPT) | BIT(HELD_END) | BIT(SYNC) | BIT(SYNCED))
#define LABELLED (1u << 31) // an EXEC with its label
#define FLAGS_OF_EXEC (TALK_EXEC_SHELL | TALK_EXEC_HOME | TALK_EXEC_IF_EMPTY | TALK_EXEC_PACES)

enum talk_check_row {
	CHECK_ANY,
	CHECK_FLAGS,
	CHECK_SIDE,
	CHECK_ENV,
	CHECK_STEP,
	CHECK_PRINTABLE,
	CHECK_STATUS,
};

#define EXEC_ROW(type, field, wire, check)                                                         \
	FIELD_ROW(struct talk, exec.field, CHECK_##check, BIT(EXEC), wire)
#define EXEC_LABEL_ROW(type, field, wire, check)                                                   \
	FIELD_ROW(struct talk, exec.field, CHECK_##check, LABELLED, wire)
#define SIGNAL_ROW(type, field, wire, check)                                                       \
	FIELD_ROW(struct talk, field, CHECK_##check, BIT(SIGNAL), wire)
#define WORKER_ROW(type, field, wire, check)                                                       \
	FIELD_ROW(struct talk, worker.field, CHECK_##check, BIT(WORKER), wire)
#define LABEL_ROW(type, field, wire, check)                                                        \
	FIELD_ROW(struct talk, field, CHECK_##check, BIT(LABEL), wire)
#define HELD_ROW(type, field, wire, check)                                                         \
	FIELD_ROW(struct talk, held.field, CHECK_##check, BIT(HELD), wire)
#define READY_ROW(type, field, wire, check)                                                        \
	FIELD_ROW(struct talk, ready.field, CHECK_##check, BIT(READY), wire)
#define FAILED_ROW(type, field, wire, check)                                                       \
	FIELD_ROW(struct talk, failed.field, CHECK_##check, BIT(FAILED) | BIT(BROKEN), wire)
#define STARTED_ROW(type, field, wire, check)                                                      \
	FIELD_ROW(struct talk, started.field, CHECK_##check, BIT(STARTED), wire)
#define RAN_ROW(type, field, wire, check)                                                          \
	FIELD_ROW(struct talk, exited.field, CHECK_##check, BIT(RAN), wire)
#define EXITED_ROW(type, field, wire, check)                                                       \
	FIELD_ROW(struct talk, exited.field, CHECK_##check, BIT(RAN) | BIT(EXITED), wire)

static const struct field talk_fields[] = {
	// clang-format off
	FIELD_ROW(struct talk, conn, CHECK_ANY, OF_NO_COMMAND, FIELD_U32(0, 0))
	FIELD_ROW(struct talk, conn, CHECK_ANY, ~OF_NO_COMMAND & ~LABELLED, FIELD_U32(0, UINT32_MAX))
	TALK_EXEC_FIELDS(EXEC_ROW)
	TALK_LABEL_FIELDS(EXEC_LABEL_ROW)
	TALK_SIGNAL_FIELDS(SIGNAL_ROW)
	TALK_WORKER_FIELDS(WORKER_ROW)
	TALK_LABEL_FIELDS(LABEL_ROW)
	TALK_HELD_FIELDS(HELD_ROW)
	TALK_READY_FIELDS(READY_ROW)
	TALK_FAILED_FIELDS(FAILED_ROW)
	TALK_STARTED_FIELDS(STARTED_ROW)
	TALK_STARTED_FIELDS(RAN_ROW)
	TALK_EXITED_FIELDS(EXITED_ROW)
	// clang-format on
};

// At most one stdin, a spool only with its pty, and of HELD none of the flags that EXEC uses up.
static bool flags_are_valid(const struct talk *talk, uint32_t flags)
{
	uint32_t input = flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY | TALK_EXEC_DIALOGUE);

	return !(input & (input - 1)) && (!(flags & TALK_EXEC_SPOOL) || flags & TALK_EXEC_PTY) &&
	       !(talk->kind == TALK_HELD && flags & FLAGS_OF_EXEC);
}

static bool env_is_valid(const struct talk_exec *exec)
{
	for (uint32_t i = 0; i < exec->envc; i++)
		if (exec->env[i][0] == '=' || !strchr(exec->env[i], '='))
			return false;
	return true;
}

// The note is logged: printable ASCII only.
static bool note_is_printable(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

// As wait() reports an ended process: an exit status, or a signal with its core bit.
static bool is_exit_status(int status)
{
	int signal = status & 0x7f;

	return signal == 0 ? !(status & 0xff) : status <= 0xff && signal <= SIGNAL_MAX;
}

static bool talk_check(uint8_t check, const void *message, const void *member)
{
	const struct talk *talk = message;

	switch ((enum talk_check_row)check) {
	case CHECK_FLAGS:
		return flags_are_valid(talk, *(const uint32_t *)member);
	case CHECK_SIDE:
		return !(talk->exec.flags & TALK_EXEC_PTY) == !*(const uint16_t *)member;
	case CHECK_ENV:
		return env_is_valid(&talk->exec);
	case CHECK_STEP:
		return talk->kind == TALK_BROKEN || talk->failed.step != TALK_STEP_NONE;
	case CHECK_PRINTABLE:
		return note_is_printable(member);
	case CHECK_STATUS:
		return is_exit_status(talk->exited.status);
	default:
		return false;
	}
}

static bool has_label(const struct talk *talk)
{
	return talk->kind == TALK_EXEC && talk->exec.flags & TALK_EXEC_LABEL;
}

size_t talk_encode(const struct talk *talk, void *room, size_t size)
{
	struct pack pack;

	if (talk->kind >= TALK_KIND_COUNT)
		return 0;
	pack_init(&pack, room, size < TALK_SIZE_MAX ? size : TALK_SIZE_MAX);
	pack_u8(&pack, (uint8_t)talk->kind);
	fields_put(FIELDS(talk_fields), 1u << talk->kind, talk, &pack);
	if (has_label(talk))
		fields_put(FIELDS(talk_fields), LABELLED, talk, &pack);
	return pack.failed ? 0 : pack.len;
}

bool talk_decode(const void *bytes, size_t len, struct talk *talk)
{
	struct talk got = {.exec = {.argv = talk->exec.argv, .env = talk->exec.env}};
	struct unpack in;

	unpack_init(&in, bytes, len);
	got.kind = (enum talk_kind)unpack_u8(&in);
	if (len > TALK_SIZE_MAX || got.kind >= TALK_KIND_COUNT)
		return false;
	if (got.kind == TALK_EXEC)
		got.exec.tag = STR("");
	fields_get(FIELDS(talk_fields), talk_check, 1u << got.kind, &in, &got);
	if (!in.failed && has_label(&got))
		fields_get(FIELDS(talk_fields), talk_check, LABELLED, &in, &got);
	if (!unpack_end(&in))
		return false;
	*talk = got;
	return true;
}

bool talk_is_heard(uint8_t kind)
{
	return (kind >= TALK_READY && kind <= TALK_RAN) || kind == TALK_HELD ||
	       kind == TALK_HELD_END || kind == TALK_SYNC;
}

int talk_fds(const struct talk *talk, uint32_t flags)
{
	switch (talk->kind) {
	case TALK_EXEC:
		return -1;
	case TALK_HELD:
		flags = talk->held.flags;
		// fall through
	case TALK_STARTED:
	case TALK_RAN:
		if (flags & TALK_EXEC_PTY)
			return flags & TALK_EXEC_SPOOL ? 3 : 1;
		if (flags & (TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE))
			return 3;
		return talk->kind == TALK_RAN && talk->exited.over ? 0 : 2;
	case TALK_WORKER_IS:
	case TALK_SYNC:
		return 1;
	default:
		return 0;
	}
}

const char *talk_step_word(enum talk_step step)
{
	static const char *const words[] = {
		[TALK_STEP_NONE] = "none", [TALK_STEP_BUSY] = "busy",	[TALK_STEP_USER] = "user",
		[TALK_STEP_PIPE] = "pipe", [TALK_STEP_FORK] = "fork",	[TALK_STEP_JOIN] = "join",
		[TALK_STEP_CWD] = "cwd",   [TALK_STEP_SETUP] = "setup", [TALK_STEP_EXEC] = "exec",
	};

	return step < TALK_STEP_COUNT ? words[step] : "unknown";
}
