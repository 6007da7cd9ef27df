// pid 1 links this file: no allocation, no errors of err.h, nothing beyond libc. Every value is
// checked against its range on arrival, on both sides: a decoded message can be used without
// another check.
#include "protocol/talk.h"

#include "codec/pack.h"

#define USER_MAX 64
#define CWD_MAX 4095
#define NUMBER_MAX (1ull << 53) // the largest integer that JSON can carry
#define ERRNO_MAX 4095
#define SIGNAL_MAX 64

static void put_list(struct pack *pack, uint32_t count, const char *const *list)
{
	pack_u32(pack, count);
	for (uint32_t i = 0; i < count; i++)
		pack_text(pack, str_of(list[i]));
}

// Any bytes, unlike a text.
static void put_label(struct pack *pack, struct str tag)
{
	pack_u16(pack, (uint16_t)tag.len);
	if (pack->failed || tag.len > TALK_LABEL_MAX || tag.len > pack->room - pack->len) {
		pack->failed = true;
		return;
	}
	if (tag.len)
		memcpy(pack->at + pack->len, tag.at, tag.len);
	pack->len += tag.len;
}

static void put_exec(struct pack *pack, const struct talk_exec *exec)
{
	pack_u32(pack, exec->flags);
	pack_u32(pack, exec->exec_cgroup);
	pack_u16(pack, exec->cols);
	pack_u16(pack, exec->rows);
	pack_text(pack, exec->user);
	pack_text(pack, exec->cwd);
	put_list(pack, exec->argc, (const char *const *)exec->argv);
	put_list(pack, exec->envc, (const char *const *)exec->env);
	if (exec->flags & TALK_EXEC_LABEL)
		put_label(pack, exec->tag);
}

static void talk_put_body(struct pack *pack, const struct talk *talk)
{
	switch (talk->kind) {
	case TALK_EXEC:
		put_exec(pack, &talk->exec);
		break;
	case TALK_SIGNAL:
		pack_u32(pack, (uint32_t)talk->signal);
		pack_u8(pack, talk->alone);
		break;
	case TALK_FORGET:
	case TALK_WORKER_IS:
	case TALK_ADOPT:
	case TALK_SHUT:
	case TALK_HELD_END:
	case TALK_SYNC:
	case TALK_SYNCED:
		break;
	case TALK_LABEL:
		put_label(pack, talk->tag);
		break;
	case TALK_HELD:
		pack_u32(pack, talk->held.flags);
		pack_u32(pack, talk->held.exec_cgroup);
		pack_u32(pack, (uint32_t)talk->held.pid);
		pack_u8(pack, talk->held.ended);
		put_label(pack, talk->held.tag);
		break;
	case TALK_WORKER:
		pack_text(pack, talk->worker.user);
		break;
	case TALK_READY:
		pack_u32(pack, talk->ready.version);
		pack_u32(pack, talk->ready.features);
		break;
	case TALK_BROKEN:
	case TALK_FAILED:
		pack_u8(pack, (uint8_t)talk->failed.step);
		pack_u32(pack, (uint32_t)talk->failed.errnum);
		pack_text(pack,
			  (struct str){talk->failed.note,
				       strnlen(talk->failed.note, sizeof(talk->failed.note))});
		break;
	case TALK_STARTED:
		pack_u32(pack, (uint32_t)talk->started.pid);
		break;
	case TALK_RAN:
		pack_u32(pack, (uint32_t)talk->exited.pid);
		// fall through
	case TALK_EXITED:
		pack_u32(pack, (uint32_t)talk->exited.status);
		pack_u64(pack, talk->exited.max_rss);
		pack_u64(pack, talk->exited.cpu_us);
		pack_u8(pack, talk->exited.cgroup_empty);
		pack_u8(pack, talk->exited.over);
		break;
	default:
		pack->failed = true;
	}
}

