// A shell is an exec with a socket (the dialogue) and two pipes that serve one command after
// another. Bytes found in the pipes before a command is sent belong to background jobs and go to
// the side tape; bytes found when the end record arrives are the command's output.
//
// Input is hostile. An end record is bounded, must be due, and carries the random mark that was
// sent with the command; a shell that breaks this, or passes fds, is killed. Background subshells
// inherit the dialogue and could have read the mark: SO_PASSCRED names the sender of each message,
// and only the process that answered the greeting counts.
//
// syscalls: sendto recvmsg setsockopt
#include "box/bash.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/weak.h"
#include "box/exec_cgroup.h"
#include "loop/closer.h"
#include "os/fd.h"

#define READ 1024
#define FOREIGN_MAX 256 // messages of other processes; then the shell is killed
#define WORDS_MAX (16 << 20)
#define ATONCE 65536 // bytes that an empty socket takes at once

static void bash_shut(struct bash *shell)
{
	if (!shell->open)
		return;
	shell->open = false;
	loop_unwatch(shell->box->loop, &shell->watch);
	closer_drop(&shell->watch.fd);
}

static void free_bash(struct deferred *deferred)
{
	struct bash *shell = link_of(deferred, struct bash, free_later);

	bash_shut(shell);
	pipes_close(&shell->pipes);
	buf_done(&shell->heard);
	buf_done(&shell->told);
	tape_unref(shell->aside);
	box_unref(shell->box);
	free(shell->cwd);
	free(shell);
}

// Freed at the end of the loop turn: its callbacks may be on the stack.
static void let_go(struct bash *shell)
{
	if (--shell->refs == 0)
		loop_defer(shell->box->loop, &shell->free_later);
}

static void bash_send_next(struct bash *shell);

// Called when the pipes are settled.
static void bash_go_on(struct bash *shell)
{
	enum bash_phase phase = shell->phase;

	if (phase == BASH_CLEARING) {
		if (shell->done)
			shell->phase = BASH_DYING;
		else
			bash_send_next(shell);
	} else if (phase == BASH_SETTLING) {
		shell->phase = BASH_AT_REST;
		pipes_turn(&shell->pipes, shell->aside);
		shell->tape = NULL;
		if (shell->ended)
			shell->ended(shell);
		// The next command may have been queued meanwhile; a dead shell will not run it.
		if (shell->done && shell->phase != BASH_GONE)
			shell->phase = BASH_DYING;
	}
	if (shell->phase == BASH_DYING) {
		shell->phase = BASH_GONE;
		pipes_turn(&shell->pipes, shell->aside);
		shell->tape = NULL;
		if (shell->lost)
			shell->lost(shell);
	}
}

static void settle(struct bash *shell, enum bash_phase phase)
{
	shell->phase = phase;
	if (pipes_settle(&shell->pipes))
		bash_go_on(shell);
}

static void bash_on_moved(struct pipes *pipes)
{
	struct bash *shell = link_of(pipes, struct bash, pipes);

	shell->refs++;
	if (pipes->settling) {
		if (pipes_settled(pipes))
			bash_go_on(shell);
	} else if (shell->phase == BASH_GONE && pipes_ended(pipes) && shell->closed) {
		shell->closed(shell);
	}
	let_go(shell);
}

static void on_hold(struct pipes *pipes)
{
	link_of(pipes, struct bash, pipes)->refs++;
}

static void on_drop(struct pipes *pipes)
{
	let_go(link_of(pipes, struct bash, pipes));
}

void bash_kill(struct bash *shell)
{
	if (!shell->done)
		exec_kill(shell->exec);
}

void bash_kill_wait(struct bash *shell)
{
	struct exec *exec = shell->exec;

	if (shell->done)
		return;
	exec_ref(exec);
	exec_kill_wait(exec);
	exec_let_go(exec);
}

// Sets EXEC_LABEL_HALF before a write that the death of this daemon could cut off: the next daemon
// could not complete half a line.
static void note_half(struct bash *shell, bool half)
{
	if (shell->half == half || !shell->exec)
		return;
	shell->half = half;
	exec_label_flag(shell->exec, EXEC_LABEL_HALF, half);
}

static void bash_push(struct bash *shell)
{
	struct buf *told = &shell->told;

	if (told->len - shell->told_at > ATONCE)
		note_half(shell, true);
	while (shell->open && shell->told_at < told->len) {
		ssize_t n = send(shell->watch.fd, told->at + shell->told_at,
				 told->len - shell->told_at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			shell->told_at += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n == 0 || errno != EINTR)
			shell->told_at = told->len; // the shell is ending: its exec reports that
	}
	if (shell->open && shell->told_at < told->len) {
		note_half(shell, true);
		err_free(loop_watch(shell->box->loop, &shell->watch, EPOLLIN | EPOLLOUT));
		return;
	}
	if (shell->open && (shell->watch.events & EPOLLOUT))
		err_free(loop_watch(shell->box->loop, &shell->watch, EPOLLIN));
	shell->told_at = 0;
	note_half(shell, false);
	buf_done(told);
	*told = BUF_INIT(WORDS_MAX);
	if (shell->sent)
		shell->sent(shell);
}

