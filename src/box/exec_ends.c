// The fds of a command that do not end on a tape: a stdin that stays open, the master of a pty, the
// dialogue of a shell. The type of each fd that pid 1 sends is checked first; a wrong one is
// BAD_PEER.
//
// syscalls: close fstat newfstatat
#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/auto.h"
#include "box/exec_private.h"
#include "box/pipe.h"
#include "loop/closer.h"
#include "os/fd.h"

static bool is_master(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(5, 2);
}

static bool is_a(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

static fallible exec_take_stdio(struct exec *exec, const int *fds, int count)
{
	bool sound;

	for (int i = 0; i < count; i++)
		exec->stdio[i] = fds[i];
	if (exec->flags & TALK_EXEC_PTY)
		sound = is_master(fds[0]) &&
			(count == 1 || (is_a(fds[1], S_IFIFO) && is_a(fds[2], S_IFIFO)));
	else
		sound = is_a(fds[0], S_IFIFO) && is_a(fds[1], S_IFIFO) && is_a(fds[2], S_IFSOCK);
	if (sound)
		return OK;
	exec_close_stdio(exec);
	return err_new(BAD_PEER, "bad_pipe", "pid 1 sent something that is no terminal");
}

fallible exec_open_ends(struct exec *exec, const int *fds)
{
	struct str input = {0};

	if (exec->pipeless)
		return err_sys(EMFILE, "take the pipes of a command");
	if (exec->flags & TALK_EXEC_PTY)
		return exec_take_stdio(exec, fds, exec->flags & TALK_EXEC_SPOOL ? 3 : 1);
	if ((exec->flags & TALK_EXEC_DIALOGUE) && !exec->taped)
		return exec_take_stdio(exec, fds, 3);
	if (exec->flags & TALK_EXEC_DIALOGUE) {
		if (!is_a(fds[2], S_IFSOCK))
			return exec_take_stdio(exec, fds, 3); // refuses it and closes all three
		exec->stdio[2] = fds[2];
	}
	if (exec->flags & TALK_EXEC_STDIN)
		input = exec->input.at ? exec->input : STR("");
	exec->pipes.at = &exec->box->at;
	exec->pipes.pace = &exec->box->pace;
	exec->pipes.lent = exec->flags & TALK_EXEC_KEEP_IN;
	return pipes_open(&exec->pipes, exec->box->loop, exec->tape, fds, input);
}

void exec_close_stdio(struct exec *exec)
{
	for (int i = 0; i < 3; i++)
		closer_drop(&exec->stdio[i]);
}

int exec_take_master(struct exec *exec)
{
	return exec->flags & TALK_EXEC_PTY ? take_fd(&exec->stdio[0]) : -1;
}

void exec_take_spool(struct exec *exec, int ends[2])
{
	bool has = exec->flags & TALK_EXEC_SPOOL;

	ends[0] = has ? take_fd(&exec->stdio[1]) : -1;
	ends[1] = has ? take_fd(&exec->stdio[2]) : -1;
}

struct exec_dialogue exec_take_dialogue(struct exec *exec)
{
	if (!(exec->flags & TALK_EXEC_DIALOGUE))
		return (struct exec_dialogue){-1, -1, -1};
	return (struct exec_dialogue){take_fd(&exec->stdio[0]), take_fd(&exec->stdio[1]),
				      take_fd(&exec->stdio[2])};
}

// pid 1 has a copy of stdin and must close it too, or the command sees no end of file.
void exec_close_stdin(struct exec *exec)
{
	struct talk talk = {.kind = TALK_SHUT, .conn = exec->conn};
	char room[16];

	if (exec->phase != EXEC_RUNNING)
		return;
	if (exec->flags & TALK_EXEC_KEEP_IN)
		exec->owes_shut = channel_send(&exec->box->channel, room,
					       talk_encode(&talk, room, sizeof(room)), NULL,
					       0) == CHANNEL_FULL;
	pipes_close_in(&exec->pipes);
}
