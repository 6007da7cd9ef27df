// The table of everything that can live in a box: each row is called when the box ends, is left or
// is freed, in the order of the rows. Also creates struct box, whose socket dispatches each message
// of pid 1 to the kind that it is for.
#include <string.h>

#include "base/mem.h"
#include "box/box.h"
#include "box/exec_cgroup.h"
#include "box/private.h"
#include "box/session_record.h"
#include "loop/closer.h"

static void box_free_units(struct box *box)
{
	for (int i = 0; i < UNIT_TYPES; i++)
		map_free(box->units[i].by_id);
}

// clang-format off
static const struct box_kind kinds[] = {
	// name               lost                     stopped                  left                  freed                      drop the oldest output
	{"cgroups",          {NULL,                    NULL,                    NULL,                 box_exec_cgroup_free_all}, NULL},
	{"sync",             {box_sync_drop,           NULL,                    NULL,                 box_sync_drop},            NULL},
	{"network",          {NULL,                    NULL,                    NULL,                 box_net_drop},             NULL},
	{"processes",        {NULL,                    NULL,                    NULL,                 procs_free},               procs_let_oldest_go},
	{"adoption",         {box_adoption_lost,       NULL,                    NULL,                 NULL},                     NULL},
	{"prewarmed shells", {prewarmed_shells_end,    NULL,                    prewarmed_shells_end, prewarmed_shells_free},    NULL},
	{"commands",         {exec_end_all,            exec_end_all,            NULL,                 NULL},                     NULL},
	{"file workers",     {box_file_worker_end_all, box_file_worker_end_all, NULL,                 NULL},                     NULL},
	{"sessions",         {sessions_end,            sessions_end,            sessions_end,         session_records_free},     NULL},
	{"interpreters",     {contexts_end,            contexts_end,            contexts_close,       contexts_free},            contexts_let_oldest_go},
	{"terminals",        {terms_end,               terms_end,               terms_end,            NULL},                     NULL},
	{"tables",           {NULL,                    NULL,                    NULL,                 box_free_units},           NULL},
	{NULL,               {NULL,                    NULL,                    NULL,                 NULL},                     NULL},
};
// clang-format on

static void on_drained(struct channel *channel)
{
	exec_pay(link_of(channel, struct box, channel));
}

static void on_said(struct channel *channel, const struct talk *talk, int *fds, int count)
{
	struct box *box = link_of(channel, struct box, channel);

	if (talk->kind == TALK_HELD || talk->kind == TALK_HELD_END) {
		box_held(box, talk, fds, count);
		return;
	}
	if (talk->kind == TALK_SYNC) {
		box_sync_on_message(box, fds, count);
		return;
	}
	if (talk->kind != TALK_READY && talk->kind != TALK_BROKEN) {
		if (!box_file_worker_on_message(box, talk, fds, count))
			exec_on_message(box, talk, fds, count);
		return;
	}
	if (count > 0 || box->phase != BOX_GREETING) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 sent READY out of turn");
		return;
	}
	if (talk->kind == TALK_READY && talk->ready.version == TALK_VERSION) {
		box->phase = BOX_ALIVE;
		box->features = talk->ready.features;
	} else {
		box->phase = BOX_BROKEN;
		box->broken = *talk;
	}
	condition_signal(&box->greeted);
}

struct box *box_new(struct loop *loop, struct ask *ask, const char *id, int tapes_dir)
{
	struct box *box = mem_new_of(struct box);

	box->loop = loop;
	box->ask = ask;
	box->refs = 1;
	box->oom = box->net.listener = box->net.udp = box->sync.listener = -1;
	box->tapes_dir = tapes_dir;
	memcpy(box->id, id, sizeof(box->id));
	memcpy(box->at.box, id, sizeof(box->at.box));
	box->channel.said = on_said;
	box->channel.lost = box_on_lost;
	box->channel.drained = on_drained;
	box->free_later.run = box_free_later;
	box->kinds = kinds;
	box->cgroup_events = &exec_cgroup_events;
	condition_init(&box->greeted);
	condition_init(&box->cgroup_settled);
	for (int i = 0; i < UNIT_TYPES; i++)
		link_init(&box->units[i].all);
	box->session_records = mem_new_of(struct session_records);
	condition_init(&box->session_records->taken);
	link_init(&box->exec_cgroups);
	link_init(&box->clean);
	link_init(&box->doubt);
	link_init(&box->execs);
	link_init(&box->draining);
	link_init(&box->workers);
	condition_init(&box->worker_free);
	condition_init(&box->sync_unpacked);
	return box;
}