static void bash_send_next(struct bash *shell)
{
	shell->phase = BASH_AT_WORK;
	pipes_turn(&shell->pipes, shell->tape);
	pipes_freeze(&shell->pipes);
	bash_push(shell);
}

static void distrust(struct bash *shell)
{
	bash_shut(shell);
	bash_kill(shell);
}

// Skips records of commands before the mark. True: the rest begins with the due end record, or is
// incomplete.
static bool skip_past(struct bash *shell)
{
	struct buf *heard = &shell->heard;
	const char *nul;

	while (heard->len && (nul = memchr(heard->at, 0, heard->len))) {
		size_t whole = (size_t)(nul - (const char *)heard->at) + 1, used;
		struct shell_end end;

		if (shell->phase == BASH_AT_WORK &&
		    shell_parse(buf_view(heard), &end, &used) == SHELL_END &&
		    end.mark == shell->mark) {
			shell->resync = false;
			return true;
		}
		buf_drop_front(heard, whole);
	}
	return heard->len < SHELL_END_MAX;
}

// Records the pid whose messages count, also for the next daemon.
static void learn_sender(struct bash *shell, int sender)
{
	if (shell->sender || sender <= 0)
		return;
	shell->sender = sender;
	exec_label_sender(shell->exec, (uint32_t)sender);
}

static bool take_end(struct bash *shell, int sender)
{
	struct shell_end end;
	size_t used = 0;

	if (shell->resync && (!skip_past(shell) || shell->resync))
		return shell->heard.len < SHELL_END_MAX;

	switch (shell_parse(buf_view(&shell->heard), &end, &used)) {
	case SHELL_MORE:
		return true;
	case SHELL_NONSENSE:
		return false;
	case SHELL_END:
		break;
	}
	if (shell->phase != BASH_AT_WORK || end.mark != shell->mark || used != shell->heard.len)
		return false;
	learn_sender(shell, sender);
	shell->status = end.status;
	shell->job = end.job;
	if (end.cwd.len && !(shell->cwd && str_is(end.cwd, shell->cwd))) {
		free(shell->cwd);
		shell->cwd = mem_dup(end.cwd.at, end.cwd.len);
	}
	buf_clear(&shell->heard);
	settle(shell, BASH_SETTLING);
	return true;
}

static void bash_receive(struct bash *shell)
{
	char room[READ];
	int sender = 0;
	ssize_t n = fd_recv_bytes(shell->watch.fd, room, sizeof(room), &sender, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0 && errno == EPROTO) {
		distrust(shell);
		return;
	}
	if (n <= 0) {
		bash_shut(shell); // a program that replaced the shell by execve may run on
		return;
	}
	if (shell->sender && sender != shell->sender && !weak(SENDER)) {
		if (++shell->foreign > FOREIGN_MAX)
			distrust(shell);
		return;
	}
	buf_add(&shell->heard, room, (size_t)n);
	if (!buf_ok(&shell->heard) || !take_end(shell, sender))
		distrust(shell);
}

