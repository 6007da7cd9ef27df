// Encodes the EXEC message that asks pid 1 to start a command, and turns its FAILED into the error
// that a client sees. Sizes and counts are checked before anything is sent.
#include "box/exec_message.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define SHOWN 200 // bytes of a name shown in a message
#define PIPE_HOLDS 65536
#define TEXT_EXTRA 8 // length, NUL and reserve of a text

static fallible too_large(void)
{
	return err_hint(err_new(TOO_LARGE, "command_too_large",
				"command and environment together are too large"),
			"at most %d KiB and %d words; write long scripts to a file, or send them "
			"to stdin",
			TALK_SIZE_MAX / 1024, TALK_ARGS_MAX);
}

static bool exec_message_measure(const char *const *list, uint32_t *out_count, size_t *size)
{
	uint32_t count = 0;

	for (; list[count]; count++) {
		if (count == TALK_ARGS_MAX)
			return false;
		*size += strlen(list[count]) + TEXT_EXTRA;
		if (*size > TALK_SIZE_MAX)
			return false;
	}
	*out_count = count;
	return true;
}

// Flags for what outlives the daemon beyond the process itself.
static uint32_t keep_flags(const struct exec_spec *spec, uint32_t flags)
{
	enum exec_label_kind kind = spec->label ? spec->label->kind : EXEC_LABEL_EXEC;

	if (kind == EXEC_LABEL_PROCESS || kind == EXEC_LABEL_TERM || kind == EXEC_LABEL_CONTEXT ||
	    spec->keeps)
		flags |= TALK_EXEC_KEEP;
	// Input that does not fit into the pipe is only in our memory. After a crash an early end
	// of stdin is better than a hole.
	if ((kind == EXEC_LABEL_PROCESS && spec->open_stdin &&
	     spec->stdin_bytes.len <= PIPE_HOLDS) ||
	    kind == EXEC_LABEL_SESSION || kind == EXEC_LABEL_CONTEXT ||
	    (kind == EXEC_LABEL_PROCESS && spec->dialogue))
		flags |= TALK_EXEC_KEEP_IN;
	if (kind == EXEC_LABEL_TERM)
		flags |= TALK_EXEC_SPOOL;
	return flags | TALK_EXEC_LABEL;
}

uint32_t exec_message_flags(const struct exec_spec *spec, uint32_t features)
{
	uint32_t flags = (spec->shell ? TALK_EXEC_SHELL : 0u) |
			 (spec->add_home ? TALK_EXEC_HOME : 0u);

	if (spec->cols)
		flags |= TALK_EXEC_PTY;
	else if (spec->dialogue)
		flags |= TALK_EXEC_DIALOGUE;
	else if (spec->stdin_bytes.at || spec->open_stdin)
		flags |= TALK_EXEC_STDIN;
	if (features & TALK_CAN_SYNC)
		flags |= TALK_EXEC_PACES;
	return features & TALK_CAN_RETURN ? keep_flags(spec, flags) : flags;
}

fallible exec_message_encode(const struct exec_spec *spec, uint32_t flags, uint32_t conn,
			     uint32_t exec_cgroup, struct str label, char **out, size_t *out_len)
{
	struct talk talk = {.kind = TALK_EXEC, .conn = conn};
	size_t size = 64 + strlen(spec->user) + strlen(spec->cwd) + label.len;
	size_t len;
	char *room;

	talk.exec.flags = flags;
	talk.exec.tag = label;
	talk.exec.cols = spec->cols;
	talk.exec.rows = spec->cols ? spec->rows : 0;
	talk.exec.exec_cgroup = exec_cgroup;
	talk.exec.user = str_of(spec->user);
	talk.exec.cwd = str_of(spec->cwd);
	talk.exec.argv = (const char **)spec->argv;
	talk.exec.env = (const char **)spec->env;
	if (!exec_message_measure(spec->argv, &talk.exec.argc, &size) ||
	    !exec_message_measure(spec->env, &talk.exec.envc, &size) || size > TALK_SIZE_MAX)
		return too_large();
	if (spec->cols > TALK_SIDE_MAX || spec->rows > TALK_SIDE_MAX || (spec->cols && !spec->rows))
		return err_hint(err_new(INVALID, "bad_size", "no terminal has that size"),
				"1 to %d columns and rows", TALK_SIDE_MAX);
	if (talk.exec.argc == 0 || (!spec->shell && !spec->argv[0][0]))
		return err_new(INVALID, "no_command", "the command is empty");
	room = mem_grow(NULL, size, 1);
	len = talk_encode(&talk, room, size);
	if (len == 0) {
		free(room);
		return too_large();
	}
	*out = room;
	*out_len = len;
	return OK;
}

fallible exec_message_box_lost(void)
{
	return err_new(UNAVAILABLE, "box_lost", "the sandbox has ended");
}

static fallible explain_exec(int errnum, const char *name)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG:
	case ELOOP:
		return err_hint(err_new(NOT_FOUND, "command_not_found",
					"there is no command '%.*s' in the sandbox", SHOWN, name),
				"is it installed, and in PATH?");
	case E2BIG:
		return too_large();
	case ENOMEM:
	case EAGAIN:
		return err_new(EXHAUSTED, "no_memory",
			       "the sandbox has no memory left to start a command");
	default:
		return err_hint(err_new(FORBIDDEN, "not_executable",
					"'%.*s' cannot be executed: %s", SHOWN, name,
					strerror(errnum)),
				"it needs the executable bit, and a format of this machine");
	}
}

fallible exec_message_too_many(void)
{
	return err_hint(err_new(EXHAUSTED, "too_many_execs", "the sandbox runs too many commands"),
			"wait for some of them to end");
}

fallible exec_message_explain(const struct talk *failed, const struct exec_spec *spec)
{
	int errnum = failed->failed.errnum;

	switch (failed->failed.step) {
	case TALK_STEP_NONE:
		return exec_message_box_lost();
	case TALK_STEP_BUSY:
	case TALK_STEP_PIPE:
		return exec_message_too_many();
	case TALK_STEP_USER:
		return err_hint(err_new(INVALID, "no_user",
					"there is no user '%.*s' in the sandbox", SHOWN,
					spec->user),
				"a name of its /etc/passwd, or uid[:gid] of 0 to 65535");
	case TALK_STEP_FORK:
		return err_hint(err_new(EXHAUSTED, "too_many_processes",
					"the sandbox has reached its limit of processes"),
				"end some of them, or make the sandbox with more pids");
	case TALK_STEP_CWD:
		return err_hint(err_new(INVALID, "no_cwd", "cannot enter '%.*s': %s", SHOWN,
					spec->cwd, strerror(errnum)),
				"cwd must be a directory in the sandbox");
	case TALK_STEP_EXEC:
		return explain_exec(errnum, spec->shell ? "/bin/sh" : spec->argv[0]);
	case TALK_STEP_SETUP:
		if (errnum == EINTR)
			return err_hint(err_new(INTERNAL, "start_killed",
						"the command was killed before it began"),
					"something in the sandbox killed it; it has not run");
		return err_sys(errnum, "pid 1: set a command up");
	case TALK_STEP_JOIN:
		if (errnum == EBUSY)
			return exec_message_too_many();
		return err_sys(errnum, "pid 1: join a cgroup");
	default:
		return err_sys(errnum, "pid 1: step '%s'", talk_step_word(failed->failed.step));
	}
}