size_t talk_encode(const struct talk *talk, void *room, size_t size)
{
	struct pack pack;

	pack_init(&pack, room, size < TALK_SIZE_MAX ? size : TALK_SIZE_MAX);
	pack_u8(&pack, (uint8_t)talk->kind);
	pack_u32(&pack, talk->conn);
	talk_put_body(&pack, talk);
	return pack.failed ? 0 : pack.len;
}

// A number within its range; else fails the reader and returns 0.
static uint32_t talk_ranged(struct unpack *in, uint32_t value, uint32_t min, uint32_t max)
{
	if (value >= min && value <= max)
		return value;
	in->failed = true;
	return 0;
}

static uint64_t sane(struct unpack *in)
{
	uint64_t value = unpack_u64(in);

	if (value <= NUMBER_MAX)
		return value;
	in->failed = true;
	return 0;
}

// `list` has room for TALK_ARGS_MAX and the final NULL.
static uint32_t get_list(struct unpack *in, uint32_t min, const char **list)
{
	uint32_t count = talk_ranged(in, unpack_u32(in), min, TALK_ARGS_MAX);

	for (uint32_t i = 0; i < count && !in->failed; i++)
		list[i] = unpack_text(in, TALK_SIZE_MAX).at;
	if (in->failed)
		count = 0;
	list[count] = NULL;
	return count;
}

static struct str get_label(struct unpack *in)
{
	size_t len = talk_ranged(in, unpack_u16(in), 0, TALK_LABEL_MAX);
	struct str tag = {(const char *)in->at, len};

	if (len > in->left)
		in->failed = true;
	if (in->failed)
		return STR("");
	in->at += len;
	in->left -= len;
	return tag;
}

#define FLAGS                                                                                      \
	(TALK_EXEC_STDIN | TALK_EXEC_SHELL | TALK_EXEC_HOME | TALK_EXEC_IF_EMPTY | TALK_EXEC_PTY | \
	 TALK_EXEC_DIALOGUE | TALK_EXEC_KEEP | TALK_EXEC_KEEP_IN | TALK_EXEC_SPOOL |               \
	 TALK_EXEC_LABEL | TALK_EXEC_PACES)
#define FLAGS_OF_EXEC (TALK_EXEC_SHELL | TALK_EXEC_HOME | TALK_EXEC_IF_EMPTY | TALK_EXEC_PACES)

static uint32_t get_flags(struct unpack *in)
{
	uint32_t flags = talk_ranged(in, unpack_u32(in), 0, FLAGS);
	uint32_t input = flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY | TALK_EXEC_DIALOGUE);

	if ((input & (input - 1)) || ((flags & TALK_EXEC_SPOOL) && !(flags & TALK_EXEC_PTY)))
		in->failed = true;
	return flags;
}

static void get_held(struct unpack *in, struct talk_held *held)
{
	held->flags = get_flags(in);
	if (held->flags & FLAGS_OF_EXEC)
		in->failed = true;
	held->exec_cgroup = talk_ranged(in, unpack_u32(in), 0, TALK_CGROUPS_MAX - 1);
	held->pid = (int)talk_ranged(in, unpack_u32(in), 2, INT32_MAX);
	held->ended = talk_ranged(in, unpack_u8(in), 0, 1);
	held->tag = get_label(in);
}

static uint16_t get_side(struct unpack *in, bool pty)
{
	return (uint16_t)talk_ranged(in, unpack_u16(in), pty ? 1 : 0, pty ? TALK_SIDE_MAX : 0);
}

static void get_exec(struct unpack *in, struct talk_exec *exec)
{
	exec->flags = get_flags(in);
	exec->exec_cgroup = talk_ranged(in, unpack_u32(in), 0, TALK_CGROUPS_MAX - 1);
	exec->cols = get_side(in, exec->flags & TALK_EXEC_PTY);
	exec->rows = get_side(in, exec->flags & TALK_EXEC_PTY);
	exec->user = unpack_text(in, USER_MAX);
	exec->cwd = unpack_text(in, CWD_MAX);
	exec->argc = get_list(in, 1, exec->argv);
	exec->envc = get_list(in, 0, exec->env);
	for (uint32_t i = 0; i < exec->envc; i++)
		if (exec->env[i][0] == '=' || !strchr(exec->env[i], '='))
			in->failed = true;
	exec->tag = exec->flags & TALK_EXEC_LABEL ? get_label(in) : STR("");
}

