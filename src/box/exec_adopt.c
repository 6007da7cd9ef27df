// An exec from one daemon to the next: the tag that it is started with, and how it is taken up
// again. What was known of it and is in no tag (who waits for it) went with the last daemon.
//
// Times in a tag are of this boot, for the box is: a limit goes on where it was. A pid 1 that lies
// about them gets what a command gets whose limits are new.
//
// syscalls: clock_gettime
#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_inner.h"
#include "box/leaf.h"

struct str exec_make_tag(struct exec *exec, const struct exec_spec *spec)
{
	static char room[TALK_TAG_MAX]; // one thread turns the loop
	struct tag tag = spec->tag ? *spec->tag : (struct tag){.kind = TAG_EXEC};

	if (!(exec->flags & TALK_EXEC_TAG))
		return STR("");
	tag.begun_us = exec->begun_us;
	tag.cpu_ms = exec->cpu_ms;
	tag.wall_ms = exec->wall_ms;
	tag.meter_us = exec->meter_us;
	tag.oom_kills = exec->oom_kills;
	tag.sender = exec->sender;
	if (!tag.started_ms)
		tag.started_ms = clock_wall_ms();
	exec->tag_len = tag_encode(&tag, room, sizeof(room));
	if (tag.kind == TAG_SESSION || tag.kind == TAG_CONTEXT) {
		free(exec->tag);
		exec->tag = mem_dup(room, exec->tag_len);
	}
	return (struct str){room, exec->tag_len};
}

// A full socket takes it later (exec_pay): the next daemon must find the last tag.
static void say_tag(struct exec *exec)
{
	static char room[TALK_TAG_MAX + 64];
	struct str tag = {exec->tag, exec->tag_len};
	struct talk talk = {.kind = TALK_TAG, .conv = exec->conv, .tag = tag};
	size_t len = talk_encode(&talk, room, sizeof(room));

	exec->owes_tag = len && exec->phase == EXEC_RUNNING &&
			 channel_say(&exec->box->channel, room, len, NULL, 0) == CHANNEL_FULL;
}

void exec_pay_tag(struct exec *exec)
{
	if (!exec->owes_tag)
		return;
	say_tag(exec);
	if (!exec->owes_tag)
		bell_ring(&exec->bell);
}

void exec_retag(struct exec *exec, const struct exec_spec *spec)
{
	struct str tag = exec_make_tag(exec, spec);

	if (!tag.len)
		return;
	free(exec->tag);
	exec->tag = mem_dup(tag.at, tag.len);
	say_tag(exec);
}

fallible exec_await_tag(struct exec *exec, int64_t deadline)
{
	while (exec->owes_tag && exec->phase == EXEC_RUNNING)
		TRY(bell_wait(&exec->bell, deadline), "tell pid 1 what a command is for");
	return OK;
}

void exec_tag_flag(struct exec *exec, uint32_t flag, bool on)
{
	if (!exec->tag || exec->phase != EXEC_RUNNING)
		return;
	exec->tag[TAG_FLAGS_AT] = (char)(on ? exec->tag[TAG_FLAGS_AT] | (int)flag
					    : exec->tag[TAG_FLAGS_AT] & ~(int)flag);
	say_tag(exec);
}

void exec_tag_sender(struct exec *exec, uint32_t sender)
{
	exec->sender = sender;
	if (exec->tag && exec->phase == EXEC_RUNNING &&
	    tag_set_sender(exec->tag, exec->tag_len, sender))
		say_tag(exec);
}

// What passed before we came counts.
static void go_on_limiting(struct exec *exec)
{
	struct loop *loop = exec->box->loop;
	int64_t passed_ms = (clock_us() - exec->begun_us) / 1000;
	uint64_t used = exec->leaf ? box_leaf_used_us(exec->leaf) : 0;
	uint64_t limit_us = exec->meter_us + exec->cpu_ms * 1000;

	if (exec->wall_ms) {
		int64_t left = (int64_t)exec->wall_ms - passed_ms;

		loop_set_timer(loop, &exec->timer, loop_now(loop) + (left > 0 ? left : 1));
	}
	if (exec->cpu_ms && exec->leaf)
		box_leaf_limit(exec->leaf, limit_us > used ? limit_us - used : 1);
}

fallible exec_adopt(struct box *box, const struct talk *talk, const struct tag *tag,
		    struct box_leaf *leaf, struct tape *tape, const int *fds, struct exec **out)
{
	struct exec_spec spec = {.tape = tape, .cpu_ms = tag->cpu_ms, .wall_ms = tag->wall_ms};
	struct exec *exec = exec_new(box, &spec);
	int64_t now = clock_us();
	struct err *err;

	exec->flags = talk->held.flags;
	exec->kept = exec->flags & TALK_EXEC_KEEP;
	exec->pipes.keep_in = exec->flags & TALK_EXEC_STDIN;
	exec->conv = talk->conv;
	exec->pid = talk->held.pid;
	exec->begun_us = tag->begun_us > 0 && tag->begun_us <= now ? tag->begun_us : now;
	exec->meter_us = tag->meter_us;
	exec->oom_kills = tag->oom_kills;
	exec->sender = tag->sender;
	exec->leaf = leaf;
	exec->phase = EXEC_RUNNING;
	exec->stage = STAGE_LIMIT;
	if ((tag->kind == TAG_SESSION || tag->kind == TAG_CONTEXT) && talk->held.tag.len) {
		exec->tag_len = talk->held.tag.len;
		exec->tag = mem_dup(talk->held.tag.at, exec->tag_len);
	}
	exec_list(exec);
	if (leaf)
		box_leaf_begin(leaf, exec);
	err = exec_open_ends(exec, fds);
	if (err) {
		exec_drop(exec);
		return err;
	}
	go_on_limiting(exec);
	*out = exec;
	return OK;
}