static void on_dialogue(struct watch *watch, uint32_t events)
{
	struct bash *shell = link_of(watch, struct bash, watch);

	shell->refs++;
	if (events & EPOLLOUT)
		bash_push(shell);
	if (shell->open && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		bash_receive(shell);
	let_go(shell);
}

static void bash_on_done(void *arg)
{
	struct bash *shell = arg;

	shell->refs++;
	if (shell->open)
		bash_receive(shell); // the end record of its last command may be there
	bash_shut(shell);
	shell->done = true;
	if (shell->phase == BASH_AT_REST || shell->phase == BASH_AT_WORK)
		settle(shell, BASH_DYING);
	let_go(shell);
	let_go(shell); // the reference of the exec
}

static void on_cpu(void *arg)
{
	struct bash *shell = arg;

	if (shell->spent)
		shell->spent(shell);
}

void bash_limit_cpu(struct bash *shell, uint64_t cpu_us)
{
	struct box_cgroup *exec_cgroup = shell->exec->exec_cgroup;

	if (!exec_cgroup)
		return;
	box_exec_cgroup_begin(exec_cgroup, shell->exec); // drops an older limit
	if (cpu_us)
		box_exec_cgroup_limit(exec_cgroup, cpu_us);
}

static fallible watch_dialogue(struct bash *shell, int fd)
{
	struct err *err;

	shell->watch = (struct watch){.fd = fd, .ready = on_dialogue};
	shell->open = true;
	if (fd_ask_sender(fd))
		return err_sys(errno, "set SO_PASSCRED on a dialogue");
	err = loop_watch(shell->box->loop, &shell->watch, EPOLLIN);
	return err;
}

static fallible open_ends(struct bash *shell)
{
	struct exec_dialogue ends = exec_take_dialogue(shell->exec);
	int fds[] = {ends.out, ends.err};
	struct err *err;

	if (ends.dialogue < 0)
		return err_new(UNAVAILABLE, "box_lost", "the sandbox has ended");
	shell->pipes.moved = bash_on_moved;
	shell->pipes.ref = on_hold;
	shell->pipes.unref = on_drop;
	shell->pipes.serves_on = true;
	shell->pipes.at = &shell->box->at;
	shell->pipes.pace = &shell->box->pace;
	err = pipes_open(&shell->pipes, shell->box->loop, shell->aside, fds, (struct str){0});
	if (err) {
		closer_drop(&ends.dialogue);
		return err;
	}
	return watch_dialogue(shell, ends.dialogue);
}

static fallible bash_attach(struct exec *exec, struct tape *aside, struct bash **out)
{
	struct bash *shell = mem_new_of(struct bash);
	struct err *err;

	shell->box = exec->box;
	box_ref(shell->box);
	shell->exec = exec;
	shell->refs = 1;
	shell->free_later.run = free_bash;
	shell->heard = BUF_INIT(SHELL_END_MAX + READ);
	shell->told = BUF_INIT(WORDS_MAX);
	tape_ref(aside);
	shell->aside = aside;
	err = open_ends(shell);
	if (!err && !exec_runs(exec))
		err = err_new(UNAVAILABLE, "box_lost", "the shell ended at once");
	if (err) {
		exec_kill(exec);
		exec_unref(exec);
		shell->exec = NULL;
		let_go(shell);
		return err;
	}
	exec_on_end(exec, bash_on_done, shell);
	exec->on_cpu = on_cpu;
	shell->refs++; // the reference of the exec
	*out = shell;
	return OK;
}

fallible bash_adopt(struct exec *exec, struct tape *aside, uint32_t sender, struct bash **out)
{
	TRY(bash_attach(exec, aside, out));
	(*out)->resync = true;
	(*out)->sender = (int)sender;
	return OK;
}

fallible bash_open(struct exec *exec, struct tape *aside, const char *cwd, struct bash **out)
{
	struct bash *shell = NULL;

	TRY(bash_attach(exec, aside, &shell));
	secret_random(&shell->mark, sizeof(shell->mark));
	shell_greet(&shell->told, cwd, shell->mark);
	shell->tape = aside;
	bash_send_next(shell);
	*out = shell;
	return OK;
}

static void bash_take_words(struct bash *shell, struct buf *words, uint64_t mark)
{
	buf_done(&shell->told);
	shell->told = *words;
	shell->told_at = 0;
	*words = (struct buf){0};
	shell->mark = mark;
}

fallible bash_open_other(struct exec *exec, struct tape *aside, struct buf *words, uint64_t mark,
			 struct bash **out)
{
	struct bash *shell = NULL;

	TRY(bash_attach(exec, aside, &shell));
	bash_take_words(shell, words, mark);
	shell->tape = aside;
	bash_send_next(shell);
	*out = shell;
	return OK;
}

void bash_send_other(struct bash *shell, struct buf *words, uint64_t mark, struct tape *tape)
{
	bash_take_words(shell, words, mark);
	shell->tape = tape;
	settle(shell, BASH_CLEARING);
}

void bash_send(struct bash *shell, struct buf *words, bool aside, const char *back,
	       struct tape *tape)
{
	uint64_t mark;

	secret_random(&mark, sizeof(mark));
	shell_say_end(words, aside, back, mark);
	bash_send_other(shell, words, mark, tape);
}

void bash_turn_aside(struct bash *shell, struct tape *aside)
{
	tape_ref(aside);
	tape_unref(shell->aside);
	shell->aside = aside;
	pipes_turn(&shell->pipes, aside);
}

void bash_drop(struct bash *shell)
{
	if (!shell)
		return;
	shell->sent = shell->ended = shell->lost = shell->closed = shell->spent = NULL;
	bash_kill(shell);
	bash_shut(shell);
	pipes_close(&shell->pipes);
	exec_unref(shell->exec);
	shell->exec = NULL;
	let_go(shell);
}