// The note is logged: printable ASCII only.
static void get_note(struct unpack *in, char *out, size_t size)
{
	struct str note = unpack_text(in, size - 1);

	for (size_t i = 0; i < note.len; i++)
		if (note.at[i] < ' ' || note.at[i] > '~')
			in->failed = true;
	memset(out, 0, size);
	memcpy(out, note.at, note.len);
}

// As wait() reports an ended process: an exit status, or a signal with its core bit.
static int get_status(struct unpack *in)
{
	uint32_t status = talk_ranged(in, unpack_u32(in), 0, 0xffff);
	uint32_t signal = status & 0x7f;

	if (signal == 0 ? status & 0xff : status > 0xff || signal > SIGNAL_MAX)
		in->failed = true;
	return (int)status;
}

static void get_body(struct unpack *in, struct talk *talk)
{
	switch (talk->kind) {
	case TALK_EXEC:
		get_exec(in, &talk->exec);
		break;
	case TALK_SIGNAL:
		talk->signal = (int)talk_ranged(in, unpack_u32(in), 1, SIGNAL_MAX);
		talk->alone = talk_ranged(in, unpack_u8(in), 0, 1);
		break;
	case TALK_ADOPT:
	case TALK_HELD_END:
	case TALK_SYNC:
	case TALK_SYNCED:
		talk_ranged(in, talk->conn, 0, 0);
		break;
	case TALK_FORGET:
	case TALK_WORKER_IS:
	case TALK_SHUT:
		break;
	case TALK_LABEL:
		talk->tag = get_label(in);
		break;
	case TALK_HELD:
		get_held(in, &talk->held);
		break;
	case TALK_WORKER:
		talk->worker.user = unpack_text(in, USER_MAX);
		break;
	case TALK_READY:
		talk_ranged(in, talk->conn, 0, 0);
		talk->ready.version = unpack_u32(in);
		talk->ready.features = unpack_u32(in);
		break;
	case TALK_BROKEN:
	case TALK_FAILED:
		if (talk->kind == TALK_BROKEN)
			talk_ranged(in, talk->conn, 0, 0);
		talk->failed.step = (enum talk_step)talk_ranged(
			in, unpack_u8(in), talk->kind == TALK_BROKEN ? 0 : 1, TALK_STEP_COUNT - 1);
		talk->failed.errnum = (int)talk_ranged(in, unpack_u32(in), 0, ERRNO_MAX);
		get_note(in, talk->failed.note, sizeof(talk->failed.note));
		break;
	case TALK_STARTED:
		talk->started.pid = (int)talk_ranged(in, unpack_u32(in), 2, INT32_MAX);
		break;
	case TALK_RAN:
		talk->exited.pid = (int)talk_ranged(in, unpack_u32(in), 2, INT32_MAX);
		// fall through
	case TALK_EXITED:
		talk->exited.status = get_status(in);
		talk->exited.max_rss = sane(in);
		talk->exited.cpu_us = sane(in);
		talk->exited.cgroup_empty = talk_ranged(in, unpack_u8(in), 0, 1);
		talk->exited.over = talk_ranged(in, unpack_u8(in), 0, 1);
		break;
	default:
		in->failed = true;
	}
}

bool talk_decode(const void *bytes, size_t len, struct talk *talk)
{
	struct talk got = {.exec = {.argv = talk->exec.argv, .env = talk->exec.env}};
	struct unpack in;

	if (len > TALK_SIZE_MAX)
		return false;
	unpack_init(&in, bytes, len);
	got.kind = (enum talk_kind)talk_ranged(&in, unpack_u8(&in), 0, TALK_KIND_COUNT - 1);
	got.conn = unpack_u32(&in);
	if (!in.failed)
		get_body(&in, &got);
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
